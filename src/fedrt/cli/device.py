"""`fedrt device`: the agent of one real device."""

from __future__ import annotations

import argparse

from fedrt.cli.parser import Commands, Parser, add_command
from fedrt.cli.party import add_party, given

OWN = ("scenario", "edge", "data", "state", "threads", "cpu", "cpu_share", "core_step_s", "meter")


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "run the agent of a device: it trains on its own data what its edge server orders"
    parser = add_command(commands, "device", run, text)
    add_device(parser)
    parser.add_argument(
        "--preload",
        action="store_true",
        default=None,
        help="load torch and the model at the start, and not with the first order",
    )
    parser.add_argument(
        "--bandwidth", metavar="NAME", help="what enforces upload rates: pacer; default: none"
    )
    add_party(parser)


def add_device(parser: Parser) -> None:
    """Add the options that say what device it is, and what holds it to shares of the CPU."""
    parser.add_argument("name", metavar="NAME", help="device-0, device-1, ... of the scenario")
    parser.add_argument("--edge", metavar="HOST:PORT", help="of its edge server")
    parser.add_argument("--data", metavar="FILE", help="its samples, from fedrt data split")
    parser.add_argument("--scenario", metavar="FILE", help="a TOML file or a shipped scenario")
    parser.add_argument("--state", metavar="DIR", help="default: state/NAME")
    parser.add_argument("--threads", metavar="N", help="of the processor; default: 1")
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
        "--core-step-s",
        metavar="S",
        help="seconds of a local step on the whole processor, which shares of it then count in;"
        " default: they count in CPU time",
    )
    parser.add_argument(
        "--meter", metavar="NAME", help="of energy: rapl, ina, hwmon, none; default: what is there"
    )


def run(args: argparse.Namespace) -> None:
    """Attend to the edge server until SIGTERM or Ctrl-C."""
    import fedrt

    settings = fedrt.device(args.name, **given(args, *OWN, "bandwidth", "preload"))
    if args.check:
        print(f"{settings.name}: nothing is wrong; it belongs to {settings.own_edge}")
