"""`fedrt device`: the agent of one real device."""

from __future__ import annotations

import argparse

from fedrt.cli.parser import Commands, Parser, add_command
from fedrt.cli.party import add_party, given


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "run the agent of a device: it trains on its own data what its edge server orders"
    parser = add_command(commands, "device", run, text)
    parser.add_argument("name", metavar="NAME", help="device-0, device-1, ... of the scenario")
    parser.add_argument("--edge", metavar="HOST:PORT", help="of its edge server")
    parser.add_argument("--data", metavar="FILE", help="its samples, from fedrt data split")
    parser.add_argument("--scenario", metavar="FILE", help="a TOML file or a shipped scenario")
    parser.add_argument("--state", metavar="DIR", help="default: state/NAME")
    parser.add_argument("--threads", metavar="N", help="of the processor; default: 1")
    parser.add_argument(
        "--preload",
        action="store_true",
        default=None,
        help="load torch and the model at the start, and not with the first order",
    )
    parser.add_argument(
        "--bandwidth", metavar="NAME", help="what enforces upload rates: pacer; default: none"
    )
    parser.add_argument(
        "--cpu",
        metavar="NAME",
        help="duty, cgroup or cpufreq: enforces CPU frequencies; default: none",
    )
    parser.add_argument(
        "--cpu-share",
        metavar="SHARE",
        help="the share of this processor that stands for cpu_max_hz; default: 1",
    )
    parser.add_argument(
        "--meter", metavar="NAME", help="of energy: rapl, ina, hwmon, none; default: what is there"
    )
    add_party(parser)


def run(args: argparse.Namespace) -> None:
    """Attend to the edge server until SIGTERM or Ctrl-C."""
    import fedrt

    own = ("scenario", "edge", "data", "state", "threads", "preload")
    held = ("bandwidth", "cpu", "cpu_share", "meter")
    settings = fedrt.device(args.name, **given(args, *own, *held))
    if args.check:
        print(f"{settings.name}: nothing is wrong; it belongs to {settings.own_edge}")
