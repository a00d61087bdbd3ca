"""Plain tables as TOML text, and TOML read within limits."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from fedrt.errors import InputError
from fedrt.system.extras import MissingLibraryError

MOST_BITS = 10_000
"""Python refuses to write longer numbers in digits; they came in another base."""
MOST_LINES = 200_000
MOST_PARTS = 64
"""Of a dotted key: the time to read it grows with their square."""
_BETWEEN_KEYS = re.compile(r"[^A-Za-z0-9_.\"' \t-]+")


def parse_toml(text: str) -> dict[str, Any]:
    """The table of a TOML text; a ValueError or RecursionError where it is none, or too much."""
    if text.count("\n") >= MOST_LINES:
        raise ValueError(f"has {text.count(chr(10)) + 1} lines: must have at most {MOST_LINES}")
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in lines:
        if line.count(".") < MOST_PARTS:
            continue
        if max(piece.count(".") for piece in _BETWEEN_KEYS.split(line)) >= MOST_PARTS:
            raise ValueError(f"has a key of more than {MOST_PARTS} parts: must be at most that")
    return tomllib.loads(text)


def toml_text(table: Mapping[str, Any]) -> str:
    """The table as TOML: in every section its values first, then its tables; a list is one line."""
    try:
        import tomli_w
    except ImportError:
        raise MissingLibraryError("writing a scenario", "tomli_w") from None
    return _lists_on_one_line(tomli_w.dumps(_writable(table), indent=1))


class _Long(int):
    """A number that is written in base 16."""

    def __str__(self) -> str:
        return hex(self)


def _writable(value: Any, depth: int = 0) -> Any:
    """The value with `_Long` for numbers of too many digits.

    A table within others has a key of as many parts, and no more of them can be read again.
    """
    if depth > MOST_PARTS:
        raise InputError(f"scenario: has lists or tables within over {MOST_PARTS} others")
    if isinstance(value, Mapping):
        return {key: _writable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item, depth + 1) for item in value]
    return _Long(value) if isinstance(value, int) and value.bit_length() > MOST_BITS else value


def _lists_on_one_line(text: str) -> str:
    """What tomli-w has written, which gives every item of a list a line of its own.

    Only such lines begin with a space or a closing bracket, and every item ends in a comma.
    """
    lines: list[list[str]] = []
    for line in text.split("\n"):
        if not line.startswith((" ", "]")):
            lines.append([line])
            continue
        item, before = line.strip(), lines[-1]
        if item.startswith("]"):
            before[-1] = before[-1].removesuffix(",")
        elif not before[-1].endswith("["):
            before.append(" ")
        before.append(item)
    return "\n".join(map("".join, lines))
