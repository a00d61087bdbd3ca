"""Plain tables as TOML text, and TOML read within limits; the standard library reads without."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

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
    """The table with scalars first, then one `[section]` for each table, nested ones inline."""
    lines = [_line(key, v) for key, v in table.items() if not isinstance(v, Mapping)]
    for key, section in table.items():
        if isinstance(section, Mapping):
            lines += ["", f"[{_key(key)}]"]
            lines += [_line(name, value) for name, value in section.items()]
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any) -> str:
    return f"{_key(key)} = {_value(value)}"


def _key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _quoted(key)


def _quoted(text: str) -> str:
    # TOML's basic strings are JSON's, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_line(key, item) for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return hex(value)
    return repr(value)
