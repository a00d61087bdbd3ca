"""`fedrt watch`: serve the page of a run on a local address while it trains."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedrt.cli.parser import Commands, Parser, add_command
from fedrt.errors import InputError
from fedrt.validation import Whole

PORT = 8765


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "show runs in the browser while they train"
    parser = add_command(commands, "watch", run, text)
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="a run directory or a folder of runs"
    )
    parser.add_argument("--port", metavar="N", help=f"default: {PORT}; 0: any free one")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="default: 127.0.0.1, this machine alone; anyone who reaches another one can look",
    )
    parser.add_argument("--open", action="store_true", help="show it in the browser")


def run(args: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C."""
    from fedrt.report.page.collect import collect
    from fedrt.report.serve import Server

    paths = [Path(each) for each in args.runs]
    port = _read_port(args.port)
    collect(paths)  # complains about what is no run before anything is served
    with Server(paths, args.host, port) as server:
        print(f"watching {', '.join(args.runs)} at {server.address} (Ctrl-C ends it)", flush=True)
        if args.open:
            import webbrowser

            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def _read_port(text: str | None) -> int:
    problems: list[str] = []
    given: object = (
        PORT if text is None else int(text) if text.isascii() and text.isdigit() else text
    )
    port = Whole(0, 65535).read(given, "--port", problems)
    if port is None:
        raise InputError(problems)
    return port
