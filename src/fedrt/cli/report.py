"""`fedrt report`: one HTML page about runs, comparisons, sweeps, fronts and sizings."""

from __future__ import annotations

import argparse

from fedrt.cli.parser import Commands, Parser, add_command


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "write one self-contained HTML page that shows runs"
    parser = add_command(commands, "report", run, text)
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="run directories, or folders that another command has saved, as compare or reproduce",
    )
    parser.add_argument(
        "--out", metavar="FILE", help="default: RUN/page.html, or page.html for several RUNs"
    )
    parser.add_argument("--open", action="store_true", help="show it in the browser")


def run(args: argparse.Namespace) -> None:
    """Write the page; print where it is and what could not be shown."""
    import fedrt

    page = fedrt.report(*args.runs, out=args.out)
    print(f"page in {page.path}")
    if args.open:
        page.open()
