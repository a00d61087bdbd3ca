"""`fedrt calibrate`: measures this machine as a device of a scenario."""

from __future__ import annotations

import argparse

from fedrt.cli.device import OWN, add_device
from fedrt.cli.parser import Commands, Parser, add_command, note, read_list
from fedrt.cli.party import WHO, add_who


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "measure this machine as a device, and write its class for the scenario"
    parser = add_command(commands, "calibrate", run, text)
    add_device(parser)
    parser.add_argument(
        "--shares", metavar="A,B,...", help="of full speed, to train at; default: 0.25,0.5,1"
    )
    parser.add_argument(
        "--seconds", type=float, default=1.0, metavar="S", help="of a measurement; default: 1"
    )
    parser.add_argument(
        "--repeats", type=int, default=3, metavar="N", help="of each measurement; default: 3"
    )
    parser.add_argument(
        "--anyway", action="store_true", help="write the class even where the fit is bad"
    )
    parser.add_argument("--out", metavar="FILE", help="a new TOML file; default: standard output")
    add_who(parser)


def run(args: argparse.Namespace) -> None:
    """Measure, and print or write the class."""
    import fedrt

    shares = None if args.shares is None else read_list(args.shares, "--shares")
    names = (*WHO, *OWN, "seconds", "repeats", "anyway", "out")
    asked = {name: getattr(args, name) for name in names}
    found = fedrt.calibrate(args.name, shares=shares, **asked)
    if found.path is None:
        print(found.text(), end="")
        return
    for line in found.lines():
        note(line)
    cycles = f"{found.cycles_per_sample:.6g} cycles per sample"
    print(f"{found.device}: {cycles}, header factor {found.header_factor:.4f}; in {found.path}")
