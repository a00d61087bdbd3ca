"""`fedrt compare`: several policies trained on the same worlds."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from fedrt.cli.parser import (
    ALL,
    Commands,
    Parser,
    add_command,
    add_comparison,
    in_folder,
    read_policies,
    read_seeds,
    save_picture,
    typed_command,
)
from fedrt.cli.run import add_checkpoints, add_training, again, note, read_options, resumed_path
from fedrt.system.extras import need

if TYPE_CHECKING:
    from fedrt.studies.compare import Comparison


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "train several policies on the same worlds, equal work done once"
    parser = add_command(commands, "compare", run, text)
    parser.add_argument(
        "scenario",
        nargs="?",
        help="a shipped scenario or a TOML file; default: quickstart",
    )
    add_comparison(parser)
    # None where nothing is given: with --resume nothing else may be.
    parser.set_defaults(policies=None, seeds=None)
    parser.add_argument("--resume", metavar="DIR", help="go on with a comparison that was stopped")
    add_training(parser)
    add_checkpoints(parser)


def run(args: argparse.Namespace) -> None:
    """Train every policy on every seed; print a table or JSON; save runs and a figure."""
    from fedrt.report.learning import accuracy_figure, print_training_comparison
    from fedrt.report.progress import comparison_progress
    from fedrt.studies.compare import go_on, read_comparison, training_comparison
    from fedrt.studies.labels import labels_of

    fresh = args.resume is None
    said = _started(args) if fresh else read_comparison(resumed_path(args), args.address, note)
    total = len(said.policies) * len(said.seeds) * said.scenario.rounds.global_rounds
    with comparison_progress(total, quiet=args.json) as progress:
        try:
            results = go_on(said, progress, note, fresh=fresh)
        except KeyboardInterrupt:
            note(f"stopped; go on with: {again('compare', said.out)}")
            raise
    labels = labels_of([results])
    save_picture(
        lambda: accuracy_figure(said.out, said.policies, said.seeds, labels), said.out, "accuracy"
    )
    if args.json:
        print(json.dumps(training_comparison(said.scenario.name, results), allow_nan=False))
        return
    print_training_comparison(said.scenario, results)
    print(f"saved in {said.out}")


def _started(args: argparse.Namespace) -> Comparison:
    """Create the folder of a new comparison."""
    from fedrt.policies import make_policy
    from fedrt.scenario import load_scenario
    from fedrt.studies.compare import start_comparison

    need("training", "torch")
    scenario = load_scenario(args.scenario or "quickstart", args.settings)
    policies = read_policies(ALL if args.policies is None else args.policies)
    seeds = read_seeds("0" if args.seeds is None else args.seeds)
    options = read_options(args)
    for name in policies:
        make_policy(name)  # complains before anything is made or overwritten

    def start(out: Path) -> Comparison:
        return start_comparison(scenario, policies, seeds, out, options, typed_command())

    return in_folder(args, "compare", scenario.name, start)
