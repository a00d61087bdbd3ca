"""The command line: parse, call, print. Everything heavy is imported by the command that needs it.

Exit codes: 0 done, 2 bad input, 3 infeasible under strict limits, 4 training diverged, 130
interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from fedrt import __version__
from fedrt.cli import (
    bound,
    compare,
    data,
    estimate,
    front,
    plan,
    report,
    reproduce,
    run,
    scenario,
    size,
    sweep,
    watch,
)
from fedrt.cli.parser import Parser
from fedrt.errors import FedrtError

COMMANDS = (
    run,
    compare,
    report,
    watch,
    estimate,
    sweep,
    size,
    front,
    bound,
    reproduce,
    plan,
    scenario,
    data,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        args = build_parser().parse_args(argv)
        args.run(args)
        sys.stdout.flush()
    except FedrtError as error:
        print(error.report(), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away; keep the interpreter from complaining once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


def build_parser() -> Parser:
    """All commands and their options."""
    parser = Parser(prog="fedrt", description="Plans federated learning at the network edge.")
    parser.add_argument("--version", action="version", version=f"fedrt {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add(commands)
    return parser
