"""`fedrt front`: the trade-off of time and energy, over budgets and policies."""

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
    parser = add_command(commands, "front", run, "time against energy over energy budgets")
    parser.add_argument("scenario", nargs="?", help="a shipped scenario or a TOML file")
    parser.add_argument(
        "--budgets",
        metavar="b1,b2,...",
        help="J per edge round; default: nine from 0.5 to 4 times the scenario's own budgets",
    )
    add_comparison(parser)
    add_resume(parser, "scenario")


def run(args: argparse.Namespace) -> None:
    """Run every policy under every budget; print a table or JSON; save data and figure."""
    import fedrt
    from fedrt.report.answers.sweeps import front_answer
    from fedrt.report.tables import front_table, print_answer

    check_required(args)
    result = fedrt.front(
        args.scenario,
        budgets=args.budgets,
        policies=args.policies,
        seeds=args.seeds,
        settings=args.settings,
        out=args.out,
        overwrite=args.overwrite,
        resume=args.resume,
        progress=not args.json,
    )

    def show(out: Console) -> None:
        out.print(front_table(*result.found))
        print_answer(out, front_answer(result.data))

    show_study(result, args.json, show, "front")
