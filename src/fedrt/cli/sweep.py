"""`fedrt sweep`: an estimate for every combination of varied settings."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fedrt.cli.parser import (
    Commands,
    Parser,
    add_command,
    add_comparison,
    add_resume,
    check_required,
    show_study,
)

if TYPE_CHECKING:
    from rich.console import Console


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "an estimate for every combination of varied settings"
    parser = add_command(commands, "sweep", run, text)
    parser.add_argument("scenario", nargs="?", help="a shipped scenario or a TOML file")
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KEY=v1,v2,...",
        help="a setting and its values, e.g. backhaul.scale=1,2; may be repeated",
    )
    add_comparison(parser)
    add_resume(parser, "scenario", "--vary")


def run(args: argparse.Namespace) -> None:
    """Check and run every point; save table, data and figure; print a table or JSON."""
    import fedrt
    from fedrt.report.answers.sweeps import sweep_answer
    from fedrt.report.tables import print_answer, sweep_table
    from fedrt.studies.labels import labelled_sweep

    check_required(args)
    result = fedrt.sweep(
        args.scenario,
        vary=args.vary,
        policies=args.policies,
        seeds=args.seeds,
        settings=args.settings,
        out=args.out,
        overwrite=args.overwrite,
        resume=args.resume,
        progress=not args.json,
    )

    def show(out: Console) -> None:
        out.print(sweep_table(*labelled_sweep(*result.found)))
        print_answer(out, sweep_answer(result.data))

    show_study(result, args.json, show, "sweep")
