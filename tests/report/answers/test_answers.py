"""Answers in words: who is quickest within budgets, what is efficient, who overspends."""

from __future__ import annotations

import pytest

from fedrt.report.answers.bounds import bound_answer
from fedrt.report.answers.comparisons import comparison_answer
from fedrt.report.answers.found import Found, listed
from fedrt.report.answers.sweeps import front_answer, sweep_answer


def of(time_s: float, energy_j: float = 1.0, over: float = 0.0, **more) -> dict:
    """The numbers of a policy at a point, as in the JSON of a sweep."""
    values = {
        "total_time_s": time_s,
        "energy_j_mean": energy_j,
        "over_budget_devices": over,
        "over_budget_j": 0.5 * over,
    }
    return {key: {"mean": value, "per_seed": [value]} for key, value in values.items()} | more


def points(*policies: dict[str, dict], infeasible: dict[str, str] | None = None) -> dict:
    return {
        "points": [
            {"settings": {"x": i + 1}, "policies": each, "infeasible": infeasible or {}}
            for i, each in enumerate(policies)
        ]
    }


def test_a_comparison_names_the_quickest_within_budgets_and_its_lead():
    found = [Found("fedrt", 30, 1, 0), Found("ce-fedavg", 40, 1, 0), Found("quick", 20, 1, 3, 1.5)]
    assert comparison_answer(found) == (
        "Quickest with every device within its budget is fedrt: 30 s, 25.0% less than ce-fedavg."
        " quick takes 20 s, but with 3 devices over budget by 1.5 J in all."
    )
    slow = [Found("fedrt", 30, 1, 0), Found("ce-fedavg", 40, 1, 1), Found("mine", 50, 1, 2)]
    assert comparison_answer(slow).endswith(" Over budget: ce-fedavg and mine.")


def test_a_comparison_in_which_all_overspend_or_of_one_policy():
    found = [Found("fedrt", 30, 1, 1, 0.25), Found("ce-fedavg", 40, 1, 2, 4)]
    assert comparison_answer(found) == (
        "Under every policy some device is over its budget; the quickest is fedrt: 30 s, with"
        " 1 device over budget by 0.25 J in all."
    )
    assert comparison_answer(found[:1]) == ""


def test_a_sweep_says_who_wins_where_and_who_overspends():
    data = points(
        {"fedrt": of(9), "mine:Own": of(8, name="mine")},
        {"fedrt": of(4), "mine:Own": of(3, over=2, name="mine")},
    )
    assert sweep_answer(data) == (
        "Quickest with every device within its budget: mine at 1 of 2 points and fedrt at 1 of 2"
        " points, from 4 s (x = 2) under fedrt to 8 s (x = 1) under mine. Some device is over its"
        " budget in 1 of 4 results: mine (1)."
    )


def test_a_sweep_with_one_winner_one_policy_or_none_within_budgets():
    data = points({"fedrt": of(9), "slow": of(99)}, {"fedrt": of(4), "slow": of(98)})
    assert sweep_answer(data) == (
        "Quickest with every device within its budget: fedrt at every point, from 4 s (x = 2) to"
        " 9 s (x = 1). No device is over its budget in any result."
    )
    alone = sweep_answer(points({"fedrt": of(9)}, {"fedrt": of(4)}))
    assert alone.startswith("fedrt takes from 4 s (x = 2) to 9 s (x = 1).")
    over = sweep_answer(points({"fedrt": of(9, over=1)}, {"fedrt": of(4, over=1)}))
    assert over == (
        "Some device is over its budget in every result; least time: fedrt, 4 s (x = 2)."
    )
    some = points({"fedrt": of(9), "slow": of(99)}, {"fedrt": of(4, over=1), "slow": of(5, over=2)})
    assert sweep_answer(some) == (
        "Quickest with every device within its budget: fedrt at 1 of 2 points, 9 s (x = 1). At"
        " 1 point no policy keeps every budget. Some device is over its budget in 2 of 4 results:"
        " fedrt (1) and slow (1)."
    )
    stopped = points({}, infeasible={"fedrt": "not enough energy"})
    assert sweep_answer(stopped) == "No policy could run at any point."


def test_a_front_names_the_ends_of_the_front():
    data = points(
        {"a": of(9, 1, efficient=True), "b": of(8, 3, efficient=False)},
        {"a": of(4, 2, efficient=True), "b": of(5, 4, over=1, efficient=False)},
    )
    assert front_answer(data) == (
        "Efficient: a (2 points). Least time: a, 4 s and 2 J (x = 2); least energy: a, 9 s and 1 J"
        " (x = 1). Some device is over its budget in 1 of 4 results: b (1)."
    )
    one = front_answer(points({"a": of(4, 2, efficient=True), "b": of(5, 4, efficient=False)}))
    assert "Efficient: a (1 point). Least time and least energy: a, 4 s and 2 J (x = 1)." in one
    none = front_answer(points({"a": of(4, 2, over=1, efficient=False)}))
    assert none == "No point is efficient: under each some device is over its budget."


def test_a_bound_names_the_nearest_within_its_limits():
    def policy(time_s: float, above: float, over: int = 0) -> dict:
        return of(time_s) | {"above_bound": {"mean": above}, "devices_over_limit": [over, over]}

    data = {
        "bound": {"time_s": {"mean": 10.0}},
        "policies": {"fedrt": policy(12, 0.2), "plus": policy(11, 0.1), "near": policy(10, 0, 1)},
    }
    labels = {name: name for name in data["policies"]}
    assert bound_answer(data, labels) == (
        "No plan within the limits takes less than 10.000 s. Nearest within the limits: plus,"
        " 11.000 s, 10.00% above its bound. Outside the limits, where the bound does not hold:"
        " near."
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("a", "a"),
        ("ab", "a and b"),
        ("abcde", "a, b, c, d and e"),
        ("abcdef", "a, b, c, d and 2 more"),
    ],
)
def test_long_lists_are_cut(words, said):
    assert listed(list(words)) == said
