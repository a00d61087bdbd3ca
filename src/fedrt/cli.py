"""The command line: parse, call, print. Everything heavy is imported by the command that needs it.

Exit codes: 0 done, 2 bad input, 3 infeasible under strict limits, 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from fedrt import __version__
from fedrt.errors import FedrtError, InputError, reason

Command = Callable[[argparse.Namespace], None]


class Parser(argparse.ArgumentParser):
    """argparse, with its complaints on one line and through the same door as all others."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{self.prog}: {message}; try {self.prog} --help")


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

    plan = _command(commands, "plan", run_plan, "the best plan for one round, JSON in, JSON out")
    plan.add_argument("state", metavar="STATE.json", help="the round's state; - reads stdin")
    plan.add_argument("--policy", default="fedrt", metavar="NAME", help="default: fedrt")
    plan.add_argument(
        "--strict", action="store_true", help="exit with 3 if no plan keeps every limit"
    )

    scenario = commands.add_parser("scenario", help="list, show and check scenarios")
    actions = scenario.add_subparsers(metavar="ACTION", required=True)
    _command(actions, "list", run_scenario_list, "the shipped scenarios")
    show = _command(actions, "show", run_scenario_show, "a scenario as TOML, defaults included")
    check = _command(actions, "check", run_scenario_check, "whether a file is a valid scenario")
    show.add_argument("scenario", metavar="NAME", help="a shipped scenario or a TOML file")
    check.add_argument("scenario", metavar="FILE", help="a TOML file or a shipped scenario")
    for command in (show, check):
        add_settings(command)
    return parser


def _command(
    commands: argparse._SubParsersAction[Parser], name: str, run: Command, help_text: str
) -> Parser:
    """A subcommand that runs a function."""
    parser = commands.add_parser(name, help=help_text, description=help_text)
    parser.set_defaults(run=run)
    return parser


def add_settings(parser: argparse.ArgumentParser) -> None:
    """The option that changes any setting of a scenario."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="KEY=VALUE",
        help="change a setting, e.g. fleet.num_devices=100; may be repeated",
    )


def run_plan(args: argparse.Namespace) -> None:
    """Print the plan for one round."""
    from fedrt.decision import load_state, parse_state, plan_round
    from fedrt.policies import make_policy

    policy = make_policy(args.policy)
    if args.state == "-":
        try:
            state = parse_state(sys.stdin.buffer.read().decode("utf-8"), "stdin")
        except UnicodeDecodeError as error:
            raise InputError(f"stdin: cannot be read: {reason(error)}") from None
    else:
        state = load_state(args.state)
    backhaul = state.seen.backhaul
    if backhaul is not None and backhaul.contraction_limit is not None:
        print("note: no policy uses state.contraction_limit yet", file=sys.stderr)
    print(json.dumps(plan_round(state, policy, strict=args.strict), allow_nan=False))


def run_scenario_list(args: argparse.Namespace) -> None:
    """Print the shipped scenarios, a line each."""
    from fedrt.scenario import load_scenario, preset_names

    names = preset_names()
    width = max(map(len, names))
    for name in names:
        print(f"{name:{width}}  {load_scenario(name).description}")


def run_scenario_show(args: argparse.Namespace) -> None:
    """Print a scenario as TOML."""
    from fedrt.scenario import load_scenario, scenario_text

    print(scenario_text(load_scenario(args.scenario, args.settings)), end="")


def run_scenario_check(args: argparse.Namespace) -> None:
    """Say that a scenario is valid, or what is wrong with it."""
    from fedrt.scenario import load_scenario

    fleet = load_scenario(args.scenario, args.settings).fleet
    print(f"{args.scenario}: valid, {fleet.num_devices} devices on {fleet.num_edges} edge servers")
