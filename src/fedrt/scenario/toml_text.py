"""Plain tables as TOML text; the standard library only reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def toml_text(table: Mapping[str, Any]) -> str:
    """The table with scalars first, then one `[section]` for each table, nested ones inline."""
    lines = [f"{key} = {_value(v)}" for key, v in table.items() if not isinstance(v, Mapping)]
    for key, section in table.items():
        if isinstance(section, Mapping):
            lines += ["", f"[{key}]"]
            lines += [f"{name} = {_value(value)}" for name, value in section.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # TOML's basic strings are JSON's, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return repr(value)
