"""`fedrt bound`: a lower bound on the time of plans of the same work, and policies above it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fedrt.cli.parser import (
    Commands,
    Parser,
    add_command,
    add_out,
    add_policies,
    add_resume,
    add_settings,
    show_study,
)
from fedrt.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = (
        "a time that no plan of the same work undercuts within fedrt's contraction and energy,"
        " and how far above it each policy is"
    )
    parser = add_command(commands, "bound", run, text)
    parser.add_argument("scenario", nargs="?", help="a shipped scenario or a TOML file")
    parser.add_argument(
        "--run", dest="directory", metavar="DIR", help="a run's scenario, seed and distances"
    )
    add_policies(parser)
    parser.add_argument("--seeds", metavar="0,1,...", help="default: 0")
    parser.add_argument(
        "--rho",
        default=None,
        metavar="X",
        help="the most that a round's mixing may leave of the distances, or none;"
        " default: the scenario's, else what fedrt leaves in that round",
    )
    add_out(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    add_settings(parser)
    add_resume(parser)


def run(args: argparse.Namespace) -> None:
    """Bound every seed's world and run every policy in it; print a table or JSON."""
    import fedrt
    from fedrt.policies.spec import policy_labels
    from fedrt.report.answers.bounds import bound_answer
    from fedrt.report.bound import bound_table
    from fedrt.report.tables import print_answer

    if args.scenario is None and args.directory is None and args.resume is None:
        raise InputError("fedrt bound: give a scenario or --run DIR; try fedrt bound --help")
    result = fedrt.bound(
        args.scenario,
        run=args.directory,
        policies=args.policies,
        seeds=args.seeds,
        rho=args.rho,
        settings=args.settings,
        out=args.out,
        overwrite=args.overwrite,
        resume=args.resume,
        progress=not args.json,
    )

    def show(out: Console) -> None:
        out.print(bound_table(*result.found))
        labels = policy_labels({run.policy: run.own_name for run in result.found[1][0].runs})
        print_answer(out, bound_answer(result.data, labels))

    show_study(result, args.json, show, None)
