"""What commands share: the parser, common options, and how their values are read."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from fedrt.errors import InputError, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from fedrt.api.results import StudyResult

Run = Callable[[argparse.Namespace], None]


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are one line and printed like all others."""

    options: ClassVar[dict[str, str]] = {}
    """What sets a parameter, by its name: an option, or an argument in capitals.

    Of all commands together; the first of them that has it says what it is called.
    """

    def add_argument(self, *names: Any, **about: Any) -> argparse.Action:
        action = super().add_argument(*names, **about)
        name = action.option_strings[-1] if action.option_strings else action.dest.upper()
        Parser.options.setdefault(action.dest, name)
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


def add_policies(parser: Parser) -> None:
    """Add the option that names policies."""
    parser.add_argument(
        "--policies",
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
    parser.add_argument("--seeds", metavar="0,1,...", help="default: 0")
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


def read_list(text: str, option: str) -> list[str]:
    """The words of a comma-separated list, without repetitions."""
    from fedrt.api.asked import check_list

    return check_list([word.strip() for word in text.split(",")], text, option)


def note(line: str) -> None:
    """Print a note for the user beside the results."""
    print(with_options(printable(line)), file=sys.stderr, flush=True)


def typed_command() -> str:
    """The command line as it can be typed again."""
    return shlex.join(["fedrt", *sys.argv[1:]])


def show_study(
    result: StudyResult, as_json: bool, show: Callable[[Console], None], picture: str | None
) -> None:
    """Save the picture of a study, print it as one JSON object or as `show` does, and say where."""
    from rich.console import Console

    if picture is not None:
        save_picture(result.plot, result.folder, picture)
    if as_json:
        print(json.dumps(result.data, allow_nan=False))
        return
    show(Console())
    print(f"saved in {result.folder}")


def save_picture(draw: Callable[[], Figure], out: Path, stem: str) -> None:
    """Save a figure beside its data; without matplotlib only print a note."""
    from fedrt.report.figures import save_figure
    from fedrt.system.extras import MissingLibraryError

    try:
        save_figure(draw(), out, stem)
    except MissingLibraryError as error:
        print(f"note: {error}", file=sys.stderr)


def add_resume(parser: Parser, *required: str) -> None:
    """Add the option that resumes a study and makes other options unnecessary."""
    parser.add_argument(
        "--resume", metavar="DIR", help="go on with one that was stopped; nothing else is needed"
    )
    parser.set_defaults(parser=parser, required=required)


def check_required(args: argparse.Namespace) -> None:
    """Raise an error about a required option that was not given, unless a study is resumed."""
    if args.resume is not None:
        return
    missing = [name for name in args.required if getattr(args, name.strip("-")) in (None, [])]
    if missing:
        args.parser.error(f"the following arguments are required: {', '.join(missing)}")
