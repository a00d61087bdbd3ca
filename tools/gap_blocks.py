"""The table of docs/bound.md: how far the bound is below the optimum of enumerated worlds."""

from __future__ import annotations

from figure_sources import measured

LIMITS = (0.01, 0.12, 1.0)
"""Gaps in percent of the optimum whose worlds are counted."""


def bound_gap() -> str:
    """A row for each shape of worlds: how many are how far below, and the most."""
    heads = ["worlds, of two edge rounds a global round", "number"]
    heads += [f"below by more than {limit:g} % in" for limit in LIMITS]
    heads += ["at most below by", "above the optimum in"]
    lines = [_row(heads), "|---" * len(heads) + "|"]
    for words, row in measured("bound_gap").shapes.values.items():
        counts = [sum(100 * gap > limit for gap in row["gaps"]) for limit in LIMITS]
        most = f"{row['most']:.2f} %" if row["most"] >= LIMITS[0] else f"less than {LIMITS[0]:g} %"
        above = row["worlds_above_the_optimum"]
        lines.append(_row([words, str(row["worlds"]), *map(str, counts), most, str(above)]))
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


BLOCKS = {"bound-gap": bound_gap}
