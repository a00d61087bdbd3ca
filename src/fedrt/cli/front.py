"""`fedrt front`: the trade-off of time and energy, over budgets and policies."""

from __future__ import annotations

import argparse
import json
from functools import partial

from fedrt.cli.parser import (
    Commands,
    Parser,
    add_command,
    add_comparison,
    read_policies,
    read_seeds,
    save_picture,
)
from fedrt.cli.study import add_resume, opened_study, take_up

ASKED = ("budgets", "policies", "seeds")


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "front", run, "time against energy over energy budgets")
    parser.add_argument("scenario", nargs="?", help="a shipped scenario or a TOML file")
    parser.add_argument(
        "--budgets",
        metavar="b1,b2,...",
        help="J per edge round; default: nine from 0.5 to 4 times the scenario's own",
    )
    add_comparison(parser)
    add_resume(parser, "scenario")


def run(args: argparse.Namespace) -> None:
    """Run every policy under every budget; print a table or JSON; save data and figure."""
    from rich.console import Console

    from fedrt.report.figures import front_figure
    from fedrt.report.progress import round_progress
    from fedrt.report.tables import front_table
    from fedrt.studies.front import (
        BUDGET,
        default_budgets,
        front_data,
        front_points,
        read_budgets,
        save_front,
    )
    from fedrt.studies.labels import labelled_sweep
    from fedrt.studies.sweep import plan_sweep, run_sweep
    from fedrt.system.files import gone_unless

    take_up(args, "front", ASKED)
    policies, seeds = read_policies(args.policies), read_seeds(args.seeds)
    if args.budgets is None:
        budgets = default_budgets(args.scenario, args.settings)
    else:
        budgets = read_budgets(args.budgets)
    vary = {BUDGET: [repr(budget) for budget in budgets]}
    sweep = plan_sweep(args.scenario, vary, policies, seeds, args.settings)
    scenarios = [point.scenario for point in sweep.points]
    with opened_study(args, "front", ASKED, scenarios, {"vary": sweep.vary}) as study:
        out = study.out
        with (
            gone_unless(out, "front.json", fresh=study.fresh),
            round_progress(sweep.rounds, quiet=args.json) as progress,
        ):
            outcomes = run_sweep(sweep, partial(save_front, out, sweep), progress, study.points)
        shown, renamed = labelled_sweep(sweep, outcomes)
        points = front_points(renamed)
        save_picture(lambda: front_figure(shown, points), out, "front")
    if args.json:
        print(json.dumps(front_data(sweep, outcomes), allow_nan=False))
        return
    Console().print(front_table(shown, points))
    print(f"saved in {out}")
