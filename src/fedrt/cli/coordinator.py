"""`fedrt coordinator`: run a scenario on real devices."""

from __future__ import annotations

import argparse

from fedrt.cli.parser import Commands, Parser, add_command
from fedrt.cli.party import add_party, given


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "run a scenario on real devices, by way of their edge servers"
    parser = add_command(commands, "coordinator", run, text)
    parser.add_argument(
        "scenario", nargs="?", metavar="SCENARIO", help="a TOML file or a shipped scenario"
    )
    parser.add_argument("--name", metavar="NAME", default="coordinator", help="in its certificate")
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
    import fedrt

    own = ("name", "edges", "data", "policy", "out", "wait_s", "least_devices", "deadline_factor")
    done = fedrt.coordinator(args.scenario, **given(args, *own, "least_deadline_s"))
    if done is None:
        print("coordinator: nothing is wrong")
        return
    summary = done.outcome
    print(f"{summary['total_time_s']:.2f} s in {summary['global_rounds']} global rounds")
    print(f"saved in {done.folder}; look at it: fedrt report {done.folder}")
