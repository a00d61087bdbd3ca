"""The errors that users see, each with the exit code of the command."""

from __future__ import annotations

from collections.abc import Iterable

MOST_LINES = 200
LONGEST_LINE = 1000


class FedrtError(Exception):
    """An error that the user can act on: printed as plain lines, without a traceback.

    A parameter that the lines name stands in backticks, as in "give another `out`": the command
    line prints the option that sets it.
    """

    exit_code = 1

    def __init__(self, lines: str | Iterable[str]) -> None:
        self.lines = [lines] if isinstance(lines, str) else list(lines)
        super().__init__("\n".join(self.lines))

    def report(self) -> str:
        """The lines to print, at most `MOST_LINES`, with a count of the rest.

        What they quote cannot end a line or command the terminal.
        """
        shown = [printable(line) for line in self.lines[:MOST_LINES]]
        if len(self.lines) > MOST_LINES:
            shown.append(f"... and {len(self.lines) - MOST_LINES} more problems")
        return "\n".join(shown)


class InputError(FedrtError):
    """Bad input: one line per problem, naming the field, its value and the rule."""

    exit_code = 2


class MessageError(InputError):
    """A message that cannot be decoded, or numbers that cannot be sent: what is wrong with them."""


class InfeasibleError(FedrtError):
    """Raised where no plan keeps every limit: which one, by how much, and what to try."""

    exit_code = 3


class UnfinishedError(FedrtError):
    """Raised where training has ended, but its summary cannot be written: it can be resumed."""

    def __init__(self, line: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(line)


def printable(text: str) -> str:
    """The text with control characters replaced, so that it cannot affect the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def one_line(text: str, most: int = LONGEST_LINE) -> str:
    """A text of somebody else's on one line of limited length, without control characters.

    It cannot pose as a further line, nor command the terminal that shows it.
    """
    found = printable(" ".join(text[: 4 * most].split()))
    return found if len(found) <= most else f"{found[: most - 3]}..."


def reason(error: BaseException) -> str:
    """The message of an exception, on one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__
