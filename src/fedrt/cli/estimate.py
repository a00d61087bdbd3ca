"""`fedrt estimate`: the time and energy of training, without training."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from fedrt.cli.parser import (
    Commands,
    Parser,
    add_command,
    add_comparison,
    in_folder,
    read_policies,
    read_seeds,
    typed_command,
)

if TYPE_CHECKING:
    from fedrt.records.summary import Summary


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
    from fedrt.report.progress import round_progress
    from fedrt.report.tables import print_comparison
    from fedrt.scenario import load_scenario
    from fedrt.studies.estimates import comparison, estimate

    scenario = load_scenario(args.scenario, args.settings)
    policies, seeds = read_policies(args.policies), read_seeds(args.seeds)
    runs = len(policies) * len(seeds)
    with round_progress(runs * scenario.rounds.global_rounds, quiet=args.json) as progress:

        def run_in(out: Path) -> tuple[Path, dict[str, list[Summary]]]:
            return out, estimate(
                scenario,
                policies,
                seeds,
                out,
                command=typed_command(),
                device_rows=args.device_rows,
                progress=progress,
            )

        out, results = in_folder(args, "estimate", scenario.name, run_in)
    if args.json:
        print(json.dumps(comparison(scenario.name, results), allow_nan=False))
        return
    print_comparison(scenario, results)
    print(f"saved in {out}")
