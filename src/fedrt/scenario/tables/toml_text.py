"""Plain tables as TOML text, and TOML read within limits."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from fedrt.errors import InputError

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
    """The table as TOML: in every section its values first, then its tables; a list is one line.

    By tomli-w; where the package runs from its source on a machine without it, by `plain_toml`.
    """
    table = _writable(table)
    try:
        import tomli_w
    except ImportError:
        return plain_toml(table)
    return _lists_on_one_line(tomli_w.dumps(table, indent=1))


def plain_toml(table: Mapping[str, Any], section: tuple[str, ...] = ()) -> str:
    """The same table written without tomli-w."""
    lines = [f"[{'.'.join(section)}]"] if section else []
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    lines += [f"{_key(k)} = {_plain_value(v)}" for k, v in table.items() if k not in tables]
    parts = ["".join(f"{line}\n" for line in lines)]
    parts += [plain_toml(value, (*section, _key(key))) for key, value in tables.items()]
    return "\n".join(part for part in parts if part)


def _key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _plain_value(key)


def _plain_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # TOML's basic strings are JSON's, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(key)} = {_plain_value(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_plain_value, value))}]"
    return str(value)


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
