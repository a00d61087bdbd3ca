"""The points of a front: their budgets, what they cost, and which of them are efficient."""

from __future__ import annotations

import pytest

from fedrt.scenario import load_scenario
from fedrt.studies.front import BUDGET, SCALE, budget_at, front_points
from fedrt.studies.sweep import Point, PointResults


def point_of(settings: dict[str, str], *more: str) -> Point:
    texts = [f"{key}={word}" for key, word in settings.items()]
    return Point(settings, load_scenario("quickstart", [*more, *texts]))


def test_the_budget_at_a_point_is_that_of_an_edge_round():
    assert budget_at(point_of({BUDGET: "2"})) == 2.0
    assert budget_at(point_of({BUDGET: "2"}, f"{SCALE}=1.5")) == 3.0
    # Budgets from 1 to 3 J, and half of that.
    spread = f"{BUDGET}={{uniform=[1,3]}}"
    assert budget_at(point_of({SCALE: "0.5"}, spread)) == pytest.approx(1.0)
    assert budget_at(point_of({"rounds.global_rounds": "7"}, spread)) == pytest.approx(2.0)


def runs(*seeds: tuple[float, float, int]) -> list[dict]:
    """The time, the energy and the devices over budget on each seed; each of them by half a J."""
    return [
        {
            "policy": "own",
            "total_time_s": time_s,
            "energy_j_mean": energy_j,
            "over_budget_devices": over,
            "over_budget_j": 0.5 * over,
        }
        for time_s, energy_j, over in seeds
    ]


def test_a_front_is_of_means_over_seeds_that_keep_every_budget():
    """At 1 J: 10 s for 4 J, and 6 s for 3 J that overspend on a seed. At 2 J: 8 s for 6 J, 9 s for
    7 J, which the first beats in both, and 12 s for 4 J, which the first of all beats in time.
    """
    first = {"a": runs((9, 3, 0), (11, 5, 0)), "b": runs((6, 3, 0), (6, 3, 2))}
    second = {"a": runs((8, 6, 0)), "b": runs((9, 7, 0)), "c": runs((12, 4, 0))}
    points = front_points(
        [
            PointResults(point_of({BUDGET: budget}), results, {})
            for budget, results in (("1", first), ("2", second))
        ]
    )
    assert [(p.budget_j, p.policy, p.time_s, p.energy_j) for p in points] == [
        (1, "a", 10, 4),
        (1, "b", 6, 3),
        (2, "a", 8, 6),
        (2, "b", 9, 7),
        (2, "c", 12, 4),
    ]
    assert [point.efficient for point in points] == [True, False, True, False, False]
    assert [p.over_budget_devices for p in points] == [0, 1, 0, 0, 0]
    assert [p.over_budget_j for p in points] == [0, 0.5, 0, 0, 0]
    assert points[1].over_by_seed == (0, 2)
