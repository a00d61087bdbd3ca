"""`fedrt edge`: an edge server for real devices."""

from __future__ import annotations

import argparse

from fedrt.cli.parser import Commands, Parser, add_command
from fedrt.cli.party import add_party, given


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "run an edge server: it orders its devices, averages, and gossips with its neighbours"
    parser = add_command(commands, "edge", run, text)
    parser.add_argument("name", metavar="NAME", help="edge-0, edge-1, ... of the scenario")
    parser.add_argument("--listen", metavar="HOST:PORT", help="default: 127.0.0.1:7100")
    parser.add_argument(
        "--coordinator", metavar="NAME", help="whose orders it takes; default: coordinator"
    )
    parser.add_argument("--scenario", metavar="FILE", help="a TOML file or a shipped scenario")
    parser.add_argument("--state", metavar="DIR", help="default: state/NAME")
    parser.add_argument(
        "--keep-updates",
        action="store_true",
        default=None,
        help="keep the updates and states of past rounds, to look at",
    )
    parser.add_argument(
        "--bandwidth", metavar="NAME", help="tc: holds uploads to their rates; default: none"
    )
    parser.add_argument("--interface", metavar="NAME", help="for tc; default: eth0")
    add_party(parser)


def run(args: argparse.Namespace) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    import fedrt

    own = ("scenario", "listen", "coordinator", "state", "keep_updates", "bandwidth", "interface")
    settings = fedrt.edge(args.name, **given(args, *own))
    if args.check:
        print(f"{settings.name}: nothing is wrong")
