"""What commands share: the parser, common options, and how their values are read."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from fedrt.errors import InputError, reason
from fedrt.quantities import SEED
from fedrt.validation import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Run = Callable[[argparse.Namespace], None]
T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are one line and printed like all others."""

    options: ClassVar[dict[str, str]] = {}
    """The option that sets a parameter, by the parameter's name, of all commands together."""

    def add_argument(self, *names: Any, **about: Any) -> argparse.Action:
        action = super().add_argument(*names, **about)
        if action.option_strings:
            Parser.options[action.dest] = action.option_strings[-1]
        return action

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{self.prog}: {message}; try {self.prog} --help")


def with_options(text: str) -> str:
    """A message with the option that a user types in place of each parameter in backticks."""
    return re.sub(r"`(\w+)`", lambda found: Parser.options.get(found[1], found[0]), text)


Commands = argparse._SubParsersAction  # argparse gives this class no public name


def add_command(commands: Commands[Parser], name: str, run: Run, help_text: str) -> Parser:
    """Add a subcommand that runs a function."""
    parser = commands.add_parser(name, help=help_text, description=help_text)
    parser.set_defaults(run=run)
    return parser


def add_settings(parser: Parser) -> None:
    """Add the option that changes settings of a scenario."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="KEY=VALUE",
        help="change a setting, e.g. fleet.num_devices=100; may be repeated",
    )
    parser.add_argument(
        "--allow-code",
        action="store_true",
        help="let import paths in files be loaded; those in options always are",
    )


def typed_paths(args: argparse.Namespace) -> set[str]:
    """The import paths in the typed options: code that the user asks for."""
    texts: list[str] = []
    for name in ("policy", "policies", "settings", "vary"):
        given = getattr(args, name, None)
        texts += given if isinstance(given, list) else [given] if isinstance(given, str) else []
    return {path for text in texts for path in re.findall(r"[\w.]+:\w+", text)}


ALL = "all"
"""The policies of every command that compares some, unless others are given: all shipped ones."""


def add_policies(parser: Parser) -> None:
    """Add the option that names policies."""
    parser.add_argument(
        "--policies",
        default=ALL,
        metavar="A,B,...",
        help="names or import paths, perhaps with options, my_pkg:P(alpha=0.3); comma-separated;"
        " default: all shipped ones",
    )


def add_comparison(parser: Parser) -> None:
    """Add the options of every command that compares policies."""
    add_policies(parser)
    add_seeds_and_output(parser)


def add_seeds_and_output(parser: Parser) -> None:
    """Add the options of every command that runs a scenario and saves results."""
    parser.add_argument("--seeds", default="0", metavar="0,1,...", help="default: 0")
    add_out(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    add_settings(parser)


def add_out(parser: Parser) -> None:
    """Add the options of every command that saves a folder."""
    parser.add_argument(
        "--out", metavar="DIR", help="where to save; default: the next free runs/COMMAND-SCENARIO-N"
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace the folder that --out names, if fedrt has made it and all that is in it",
    )


def read_policies(text: str) -> list[str]:
    """The policies of a comma-separated list; `all` means the shipped ones."""
    from fedrt.policies import POLICIES
    from fedrt.policies.spec import read_spec
    from fedrt.studies.sweep import split_words

    if text == ALL:
        return list(POLICIES)
    specs = [read_spec(word).text for word in split_words(text)]
    return check_list(specs, text, "--policies")


def read_seeds(text: str) -> list[int]:
    """The seeds of a comma-separated list."""
    return [read_seed(word, "--seeds") for word in read_list(text, "--seeds")]


def read_seed(text: str, option: str = "--seed") -> int:
    """One seed."""
    word = text.strip()
    if not (word.isascii() and word.isdigit() and len(word) <= len(str(SEED.most))):
        raise InputError(f"{option} {shown(text)}: must be a whole number >= 0")
    return int(word)


def in_folder(
    args: argparse.Namespace, command: str, scenario: str, make: Callable[[Path], T]
) -> T:
    """The result of `make` for the folder to save in: the given one, or the next in runs/.

    `make` makes the folder. Where another command was quicker, the next number is taken. With
    --overwrite a folder of fedrt's own that has the given name goes first.
    """
    from fedrt.records.overwrite import remove_results
    from fedrt.system.files import TakenError, free_name

    given: str | None = args.out
    if given is not None:
        try:
            taken = os.path.lexists(given)
        except ValueError as error:
            raise InputError(f"--out {shown(given)}: cannot be made: {reason(error)}") from None
        if taken and not args.overwrite:
            raise InputError(
                f"{given}: exists already; --overwrite replaces it, or give another --out"
            )
        if taken:
            remove_results(Path(given))
        return make(Path(given))
    if args.overwrite:
        raise InputError("--overwrite: is for a folder that --out names")
    while True:
        out = free_name(Path("runs"), f"{command}-{scenario.replace('/', '-')}")
        try:
            return make(out)
        except TakenError as error:
            if error.path != out:
                raise


def typed_command() -> str:
    """The command line as it can be typed again."""
    return shlex.join(["fedrt", *sys.argv[1:]])


def save_picture(draw: Callable[[], Figure], out: Path, stem: str) -> None:
    """Save a figure beside its data; without matplotlib only print a note."""
    from fedrt.report.figures import save_figure
    from fedrt.system.extras import MissingLibraryError

    try:
        save_figure(draw(), out, stem)
    except MissingLibraryError as error:
        print(f"note: {error}", file=sys.stderr)


def read_list(text: str, option: str) -> list[str]:
    """The words of a comma-separated list, without repetitions."""
    return check_list([word.strip() for word in text.split(",")], text, option)


def check_list(words: list[str], text: str, option: str) -> list[str]:
    """The words of a list, checked for repetitions; `text` is what was typed."""
    if not all(words):
        raise InputError(f"{option} {shown(text)}: must be a comma-separated list without gaps")
    twice = [word for word in words if words.count(word) > 1]
    if twice:
        raise InputError(f"{option} {shown(text)}: must name {twice[0]} only once")
    return words
