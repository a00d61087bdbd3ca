"""Long names on several lines, so that a table keeps its room for the numbers."""

from __future__ import annotations

import re

from rich.markup import escape

NAME_WIDTH = 16
"""Of a policy's name: with it every table fits into 80 columns."""


def folded(name: str, width: int = 12) -> str:
    """A setting's name, a line for as many of its parts as fit into the width."""
    return escape("\n".join(_lines(name, width)))


def folded_policy(name: str) -> str:
    """A policy's name or import path; a part that is too long by itself is cut."""
    lines = _lines(name, NAME_WIDTH)
    starts = range(0, max(map(len, lines)), NAME_WIDTH)
    cut = (line[i : i + NAME_WIDTH] for line in lines for i in starts)
    return escape("\n".join(piece for piece in cut if piece))


def _lines(name: str, width: int) -> list[str]:
    lines = [""]
    for part in re.findall(r"[._:]*[^._:]+|[._:]+", name):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return lines
