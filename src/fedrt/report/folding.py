"""Breaking long names into several lines, for tables and legends."""

from __future__ import annotations

import re

from rich.markup import escape

from fedrt.errors import printable

NAME_WIDTH = 16
"""Of a policy's name: with it every table fits into 80 columns."""


def folded(name: str, width: int = 12) -> str:
    """The name of a setting on several lines of a width."""
    return escape("\n".join(name_lines(name, width)))


def folded_policy(name: str) -> str:
    """The name or import path of a policy on several lines; a part that is too long is cut."""
    lines = name_lines(name, NAME_WIDTH)
    starts = range(0, max(map(len, lines)), NAME_WIDTH)
    cut = (line[i : i + NAME_WIDTH] for line in lines for i in starts)
    return escape("\n".join(piece for piece in cut if piece))


def name_lines(name: str, width: int) -> list[str]:
    """The name in parts that begin at a dot, underscore, hyphen, colon, parenthesis or space."""
    lines = [""]
    for part in re.findall(r"[._:( -]*[^._:( -]+|[._:( -]+", printable(name)):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append("")
            part = part.lstrip(" ")
        lines[-1] += part
    return lines
