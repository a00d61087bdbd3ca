"""`fedrt estimate`: the time and energy of training, without training."""

from __future__ import annotations

import argparse
import json

from fedrt.cli.parser import Commands, Parser, add_command, add_comparison


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands, "estimate", run, "how long training takes and what it costs, without training"
    )
    parser.add_argument(
        "scenario",
        nargs="?",
        default="quickstart",
        help="a shipped scenario or a TOML file; default: quickstart",
    )
    add_comparison(parser)
    parser.add_argument(
        "--device-rows",
        action=argparse.BooleanOptionalAction,
        help="keep a row per device and edge round; default: up to 1,000 devices",
    )


def run(args: argparse.Namespace) -> None:
    """Estimate every policy on every seed; print a table or JSON; save the runs."""
    import fedrt
    from fedrt.report.tables import print_comparison
    from fedrt.studies.estimates import comparison

    result = fedrt.estimate(
        args.scenario,
        policies=args.policies,
        seeds=args.seeds,
        settings=args.settings,
        out=args.out,
        overwrite=args.overwrite,
        device_rows=args.device_rows,
        progress=not args.json,
    )
    if args.json:
        print(json.dumps(comparison(result.scenario.name, result.outcomes), allow_nan=False))
        return
    print_comparison(result.scenario, result.outcomes)
    print(f"saved in {result.folder}")
