"""`fedrt sweep`: an estimate for every combination of varied settings."""

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

ASKED = ("vary", "policies", "seeds")


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
    from rich.console import Console

    from fedrt.report.figures import sweep_figure
    from fedrt.report.progress import round_progress
    from fedrt.report.tables import sweep_table
    from fedrt.studies.labels import labelled_sweep
    from fedrt.studies.sweep import plan_sweep, read_vary, run_sweep, save_sweep, sweep_data
    from fedrt.system.files import gone_unless

    take_up(args, "sweep", ASKED)
    policies, seeds = read_policies(args.policies), read_seeds(args.seeds)
    sweep = plan_sweep(args.scenario, read_vary(args.vary), policies, seeds, args.settings)
    scenarios = [point.scenario for point in sweep.points]
    with opened_study(args, "sweep", ASKED, scenarios, {"vary": sweep.vary}) as study:
        out = study.out
        with (
            gone_unless(out, "sweep.json", fresh=study.fresh),
            round_progress(sweep.rounds, quiet=args.json) as progress,
        ):
            outcomes = run_sweep(sweep, partial(save_sweep, out, sweep), progress, study.points)
        shown = labelled_sweep(sweep, outcomes)
        save_picture(lambda: sweep_figure(*shown), out, "sweep")
    if args.json:
        print(json.dumps(sweep_data(sweep, outcomes), allow_nan=False))
        return
    Console().print(sweep_table(*shown))
    print(f"saved in {out}")
