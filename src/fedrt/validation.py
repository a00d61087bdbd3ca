"""Rules that check single values from outside, with the same messages everywhere.

A rule takes a value and either returns it in the type used inside or appends one line
`path = value: must be ...` to `problems` and returns None. Scenario files, command-line
settings and round states are all read through these.
"""

from __future__ import annotations

import json
import math
import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from unicodedata import category

from fedrt.errors import printable

LONGEST_SHOWN = 60
MOST_LINES = 200
"""Lines about the items of one list or the unknown fields of one table."""


class Rule(Protocol):
    """What values a field accepts."""

    def read(self, value: object, path: str, problems: list[str]) -> Any:
        """The checked value in the type used inside; None after adding a line to `problems`."""
        ...


def shown(value: object) -> str:
    """A short one-line text of any value, for messages.

    No more of a long value is formatted than is shown.
    """
    try:
        text = _beginning(value)
    except (TypeError, ValueError, RecursionError):
        text = _repr(value)
    text = printable(text[: LONGEST_SHOWN + 1])
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def _beginning(value: object) -> str:
    """The beginning of a value as JSON."""
    if isinstance(value, str):
        value = value[: 2 * LONGEST_SHOWN]
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
        text += piece
        if len(text) > LONGEST_SHOWN:
            break
    return text


def _repr(value: object) -> str:
    """Python's own text of a value, also of numbers too long for it."""
    try:
        return reprlib.repr(value)
    except Exception:
        return hex(value) if isinstance(value, int) else f"a {type(value).__name__}"


def problem(path: str, value: object, rule: str) -> str:
    """The message about one invalid value."""
    return f"{path} = {shown(value)}: must be {rule}"


@dataclass(frozen=True)
class Real:
    """The rule for a finite number in a range; `above` excludes the lower end, `least` does not."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    or_zero: bool = False

    @property
    def wording(self) -> str:
        parts = []
        if self.above is not None:
            parts.append(f"> {self.above:g}")
        if self.least is not None:
            parts.append(f">= {self.least:g}")
        if self.most is not None:
            parts.append(f"<= {self.most:g}")
        start = "0 or a finite number" if self.or_zero else "a finite number"
        return f"{start} {' and '.join(parts)}".strip()

    def holds(self, value: float) -> bool:
        """Whether a number is within the rule."""
        if self.or_zero and value == 0:
            return True
        return (
            -sys.float_info.max <= value <= sys.float_info.max
            and (self.above is None or value > self.above)
            and (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
        )

    def holds_for(self, values: Any) -> Any:
        """For every element of an array, whether it is within the rule."""
        good = abs(values) < math.inf
        if self.above is not None:
            good &= values > self.above
        if self.least is not None:
            good &= values >= self.least
        if self.most is not None:
            good &= values <= self.most
        return good | (self.or_zero & (values == 0))

    def read(self, value: object, path: str, problems: list[str]) -> float | None:
        if isinstance(value, int | float) and not isinstance(value, bool) and self.holds(value):
            return float(value)
        problems.append(problem(path, value, self.wording))
        return None


@dataclass(frozen=True)
class Whole:
    """The rule for a whole number in a closed range."""

    least: int
    most: int

    def read(self, value: object, path: str, problems: list[str]) -> int | None:
        integral = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if integral and not isinstance(value, bool):
            number = int(value)  # type: ignore[call-overload]
            if self.least <= number <= self.most:
                return int(number)
        problems.append(problem(path, value, f"a whole number from {self.least} to {self.most}"))
        return None


@dataclass(frozen=True)
class Text:
    """The rule for a string of limited length, without control characters."""

    most: int = 1000
    lines: bool = False
    """Whether it may have several lines, and tabs."""

    def read(self, value: object, path: str, problems: list[str]) -> str | None:
        fits = isinstance(value, str) and len(value) <= self.most
        if isinstance(value, str) and fits and _is_text(value, self.lines):
            return value
        why = ", in UTF-8 and without control characters" if fits else ""
        problems.append(problem(path, value, f"a string of at most {self.most} characters{why}"))
        return None


def _is_text(value: str, lines: bool) -> bool:
    """Whether a string has no control characters and no invalid halves of characters."""
    if lines:
        value = value.replace("\n", "").replace("\t", "")
    return value.isprintable() or not any(category(char) in ("Cc", "Cs") for char in value)


@dataclass(frozen=True)
class Flag:
    """The rule for true or false."""

    def read(self, value: object, path: str, problems: list[str]) -> bool | None:
        if isinstance(value, bool):
            return value
        problems.append(problem(path, value, "true or false"))
        return None


@dataclass(frozen=True)
class OneOf:
    """The rule for one of a few words."""

    words: tuple[str, ...]

    def read(self, value: object, path: str, problems: list[str]) -> str | None:
        if isinstance(value, str) and value in self.words:
            return value
        problems.append(problem(path, value, "one of " + ", ".join(self.words)))
        return None


@dataclass(frozen=True)
class Listed:
    """The rule for a list whose items keep another rule; the result is a tuple."""

    item: Rule
    least: int = 0
    most: int = 10_000_000

    def read(self, value: object, path: str, problems: list[str]) -> tuple[Any, ...] | None:
        if not isinstance(value, list | tuple) or not self.least <= len(value) <= self.most:
            size = f"{self.least} to {self.most}"
            problems.append(problem(path, value, f"a list of {size} items"))
            return None
        before, items = len(problems), []
        for i, item in enumerate(value):
            items.append(self.item.read(item, f"{path}[{i}]", problems))
            if len(problems) - before >= MOST_LINES:
                problems.append(f"{path}: items after {path}[{i}] were not looked at")
                break
        return tuple(items) if len(problems) == before else None


@dataclass(frozen=True)
class Maybe:
    """The rule for null, or what another rule accepts."""

    rule: Rule

    def read(self, value: object, path: str, problems: list[str]) -> Any:
        return None if value is None else self.rule.read(value, path, problems)


@dataclass(frozen=True)
class Either:
    """The rule that `choose` selects by the kind of the value."""

    choose: Callable[[object], Rule]

    def read(self, value: object, path: str, problems: list[str]) -> Any:
        return self.choose(value).read(value, path, problems)


def keys_of(
    table: object,
    path: str,
    problems: list[str],
    required: Iterable[str],
    optional: Iterable[str] = (),
) -> Mapping[str, Any]:
    """The table, if it is one, after adding a line for every missing or unknown key."""
    if not isinstance(table, Mapping):
        problems.append(problem(path, table, "a table of named fields"))
        return {}
    needed, known = list(required), [*required, *optional]
    for key in needed:
        if key not in table:
            problems.append(f"{path}.{key}: missing")
    unknown = [str(key) for key in table if key not in known]
    for key in unknown[:MOST_LINES]:
        problems.append(f"{path}.{shown(key)[1:-1]}: unknown field{hint(key, known)}")
    if len(unknown) > MOST_LINES:
        problems.append(f"{path}: and {len(unknown) - MOST_LINES} more unknown fields")
    return table


def hint(word: str, known: Sequence[str]) -> str:
    """A suggestion, if a known word is close to a mistyped one."""
    import difflib

    close = difflib.get_close_matches(word[:LONGEST_SHOWN], known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
