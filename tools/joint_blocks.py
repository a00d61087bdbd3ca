"""The blocks of the pages that tell of `fedrt-joint`: its distance to the bound over codecs."""

from __future__ import annotations

from typing import Any

from figure_sources import measured

from fedrt.experiments.cells import TABLE

OURS, MOST_ABOVE = "fedrt-joint", 0.05
"""The policy, and how far above its bound it may be: our aim."""
LIMITS = {
    "devices_over_limit": "devices spend more than the bound's limit",
    "rounds_over_rho": "rounds leave more than rho",
    "rounds_over_consensus_limit": "rounds are over the consensus limit",
    "own_local_steps": "run changes local steps",
    "edge_rounds_over_distortion_limit": "edge rounds are over the distortion limit",
}


def joint_bound() -> str:
    """The paper's columns: the bound over codecs, the policy's time, and the energy behind both."""
    settings = measured("bound_joint").settings
    lines = [
        "| | bound, s | `fedrt-joint`, s | above | devices whose limit is `fedrt`'s spending |",
        "|---|---|---|---|---|",
    ]
    notes: list[str] = []
    for column in TABLE:
        if column.scenario not in settings.values:
            lines.append(f"| {column.title} | not computed | | | |")
            continue
        own = settings[column.scenario]
        ours, given = own.policies[OURS], own.energy_limits[0]
        above = ours.above_bound.per_seed[0]
        shown = f"{100 * above:+.1f} %" if above <= MOST_ABOVE else f"**{100 * above:+.1f} %**"
        lines.append(
            f"| {column.title} | {own.bound_over_codecs.time_s.per_seed[0]:,.0f} |"
            f" {ours.total_time_s.per_seed[0]:,.0f} | {shown} | {_raised(given)} |"
        )
        notes += [
            f"- {column.title}: {ours[name][0]} {words}."
            for name, words in LIMITS.items()
            if ours[name][0]
        ]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def _raised(given: dict[str, Any]) -> str:
    """On how many devices the bound was given more than the budget, and how much more."""
    if not given["raised"]:
        return f"none: all have {given['budget_j']:.0f} J"
    return (
        f"{given['raised']} of {given['devices']}: on average {given['raised_by_j']:.0f} J"
        f" over {given['budget_j']:.0f}"
    )
