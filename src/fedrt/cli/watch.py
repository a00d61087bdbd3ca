"""`fedrt watch`: serve the page of a run on a local address while it trains."""

from __future__ import annotations

import argparse

from fedrt.cli.parser import Commands, Parser, add_command

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
    import fedrt

    with fedrt.watch(*args.runs, host=args.host, port=args.port) as server:
        print(f"watching {', '.join(args.runs)} at {server.address} (Ctrl-C ends it)", flush=True)
        if args.open:
            import webbrowser

            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
