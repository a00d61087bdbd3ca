"""`fedrt bound`: the least time any plan could take, and each policy's distance to it."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fedrt.cli.parser import (
    Commands,
    Parser,
    add_command,
    add_out,
    add_policies,
    add_settings,
    read_policies,
    read_seeds,
)
from fedrt.cli.study import add_resume, opened_study, take_up
from fedrt.errors import InputError
from fedrt.validation import shown

if TYPE_CHECKING:
    from fedrt.scenario import Scenario

ASKED = ("directory", "policies", "seeds", "rho")


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "a time that no plan can undercut, and how far above it each policy is"
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
        " default: the scenario's, else the median of policy fedrt",
    )
    add_out(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    add_settings(parser)
    add_resume(parser)


def run(args: argparse.Namespace) -> None:
    """Bound every seed's world and run every policy in it; print a table or JSON."""
    from rich.console import Console

    from fedrt.records.recorded import recorded_distances, stand_in_distances
    from fedrt.report.bound import bound_table
    from fedrt.report.progress import round_progress, say_without_terminal
    from fedrt.runs.loop import make_world
    from fedrt.studies.bound import REFERENCE, bound_data, compare_to_bound, scenario_limit
    from fedrt.system.files import gone_unless, write_json
    from fedrt.units import readable_time

    take_up(args, "bound", ASKED)
    policies, rho = read_policies(args.policies), read_rho(args.rho)
    scenario, seeds = _worlds(args)
    if rho == "":
        rho = scenario_limit(scenario)
    names = policies if REFERENCE in policies else [*policies, REFERENCE]
    results = []
    total = len(names) * len(seeds) * scenario.rounds.global_rounds
    with (
        opened_study(args, "bound", ASKED, [scenario], {}) as study,
        gone_unless(study.out, "bound.json", fresh=study.fresh),
        round_progress(total, quiet=args.json, lines=True) as progress,
    ):
        for seed in seeds:
            world = make_world(scenario, seed)
            if args.directory is None:
                distances = stand_in_distances(world)
            else:
                distances = recorded_distances(Path(args.directory), world)
            step = progress("policies", seed) if progress is not None else None
            results.append(compare_to_bound(world, distances, policies, rho, step, study.points))
            if progress is not None:
                least = readable_time(results[-1].bound.time_s)
                say_without_terminal(f"seed {seed}: no plan is quicker than {least}")
        data = bound_data(scenario.name, results)
        write_json(study.out / "bound.json", data)
    if args.json:
        print(json.dumps(data, allow_nan=False))
        return
    Console().print(bound_table(scenario, results))
    print(f"saved in {study.out}")


def _worlds(args: argparse.Namespace) -> tuple[Scenario, list[int]]:
    """The scenario and the seeds to bound: those of a run, or as given."""
    from fedrt.records.directory import read_run
    from fedrt.scenario import load_scenario

    given = [args.scenario, args.seeds, *args.settings] if args.resume is None else []
    if args.directory is not None:
        if any(word is not None for word in given):
            raise InputError(
                f"--run {shown(args.directory)}: brings its own scenario and seed; leave out"
                " SCENARIO, --seeds and --set"
            )
        args.directory = os.path.abspath(args.directory)
        saved = read_run(Path(args.directory))
        scenario, seeds = saved.scenario, [saved.seed]
        args.scenario = str(Path(args.directory) / "config.toml")
    elif args.scenario is None:
        raise InputError("fedrt bound: give a scenario or --run DIR; try fedrt bound --help")
    else:
        scenario = load_scenario(args.scenario, args.settings)
        seeds = read_seeds(args.seeds or "0")
    if scenario.faults is not None:
        raise InputError("scenario.faults: the bound is for fleets that do not fail; leave it out")
    return scenario, seeds


def read_rho(text: str | None) -> float | str | None:
    """A number from 0 to 1, or None for `none`."""
    if text is None:
        return ""
    if text == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InputError(f"--rho {shown(text)}: must be a number from 0 to 1, or none")
    return value
