"""What the commands `sweep`, `size`, `front` and `bound` share: saving and resuming."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrt.cli.parser import Parser, in_folder, read_policies, typed_command
from fedrt.cli.run import again
from fedrt.errors import InputError
from fedrt.validation import shown

if TYPE_CHECKING:
    from fedrt.scenario import Scenario
    from fedrt.studies.study import Points

FREE = ("run", "resume", "json", "parser", "allow_code")
"""Options that may be given beside --resume."""


@dataclass(frozen=True)
class Study:
    """A study that is running: its folder, its results so far, and whether it is new."""

    out: Path
    points: Points
    fresh: bool


def add_resume(parser: Parser, *required: str) -> None:
    """Add the option that resumes a study and makes other options unnecessary."""
    parser.add_argument(
        "--resume", metavar="DIR", help="go on with one that was stopped; nothing else is needed"
    )
    parser.set_defaults(parser=parser, required=required)


def take_up(args: argparse.Namespace, kind: str, names: Sequence[str]) -> None:
    """On `--resume`, replace the named options by those the study was started with.

    Without it, raise an error about a required option that was not given.
    """
    parser: Parser = args.parser
    if args.resume is None:
        missing = [name for name in args.required if getattr(args, name.strip("-")) in (None, [])]
        if missing:
            parser.error(f"the following arguments are required: {', '.join(missing)}")
        return
    from fedrt.studies.study import BASE, read_study

    given = [
        Parser.options.get(name, name.upper())
        for name, value in vars(args).items()
        if name not in FREE and value != parser.get_default(name)
    ]
    if given:
        raise InputError(f"--resume: takes everything from its folder, not {', '.join(given)}")
    path = Path(args.resume)
    actions = {action.dest: action for action in parser._actions}
    for name, value in read_study(path, kind, names).items():
        needed = actions[name].default is not None or "--" + name in args.required
        if (value is None and needed) or not _fits(actions[name], value):
            where = f"{path / 'run.json'}: study.{name}"
            raise InputError(f"{where} = {shown(value)}: is nothing that could be asked for")
        setattr(args, name, value)
    args.scenario, args.settings = str(path / BASE), []


def _fits(action: argparse.Action, value: Any) -> bool:
    """Whether an option can have this value."""
    if action.nargs == 0:
        return isinstance(value, bool)
    if isinstance(action.default, list):
        return isinstance(value, list)
    return value is None or (isinstance(value, str) and value in (action.choices or [value]))


@contextmanager
def opened_study(
    args: argparse.Namespace,
    kind: str,
    names: Sequence[str],
    scenarios: Sequence[Scenario],
    said: Mapping[str, Any],
) -> Iterator[Study]:
    """The folder of a new or resumed study, locked for this process.

    If the block is interrupted, a message says how to resume.
    """
    from fedrt.scenario.load import base_text
    from fedrt.studies.study import check_same, make_study, opened_points, same_study

    asked = {"kind": kind, **{name: getattr(args, name) for name in names}}
    policies = read_policies(args.policies) if hasattr(args, "policies") else [args.policy]
    same, scenario = same_study(asked, scenarios, policies), scenarios[0]
    fresh = args.resume is None
    if fresh:
        base = base_text(args.scenario, args.settings)
        about = {**said, "command": typed_command()}
        out = in_folder(
            args,
            kind,
            scenario.name,
            lambda path: make_study(path, scenario, about, asked, base, same),
        )
    else:
        out = Path(args.resume)
        check_same(out, same)
    with opened_points(out) as points:
        try:
            yield Study(out, points, fresh)
        except KeyboardInterrupt:
            print(f"stopped; go on with: {again(kind, out)}", file=sys.stderr, flush=True)
            raise
