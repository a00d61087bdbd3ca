"""What one policy needed at one point of a study, and phrases about several of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedrt.units import readable_time

MOST_NAMED = 4
"""Policies that a sentence names; the rest are counted."""


@dataclass(frozen=True)
class Found:
    """The time and energy of a policy at a point, and how many devices are over budget there."""

    policy: str
    time_s: float
    energy_j: float
    over_devices: float
    over_j: float = 0.0
    where: str = ""
    """The settings of the point, in words."""
    efficient: bool = False

    @property
    def within(self) -> bool:
        return not self.over_devices


def found_in(points: Iterable[Mapping[str, Any]], labels: Mapping[str, str]) -> list[list[Found]]:
    """The policies at each point of the JSON of a sweep or front, under their labels."""
    return [
        [
            Found(
                policy=labels[name],
                time_s=of["total_time_s"]["mean"],
                energy_j=of["energy_j_mean"]["mean"],
                over_devices=of["over_budget_devices"]["mean"],
                over_j=of["over_budget_j"]["mean"],
                where=_where(point["settings"]),
                efficient=bool(of.get("efficient")),
            )
            for name, of in point["policies"].items()
        ]
        for point in points
    ]


def _where(settings: Mapping[str, Any]) -> str:
    words = {
        key: f"{value:.6g}" if isinstance(value, float) else str(value)
        for key, value in settings.items()
    }
    return ", ".join(f"{key} = {word}" for key, word in words.items())


def quickest(found: Iterable[Found]) -> Found:
    """The one with the least time."""
    return min(found, key=lambda each: each.time_s)


def over_words(found: Sequence[Found]) -> str:
    """A sentence that says how many results are over budget, and whose."""
    over = [each for each in found if not each.within]
    if not over:
        return "No device is over its budget in any result."
    counts = {each.policy: 0 for each in over}
    for each in over:
        counts[each.policy] += 1
    whose = [f"{name} ({count})" for name, count in counts.items()]
    return (
        f"Some device is over its budget in {len(over)} of {len(found)} results: {listed(whose)}."
    )


def listed(words: Sequence[str]) -> str:
    """The words with commas and an "and", cut after a few."""
    shown = list(words[:MOST_NAMED])
    if len(words) > MOST_NAMED + 1:
        shown.append(f"{len(words) - MOST_NAMED} more")
    else:
        shown = list(words)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def devices_words(found: Found) -> str:
    """A phrase with the devices over budget, a mean over seeds, and their joules together."""
    count = f"{found.over_devices:.3g}"
    return f"{count} device{'' if count == '1' else 's'} over budget by {found.over_j:.3g} J in all"


def at(found: Found) -> str:
    """The time of a result, with the settings of its point if there are any."""
    return readable_time(found.time_s) + (f" ({found.where})" if found.where else "")
