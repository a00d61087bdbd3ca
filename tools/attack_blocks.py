"""The blocks of docs/faults.md about Byzantine devices."""

from __future__ import annotations

from figure_sources import measured

COUNTS = ("one of eight", "two of eight", "one of each four")


def attacks() -> str:
    """The points that each attack costs at worst over the seeds, by data and attackers."""
    rows = measured("attacks").attacks
    data = list(dict.fromkeys(rows[key].data for key in rows))
    kinds = list(dict.fromkeys(rows[key].attack for key in rows))
    heads = [f"{kind}: {count}" for kind in data for count in COUNTS]
    lines = [f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for attack in kinds:
        cells = [
            f"{rows[f'{kind}, {count}, {attack}'].worst_points:.1f}"
            for kind in data
            for count in COUNTS
        ]
        lines.append(f"| {attack} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def honest() -> str:
    """How many devices were refused in runs without a bad one."""
    rows = measured("attacks").honest
    runs = sum(rows[key].runs for key in rows)
    refused = sum(rows[key].refused for key in rows)
    return f"In {runs} runs without a bad device {refused} devices were refused.\n"
