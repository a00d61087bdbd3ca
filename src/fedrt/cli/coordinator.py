"""`fedrt coordinator`: run a scenario on real devices."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedrt.cli.parser import Commands, Parser, add_command, typed_command
from fedrt.cli.party import add_party, only_checked, settings_of


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "run a scenario on real devices, by way of their edge servers"
    parser = add_command(commands, "coordinator", run, text)
    parser.add_argument(
        "scenario", nargs="?", metavar="SCENARIO", help="a TOML file or a shipped scenario"
    )
    parser.add_argument(
        "--edges", metavar="HOST:PORT,...", help="of all edge servers, edge-0 first"
    )
    parser.add_argument("--data", metavar="FILE", help="server.npz from fedrt data split")
    parser.add_argument("--policy", metavar="NAME", help="name or import path; default: fedrt")
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="the run directory; if it is there, the run goes on; default:"
        " runs/devices-SCENARIO-POLICY-SEED",
    )
    parser.add_argument("--wait", dest="wait_s", metavar="S", help="for devices; default: 60")
    parser.add_argument(
        "--least-devices", metavar="N", help="without which no round begins; default: 1"
    )
    parser.add_argument(
        "--deadline-factor", metavar="X", help="of a round's planned time; default: 3"
    )
    parser.add_argument(
        "--least-deadline", dest="least_deadline_s", metavar="S", help="default: 30"
    )
    add_party(parser)


def run(args: argparse.Namespace) -> None:
    """Run or go on with a run; print each global round and the outcome."""
    from fedrt.devices.common.settings import CoordinatorSettings
    from fedrt.devices.parties import coordinate
    from fedrt.records.directory import run_name
    from fedrt.runs.rounds import GlobalRound

    own = ("edges", "data", "policy", "out", "wait_s", "least_devices", "deadline_factor")
    settings = settings_of(CoordinatorSettings, args, "coordinator", *own, "least_deadline_s")
    if only_checked(args, settings):
        return
    name = f"devices-{settings.scenario.name}-{run_name(settings.policy, settings.seed)}"
    path = Path(settings.out or Path("runs") / name.replace("/", "-"))

    def told(done: GlobalRound) -> None:
        planned = sum(float(turn.outcome.planned.edge_time_s.max()) for turn in done.edge_rounds)
        measured = sum(float(turn.outcome.cost.edge_time_s.max()) for turn in done.edge_rounds)
        came = sum(int(turn.outcome.delivered.sum()) for turn in done.edge_rounds)
        asked = sum(len(turn.outcome.delivered) for turn in done.edge_rounds)
        found = done.metrics.get("accuracy")
        line = f"global round {done.last.t + 1}: {done.time_s:.2f} s, training {measured:.2f} s"
        line += f" (predicted {planned:.2f}), {came} of {asked} updates"
        if found is not None and found == found:
            line += f", accuracy {found:.4f}"
        print(line, flush=True)

    summary = coordinate(settings, path, typed_command(), progress=told)
    print(f"{summary['total_time_s']:.2f} s in {summary['global_rounds']} global rounds")
    print(f"saved in {path}; look at it: fedrt report {path}")
