"""The blocks of docs/environment.md: what a learned policy takes, and how quick steps are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from figure_sources import RESULTS, measured, read_json

LEARNED = RESULTS / "bench" / "learned.json"


def learned() -> str:
    """A table over worlds and policies."""
    lines = [
        "| world | policy | s | against `ce-fedavg` | J a device | overspent, J |",
        "|---|---|---|---|---|---|",
    ]
    for row in read_json(LEARNED)["rows"]:
        usual = row["beside"]["ce-fedavg"]["time_s"]
        world = f"`{row['world']}`"
        for name, each in {"PPO": row, **row["beside"]}.items():
            shown = name if name == "PPO" else f"`{name}`"
            lines.append(f"| {world} | {shown} | {_numbers(each, usual)} |")
            world = ""
    return "\n".join(lines) + "\n"


def environment() -> str:
    """Edge rounds a second of both environments."""
    found = measured("environment")
    lines = ["| environment | edge rounds a second, median (quartiles) | aim |", "|---|---|---|"]
    for name, kind in (("fedrt/HFEL-v0", "full"), ("fedrt/HFEL-small-v0", "small")):
        each = found.rounds_per_cpu_s[kind]
        low, high = each.quartiles
        lines.append(f"| `{name}` | {each.median:,.0f} ({low:,.0f} to {high:,.0f}) | 1,000 |")
    return "\n".join(lines) + "\n"


def _numbers(each: Mapping[str, Any], usual_s: list[float]) -> str:
    ratio = np.mean(np.divide(each["time_s"], usual_s)) - 1
    time_s, energy_j, over_j = (
        float(np.mean(each[name])) for name in ("time_s", "energy_j_mean", "over_budget_j")
    )
    return f"{time_s:,.5g} | {100 * ratio:+.1f} % | {energy_j:.4g} | {_short(over_j)}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
