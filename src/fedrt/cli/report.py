"""`fedrt report`: one HTML page about runs, comparisons, sweeps, fronts and sizings."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fedrt.cli.parser import Commands, Parser, add_command, with_options
from fedrt.errors import printable


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
    from fedrt.report.page.write import write_page

    paths = [Path(each) for each in args.runs]
    out = Path(args.out) if args.out else (paths[0] if len(paths) == 1 else Path()) / "page.html"
    data = write_page(paths, out)
    for line in data["problems"]:
        print(f"note: {with_options(printable(line))}", file=sys.stderr)
    print(f"page in {out}")
    if args.open:
        import webbrowser

        webbrowser.open(out.resolve().as_uri())
