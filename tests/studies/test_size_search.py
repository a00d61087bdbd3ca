"""Where `fedrt size` searches: which end of a range is wanted, and what is searched around."""

from __future__ import annotations

import pytest

from fedrt.studies.sizing import Try, _nearest, which


def tried(value: float, time_s: float, over_j: float = 0.0) -> Try:
    return Try(
        value, (time_s,), runs=({"over_budget_devices": over_j > 0, "over_budget_j": over_j},)
    )


@pytest.mark.parametrize(
    ("low", "between", "high", "wanted"),
    [
        (tried(1, 10.0), tried(2, 9.95), tried(3, 20.0), "greatest"),  # half a percent is nothing
        (tried(1, 10.0), tried(2, 9.8), tried(3, 20.0), "least"),
        (tried(1, 10.0), tried(2, 12.0), tried(3, 9.0), "least"),
        (tried(1, 10.0, 1.0), tried(2, 10.0, 2.0), tried(3, 10.0, 3.0), "greatest"),
        (tried(1, 10.0, 3.0), tried(2, 10.0, 2.0), tried(3, 10.0, 1.0), "least"),
        (tried(1, 10.0), tried(2, 10.0), tried(3, 10.0), "least"),
    ],
)
def test_which_end_is_wanted_goes_by_time_and_then_by_what_is_overspent(low, between, high, wanted):
    assert which([low, between, high]) == wanted


@pytest.mark.parametrize(
    ("tries", "nearest"),
    [
        ([tried(1, 50.0), tried(2, 5.0, 0.1)], 1),  # within budgets before fast
        ([tried(1, 50.0), tried(2, 40.0)], 2),
        ([tried(1, 5.0, 3.0), tried(2, 50.0, 1.0)], 2),  # the least over
        ([Try(1, problem="no"), tried(2, 50.0, 9.0)], 2),
    ],
)
def test_what_is_searched_around_is_within_budgets_or_the_least_over(tries, nearest):
    assert _nearest({each.value: each for each in tries}, overspend=False) == nearest


def test_where_overspending_is_allowed_only_the_time_counts():
    tries = [tried(1, 50.0), tried(2, 5.0, 0.1), tried(3, 6.0)]
    assert _nearest({each.value: each for each in tries}, overspend=True) == 2
