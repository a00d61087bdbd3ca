"""What a bound found: a time that no plan within its limits beats, and who comes nearest to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedrt.report.answers.found import listed
from fedrt.units import precise_time

LIMITS = {
    "devices_over_limit": "devices over their energy limit",
    "rounds_over_rho": "rounds over rho",
    "rounds_over_consensus_limit": "rounds over the consensus limit",
    "own_local_steps": "other local steps",
    "edge_rounds_over_distortion_limit": "edge rounds over the distortion limit",
}
"""What a policy may do that the plans of the bound may not."""


def outside(of: Mapping[str, Any]) -> list[str]:
    """Phrases on how a policy is outside the bound's limits, over all seeds."""
    said = []
    for name, words in LIMITS.items():
        values = [float(value) for value in of.get(name, ())]
        if any(values):
            low, high = min(values), max(values)
            number = f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"
            said.append(words if name == "own_local_steps" else f"{number} {words}")
    return said


def bound_answer(data: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """The bound, the policy nearest to it within its limits, and those outside of them.

    `data` is the JSON of `fedrt bound`, `labels` names its policies.
    """
    time = precise_time(data["bound"]["time_s"]["mean"])
    words = [f"No plan within the limits takes less than {time}."]
    if "bound_over_codecs" in data:
        coded = precise_time(data["bound_over_codecs"]["time_s"]["mean"])
        words.append(f"With codecs to choose from it is {coded}.")
    kept = {name: of for name, of in data["policies"].items() if not outside(of)}
    if kept:
        name = min(kept, key=lambda each: kept[each]["above_bound"]["mean"])
        above = kept[name]["above_bound"]["mean"]
        words.append(
            f"Nearest within the limits: {labels[name]},"
            f" {precise_time(kept[name]['total_time_s']['mean'])}, {above:.2%} above its bound."
        )
    broken = [labels[name] for name in data["policies"] if name not in kept]
    if broken:
        words.append(f"Outside the limits, where the bound does not hold: {listed(broken)}.")
    return " ".join(words)
