"""`fedrt plan`: one decision, JSON in, JSON out."""

from __future__ import annotations

import argparse
import json
import sys

from fedrt.cli.parser import Commands, Parser, add_command
from fedrt.errors import InputError, reason


def add(commands: Commands[Parser]) -> None:
    """Put the command on the command line."""
    parser = add_command(commands, "plan", run, "the best plan for one round, JSON in, JSON out")
    parser.add_argument("state", metavar="STATE.json", help="the round's state; - reads stdin")
    parser.add_argument(
        "--policy", default="fedrt", metavar="NAME", help="name or import path; default: fedrt"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 3 if no plan keeps every limit"
    )


def run(args: argparse.Namespace) -> None:
    """Print the plan for one round."""
    from fedrt.decision import load_state, parse_state, plan_round
    from fedrt.inputs import MOST_TEXT, refuse_larger
    from fedrt.policies import make_policy
    from fedrt.policies.base import uses_contraction_limit

    policy = make_policy(args.policy)
    if args.state == "-":
        if sys.stdin is None:
            raise InputError("stdin: cannot be read: it is closed")
        try:
            given = sys.stdin.buffer.read(MOST_TEXT + 1)
            refuse_larger("stdin", len(given), MOST_TEXT)
            state = parse_state(given.decode("utf-8"), "stdin")
        except (UnicodeDecodeError, OSError) as error:
            raise InputError(f"stdin: cannot be read: {reason(error)}") from None
    else:
        state = load_state(args.state)
    if state.contraction_limit_given:
        if not uses_contraction_limit(policy):
            print(f"note: {policy.name} does not use state.contraction_limit", file=sys.stderr)
        elif state.seen.backhaul is None:
            line = "note: state.contraction_limit is not used without state.backhaul_bps"
            print(line, file=sys.stderr)
    print(json.dumps(plan_round(state, policy, strict=args.strict), allow_nan=False))
