"""Who calls: a command of the command line, or Python code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fedrt.errors import printable

_command: str | None = None
_say: Callable[[str], None] | None = None


@contextmanager
def called_from(command: str, say: Callable[[str], None]) -> Iterator[None]:
    """Let a command be what results name as theirs, and let it print the notes."""
    global _command, _say
    before = _command, _say
    _command, _say = command, say
    try:
        yield
    finally:
        _command, _say = before


def command_text(function: str) -> str:
    """The command that results name: the one that was typed, or the function that was called."""
    return f"fedrt.{function}(...)" if _command is None else _command


def note(line: str) -> None:
    """Print a note for the user beside the results."""
    if _say is not None:
        _say(line)
    else:
        print(printable(line), file=sys.stderr, flush=True)
