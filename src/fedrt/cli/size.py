"""`fedrt size`: the least or greatest value of a setting that meets a deadline."""

from __future__ import annotations

import argparse
import json

from fedrt.cli.parser import (
    Commands,
    Parser,
    add_command,
    add_seeds_and_output,
    read_seeds,
    save_picture,
)
from fedrt.cli.study import add_resume, opened_study, take_up

ASKED = ("deadline", "vary", "policy", "seeds", "find", "allow_overspend")
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
        default="fedrt-plus",
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
    """Search; print the answer and all values tried, or JSON; save both and a figure."""
    from rich.console import Console

    from fedrt.policies import make_policy
    from fedrt.report.figures import size_figure
    from fedrt.report.progress import round_progress
    from fedrt.report.tables import size_table
    from fedrt.studies.size_answer import (
        answer_label,
        save_size,
        size_data,
        size_sentence,
        unreachable,
    )
    from fedrt.studies.sizing import policy_at, size
    from fedrt.studies.span import fit_span, read_span
    from fedrt.system.files import gone_unless
    from fedrt.units import read_duration

    take_up(args, "size", ASKED)
    deadline_s, seeds = read_duration(args.deadline, "--deadline"), read_seeds(args.seeds)
    span, scenario = fit_span(read_span(args.vary), args.scenario, args.settings)
    make_policy(policy_at(span, args.policy, span.low))
    with opened_study(args, "size", ASKED, [scenario], {"vary": args.vary}) as study:
        out = study.out
        with (
            gone_unless(out, "size.json", fresh=study.fresh),
            round_progress(None, quiet=args.json) as progress,
        ):
            found = size(
                args.scenario,
                span,
                deadline_s,
                args.policy,
                seeds,
                args.settings,
                progress,
                wanted=args.find,
                overspend=args.allow_overspend,
                kept=study.points,
            )
            if found.answer is None:
                raise unreachable(found)
        save_size(out, found, args.policy, scenario.name, seeds)
        label = answer_label(found, args.policy)
        save_picture(lambda: size_figure(found, label, scenario.name), out, "size")
    if args.json:
        print(json.dumps(size_data(found, args.policy, scenario.name), allow_nan=False))
        return
    Console().print(size_table(found, seeds, label))
    print(size_sentence(found, args.policy))
    if found.note is not None:
        print(f"note: {found.note}")
    print(f"saved in {out}")
