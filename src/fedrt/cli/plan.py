"""`fedrt plan`: one decision, JSON in, JSON out."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from fedrt.cli.parser import Commands, Parser, add_command
from fedrt.errors import InputError, reason

if TYPE_CHECKING:
    from fedrt.decision.state import RoundState


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "plan", run, "the best plan for one round, JSON in, JSON out")
    parser.add_argument(
        "state", nargs="?", metavar="STATE.json", help="the round's state; - reads stdin"
    )
    parser.add_argument(
        "--example", action="store_true", help="print a state to start from, and plan nothing"
    )
    parser.add_argument(
        "--policy", default="fedrt", metavar="NAME", help="name or import path; default: fedrt"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 3 if no plan keeps every limit"
    )


def run(args: argparse.Namespace) -> None:
    """Print the plan for one round, or an example of its input."""
    if args.example:
        _print_example(args)
        return
    if args.state is None:
        raise InputError("fedrt plan: give STATE.json; fedrt plan --example prints one")
    import fedrt

    state = _read_stdin() if args.state == "-" else fedrt.load_state(args.state)
    found = fedrt.plan(state, policy=args.policy, strict=args.strict)
    print(json.dumps(found, allow_nan=False))


def _read_stdin() -> RoundState:
    from fedrt.decision.state import parse_state
    from fedrt.system.inputs import MOST_TEXT, refuse_larger

    if sys.stdin is None:
        raise InputError("stdin: cannot be read: it is closed")
    try:
        given = sys.stdin.buffer.read(MOST_TEXT + 1)
        refuse_larger("stdin", len(given), MOST_TEXT)
        return parse_state(given.decode("utf-8"), "stdin")
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(f"stdin: cannot be read: {reason(error)}") from None


def _print_example(args: argparse.Namespace) -> None:
    """Print the example state of docs/plan.md, which the package contains."""
    from importlib.resources import files

    if args.state is not None:
        raise InputError(f"fedrt plan --example: prints a state, and takes none: {args.state}")
    print(files("fedrt").joinpath("example_round.json").read_text(encoding="utf-8"), end="")
