"""`fedrt trace convert`: traces from public logs of mobile networks."""

from __future__ import annotations

import argparse

from fedrt.cli.parser import Commands, Parser, add_command


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "make traces from logs of mobile networks"
    trace = commands.add_parser("trace", help=text, description=text)
    actions = trace.add_subparsers(metavar="ACTION", required=True)
    parser = add_command(
        actions, "convert", run, "a trace from public logs of 4G and 5G networks (docs/fleets.md)"
    )
    parser.add_argument(
        "logs", nargs="+", metavar="FILE", help="a log for each device, edge server or link"
    )
    parser.add_argument(
        "--from",
        dest="log_format",
        required=True,
        metavar="FORMAT",
        help="raca-4g, raca-5g or ghent",
    )
    parser.add_argument("--out", required=True, metavar="FILE", help="the trace, a .csv file")
    parser.add_argument("--overwrite", action="store_true", help="replace the file --out names")
    parser.add_argument(
        "--to",
        default="channel",
        metavar="SECTION",
        help="channel (SNR; the default), bandwidth or backhaul (rates)",
    )
    parser.add_argument(
        "--edge-round-s",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="how much of a log an edge round takes; default: 10",
    )
    parser.add_argument(
        "--edge-rounds",
        type=int,
        default=2,
        metavar="N",
        help="edge rounds of a global round, as in the scenario; default: 2",
    )
    parser.add_argument(
        "--global-rounds",
        type=int,
        metavar="N",
        help="shorter logs start again; default: as many as the shortest has",
    )
    parser.add_argument("--links", metavar="0-1,1-2", help="for a backhaul: the link of each log")
    parser.add_argument(
        "--bits-per-hz",
        type=float,
        metavar="X",
        help="for a bandwidth: the bit/s that a hertz stands for",
    )


def run(args: argparse.Namespace) -> None:
    """Write the trace; print what is in it and the section that uses it."""
    import fedrt

    made = fedrt.trace_convert(
        args.logs,
        log_format=args.log_format,
        out=args.out,
        to=args.to,
        edge_round_s=args.edge_round_s,
        edge_rounds=args.edge_rounds,
        global_rounds=args.global_rounds,
        links=args.links,
        bits_per_hz=args.bits_per_hz,
        overwrite=args.overwrite,
    )
    what = {"channel": "devices", "bandwidth": "edge servers", "backhaul": "links"}[made.to]
    print(f"{made.subjects} {what}, {made.global_rounds} global rounds in {made.path}")
    print(f"\n{made.toml}", end="")
