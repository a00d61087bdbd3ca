"""The table of `fedrt bound`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from fedrt.policies.spec import policy_labels
from fedrt.report.folding import folded_policy
from fedrt.scenario import Scenario
from fedrt.studies.bound import BoundResult, beyond_limits
from fedrt.studies.estimates import over_seeds
from fedrt.units import number_range, readable_time, signed_percent

WORDS = {
    "devices_over_limit": "{} dev over energy limit",
    "rounds_over_rho": "{} rounds over rho",
    "rounds_over_consensus_limit": "{} rounds over consensus limit",
    "own_local_steps": "other local steps",
    "edge_rounds_over_distortion_limit": "{} edge rounds over distortion limit",
}


def bound_table(scenario: Scenario, results: Sequence[BoundResult]) -> Table:
    """The bound, and each policy's time and distance to its bound; means over seeds."""
    seeds = len(results)
    table = Table(
        title=f"{escape(scenario.name)}: hindsight bound, {seeds} seed{'s' if seeds > 1 else ''}",
        caption=limits_sentence(results),
    )
    table.add_column("", no_wrap=True)
    for name in ("time", "above bound"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outside the bound's limits")
    time = over_seeds([each.bound.time_s for each in results])
    table.add_row("bound", readable_time(time["mean"]), "", "", style="bold")
    coded = [each.coded.time_s for each in results if each.coded is not None]
    if coded:
        mean = readable_time(over_seeds(coded)["mean"])
        table.add_row("bound over codecs", mean, "", "", style="bold")
    labels = policy_labels({run.policy: run.own_name for run in results[0].runs})
    for i, run in enumerate(results[0].runs):
        time = over_seeds([each.runs[i].time_s for each in results])
        above = over_seeds([each.above(each.runs[i]) for each in results])
        table.add_row(
            folded_policy(labels[run.policy]),
            readable_time(time["mean"]),
            signed_percent(above["mean"], 2),
            breaches(results, i),
        )
    return table


def breaches(results: Sequence[BoundResult], i: int) -> str:
    """A phrase on how a policy is outside the bound's limits; - if it is not."""
    found = [beyond_limits(each.bound_of(each.runs[i]), each.runs[i]) for each in results]
    values = {name: [float(each[name]) for each in found] for name in WORDS}
    said = [
        WORDS[name].format(number_range(each, "").strip())
        for name, each in values.items()
        if any(each)
    ]
    return ", ".join(said) or "-"


def limits_sentence(results: Sequence[BoundResult]) -> str:
    """A sentence that says which plans the bound is about."""
    limits = [each.bound for each in results]
    if limits[0].rho is None:
        rho = "no contraction limit"
    else:
        rho = "rho " + ", ".join(_limit(each.rho) for each in limits)
        if any(_limit(each.rho) != _limit(each.rho_asked) for each in limits):
            asked = ", ".join(_limit(each.rho_asked) for each in limits)
            rho += f" (asked: {asked}; the base graph reaches no less)"
    energy = "no device over its budget"
    if any(each.raised_devices for each in limits):
        devices = number_range([each.raised_devices for each in limits], "devices")
        energy = (
            "no device over max(budget, what fedrt spends on it); that is over the budget on"
            f" {devices}"
        )
    open_rounds = sum(each.open_rounds for each in limits)
    tail = f"; in {open_rounds} rounds the links behind it are not proven allowed"
    return f"no plan within the limits is quicker: {energy}; {rho}" + (tail if open_rounds else "")


def _limit(rho: NDArray[np.float64] | None) -> str:
    """One limit for all rounds, or the mean where every round has its own."""
    assert rho is not None
    mean = f"{np.mean(rho):.4g}"
    return mean if np.ptp(rho) == 0 else f"{mean} on average"
