"""`fedrt front`: the trade-off of time and energy over budgets and policies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedrt import quantities as q
from fedrt.errors import InputError
from fedrt.scenario import Scenario, load_scenario
from fedrt.scenario.load import Source, setting_value
from fedrt.scenario.tables.layers import BUDGET_FORMS
from fedrt.studies.estimates import comparison
from fedrt.studies.sweep import Point, PointResults, Sweep, split_words, sweep_data
from fedrt.system.files import write_csv, write_json
from fedrt.validation import shown
from fedrt.world.fleet import budget_range

BUDGET, SCALE = "fleet.energy_j_per_edge_round", "fleet.budget_scale"
"""What a front varies: one budget for all devices, or where theirs differ, all in proportion."""
BUDGET_RULE = f"a number of joules > 0 and <= {q.BUDGET_J.most:g}"
LEAST_FACTOR, MOST_FACTOR, BUDGETS = 0.5, 4.0, 9


@dataclass(frozen=True)
class FrontPoint:
    """A policy under a budget: means over seeds, and whether it is Pareto-efficient.

    Efficient points keep every device's budget on every seed, and no other such point is as good in
    time and energy and better in one. Where budgets differ, `budget_j` is the mean over devices
    that have one.
    """

    budget_j: float
    policy: str
    time_s: float
    energy_j: float
    over_budget_devices: float
    over_budget_j: float
    efficient: bool
    over_by_seed: tuple[int, ...] = ()
    """Devices over budget on each seed."""


def read_budgets(text: str) -> list[float]:
    """The budgets of a comma-separated list, sorted."""
    budgets = []
    for word in split_words(text):
        value = setting_value(word)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value <= q.BUDGET_J.most:
            raise InputError(f"`budgets` {shown(word)}: must be {BUDGET_RULE}")
        budgets.append(value)
    if len(set(budgets)) < len(budgets):
        raise InputError(f"`budgets` {shown(text)}: must name each budget only once")
    return sorted(budgets)


def varied_budgets(
    budgets: str | None, source: Source, settings: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """The setting that a front varies, and its values: given budgets, or steps around the own."""
    if budgets is not None:
        fleet = load_scenario(source, [*settings, f"{BUDGET}=1"]).fleet
        if all(has_own_budget(each) for each in fleet.classes or ((),)):
            names = ", ".join(each.name for each in fleet.classes or ())
            raise InputError(
                f"`budgets`: the classes {names} have budgets of their own; leave it out, and all"
                " of them are scaled"
            )
        return {BUDGET: tuple(repr(budget) for budget in read_budgets(budgets))}
    scenario = load_scenario(source, settings)
    start = _one_budget(scenario)
    if start is not None:
        return {BUDGET: tuple(repr(budget) for budget in _steps(start))}
    whole = budget_range(scenario)
    if whole is None or not whole[2] > 0:
        raise InputError(
            f"scenario.{BUDGET}: no device has a budget > 0 to start from; give `budgets` b1,b2,..."
        )
    return {SCALE: tuple(repr(scale) for scale in _steps(scenario.fleet.budget_scale or 1.0))}


def has_own_budget(given: Any) -> bool:
    """Whether a class gives its devices a budget or takes it away."""
    return any(form in getattr(given, "settings", ()) for form in BUDGET_FORMS)


def _one_budget(scenario: Scenario) -> float | None:
    """The joules per edge round that all devices with a budget have, if it is the fleet's."""
    fleet = scenario.fleet
    own = fleet.energy_j_per_edge_round
    classes = [each for each in fleet.classes or () if has_own_budget(each)]
    limited = [
        each
        for each in classes
        if any(each.settings.get(form) is not None for form in BUDGET_FORMS)
    ]
    if own is None or own.low != own.high or not own.low > 0 or fleet.budget_scale is not None:
        return None
    return None if limited or len(classes) == len(fleet.classes or ((),)) else own.low


def _steps(start: float) -> list[float]:
    """Values in geometric steps around one, with four digits each."""
    step = (MOST_FACTOR / LEAST_FACTOR) ** (1 / (BUDGETS - 1))
    return [float(f"{start * LEAST_FACTOR * step**i:.4g}") for i in range(BUDGETS)]


def budget_at(point: Point) -> float:
    """The joules per edge round at a point: one for all, or the mean over devices with a budget."""
    if BUDGET in point.settings:
        scale = point.scenario.fleet.budget_scale or 1.0
        return float(setting_value(point.settings[BUDGET])) * scale
    whole, rounds = budget_range(point.scenario), point.scenario.rounds
    assert whole is not None
    return whole[1] / (rounds.global_rounds * rounds.edge_rounds)


def front_points(outcomes: Sequence[PointResults]) -> list[FrontPoint]:
    """The result of every budget and policy that could run, in the order of the sweep."""
    rows = [
        (budget_at(outcome.point), policy, means)
        for outcome in outcomes
        for policy, means in comparison("", outcome.results)["policies"].items()
    ]
    costs = [(m["total_time_s"]["mean"], m["energy_j_mean"]["mean"]) for _, _, m in rows]
    over = [(m["over_budget_devices"]["mean"], m["over_budget_j"]["mean"]) for _, _, m in rows]
    kept = [i for i, (devices, _) in enumerate(over) if not devices]
    flags = efficient([costs[i] for i in kept])
    best = {i for i, flag in zip(kept, flags, strict=True) if flag}
    return [
        FrontPoint(
            budget_j,
            policy,
            *costs[i],
            *over[i],
            i in best,
            tuple(means["over_budget_devices"]["per_seed"]),
        )
        for i, (budget_j, policy, means) in enumerate(rows)
    ]


def efficient(costs: Sequence[tuple[float, float]]) -> list[bool]:
    """For each pair, whether it is Pareto-efficient: no other is as good in both and better in one.

    In rising order of (first, second) only an earlier, different pair can beat a later one, and it
    does iff its second part is no greater.
    """
    flags = [False] * len(costs)
    least, previous, good = math.inf, None, False
    for i in sorted(range(len(costs)), key=lambda i: costs[i]):
        if costs[i] != previous:
            previous, good = costs[i], costs[i][1] < least
            least = min(least, costs[i][1])
        flags[i] = good
    return flags


def front_data(sweep: Sweep, outcomes: Sequence[PointResults]) -> dict[str, Any]:
    """The sweep over budgets as JSON data, with `efficient` for each policy."""
    data = sweep_data(sweep, outcomes)
    flags = iter(front_points(outcomes))
    for point in data["points"]:
        for numbers in point["policies"].values():
            numbers["efficient"] = next(flags).efficient
    return data


def save_front(out: Path, sweep: Sweep, outcomes: Sequence[PointResults]) -> None:
    """Write `front.csv` and `front.json` into a folder."""
    rows = [asdict(point) for point in front_points(outcomes)]
    for row in rows:
        del row["over_by_seed"]
    write_csv(out / "front.csv", rows)
    write_json(out / "front.json", front_data(sweep, outcomes))
