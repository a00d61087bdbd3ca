"""`fedrt compare`: several policies trained on the same worlds."""

from __future__ import annotations

import argparse
import json

from fedrt.cli.parser import Commands, Parser, add_command, add_comparison, save_picture
from fedrt.cli.run import add_checkpoints, add_training, training_options


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
    parser.add_argument("--resume", metavar="DIR", help="go on with a comparison that was stopped")
    add_training(parser)
    add_checkpoints(parser)
    parser.add_argument(
        "--keep-models", action="store_true", help="keep the final models, for fedrt export"
    )


def run(args: argparse.Namespace) -> None:
    """Train every policy on every seed; print a table or JSON; save runs and a figure."""
    import fedrt
    from fedrt.report.learning import accuracy_figure, print_training_comparison
    from fedrt.studies.compare import training_comparison

    result = fedrt.compare(
        args.scenario,
        policies=args.policies,
        seeds=args.seeds,
        settings=args.settings,
        out=args.out,
        overwrite=args.overwrite,
        resume=args.resume,
        progress=not args.json,
        **training_options(args),
    )
    outcomes, out = result.outcomes, result.folder
    seeds = [run["seed"] for run in next(iter(outcomes.values()))]
    save_picture(
        lambda: accuracy_figure(out, list(outcomes), seeds, result.labels), out, "accuracy"
    )
    if args.json:
        print(json.dumps(training_comparison(result.scenario.name, outcomes), allow_nan=False))
        return
    print_training_comparison(result.scenario, outcomes)
    print(f"saved in {out}")
