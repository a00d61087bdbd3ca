"""`fedrt size`: the least or greatest value of a setting that meets a deadline."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fedrt.cli.parser import (
    Commands,
    Parser,
    add_command,
    add_resume,
    add_seeds_and_output,
    check_required,
    show_study,
)

if TYPE_CHECKING:
    from rich.console import Console

WANTED = ("least", "greatest")


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "the least or greatest value of a setting that makes a deadline within all budgets"
    parser = add_command(commands, "size", run, text)
    parser.add_argument("scenario", nargs="?", help="a shipped scenario or a TOML file")
    parser.add_argument("--deadline", metavar="10h", help="90s, 45m, 10h, 2d, 1h30m")
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KEY=lo..hi",
        help="a setting and its range, e.g. bandwidth.scale=0.5..8",
    )
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help="name or import path; default: fedrt-plus",
    )
    parser.add_argument(
        "--find",
        choices=WANTED,
        help="default: the greatest where more is worse, the least elsewhere",
    )
    parser.add_argument(
        "--allow-overspend",
        action="store_true",
        help="take answers with devices over their energy budget too, and say by how much",
    )
    add_seeds_and_output(parser)
    add_resume(parser, "scenario", "--deadline", "--vary")


def run(args: argparse.Namespace) -> None:
    """Search; print the answer and all values tried, or JSON; save both and a figure.

    Where no value will do, that is the error, after all of that.
    """
    import fedrt
    from fedrt.report.tables import size_table
    from fedrt.studies.size_answer import unreachable

    check_required(args)
    result = fedrt.size(
        args.scenario,
        deadline=args.deadline,
        vary=args.vary,
        policy=args.policy,
        find=args.find,
        allow_overspend=args.allow_overspend,
        seeds=args.seeds,
        settings=args.settings,
        out=args.out,
        overwrite=args.overwrite,
        resume=args.resume,
        progress=not args.json,
    )

    def show(out: Console) -> None:
        found, label, seeds = result.found
        out.print(size_table(found, seeds, label))
        if found.answer is not None:
            print(result.data["sentence"])
        if found.note is not None:
            print(f"note: {found.note}")

    show_study(result, args.json, show, "size")
    if result.found[0].answer is None:
        raise unreachable(result.found[0])
