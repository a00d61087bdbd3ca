"""`fedrt compare`: several policies trained on the same worlds."""

from __future__ import annotations

import argparse
import json

from fedrt.cli.parser import (
    Commands,
    Parser,
    add_command,
    add_comparison,
    out_folder,
    read_policies,
    read_seeds,
    save_picture,
    typed_command,
)
from fedrt.cli.run import add_training, read_options

PAPER = "fedrt,static-r,static-t,ce-fedavg,mll-sgd"


def add(commands: Commands[Parser]) -> None:
    """Put the command on the command line."""
    text = "train several policies on the same worlds, equal work done once"
    parser = add_command(commands, "compare", run, text)
    parser.add_argument(
        "scenario",
        nargs="?",
        default="quickstart",
        help="a shipped scenario or a TOML file; default: quickstart",
    )
    add_comparison(parser, PAPER)
    add_training(parser)


def run(args: argparse.Namespace) -> None:
    """Train every policy on every seed; print a table or JSON; save runs and a picture."""
    from fedrt.report.learning import accuracy_figure, print_training_comparison
    from fedrt.report.progress import comparison_progress
    from fedrt.runs.compare import compare, training_comparison
    from fedrt.scenario import load_scenario

    scenario = load_scenario(args.scenario, args.settings)
    policies, seeds = read_policies(args.policies), read_seeds(args.seeds)
    options = read_options(args)
    out = out_folder(args.out, "compare", scenario.name)
    total = len(policies) * len(seeds) * scenario.rounds.global_rounds
    with comparison_progress(total, quiet=args.json) as progress:
        results = compare(
            scenario, policies, seeds, out, options, command=typed_command(), progress=progress
        )
    save_picture(lambda: accuracy_figure(out, policies, seeds), out, "accuracy")
    if args.json:
        print(json.dumps(training_comparison(scenario.name, results), allow_nan=False))
        return
    print_training_comparison(scenario, results)
    print(f"saved in {out}")
