"""The books: worked by hand, and always in balance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from support.outcomes import outcome_of

from fedrt.ledger import GivenAllowance, Ledger, PartOfBooks, overspend_j

pytestmark = pytest.mark.numerical

NONE = np.zeros(2)


def test_worked_by_hand():
    # Budgets 12 J and 30 J, T = 3, R = 2. Edge 0 holds device 0, edge 1 device 1.
    books = Ledger.open(np.array([12.0, 30.0]), 2, global_rounds=3, edge_rounds=2)
    assert_array_equal(books.allowance_j("exact"), [2, 5])  # / 6 edge rounds
    assert_array_equal(books.allowance_j("paper"), [1.5, 3.75])  # / (6 + 2)
    books = books.charge(outcome_of(np.array([1.0, 5.0]), np.array([10.0, 4.0])))
    assert (books.t, books.r, books.time_s) == (0, 1, 0.0)
    assert_array_equal(books.elapsed_s, [10, 4])
    assert_array_equal(books.left_j, [11, 25])
    assert_allclose(books.allowance_j("exact"), [2.2, 5])  # / 5
    assert_allclose(books.allowance_j("paper"), [11 / 7, 25 / 7])
    books = books.charge(
        outcome_of(np.array([1.0, 1.0]), np.array([2.0, 7.0]), np.array([3.0, 5.0]))
    )
    # Edge 0: 10 + 2 + 3 = 15; edge 1: 4 + 7 + 5 = 16.
    assert (books.t, books.r, books.time_s) == (1, 0, 16.0)
    assert_array_equal(books.elapsed_s, [0, 0])
    assert_array_equal(books.allowance_j("exact"), [2.5, 6])  # 10 / 4, 24 / 4
    assert_allclose(books.allowance_j("paper"), [10 / 6, 4])


def test_who_trains_now_and_then_spreads_the_budget_over_fewer_rounds():
    """T = 3, R = 2: the coming edge round and a quarter or half of the five after it."""
    share = np.array([0.25, 0.5, 1.0])
    books = Ledger.open(np.array([9.0, 7.0, 12.0]), 3, 3, 2, participation=share)
    assert_array_equal(books.rounds_left("exact"), [2.25, 3.5, 6])
    assert_array_equal(books.allowance_j("exact"), [4, 2, 2])
    assert_array_equal(books.rounds_left("paper"), [2.75, 4.5, 8])
    for _ in range(5):
        books = books.charge(outcome_of(np.zeros(3), np.zeros(3), np.zeros(3)))
    assert_array_equal(books.allowance_j("exact"), [9, 7, 12])


def test_the_part_of_the_books_of_those_that_take_part():
    """T = 3, R = 2, after one edge round of which device 0 took no part; 1 and 3 come now.

    Left are (T - t) R - r = 5 edge rounds: the coming one and a share of the four after it.
    """
    share = np.array([1.0, 0.25, 0.5, 0.75])
    books = Ledger.open(np.array([8.0, 12.0, 9.0, np.inf]), 2, 3, 2, participation=share)
    books = books.charge(outcome_of([2.0, 3.0, 4.0], [5.0, 7.0], device=[1, 2, 3]))
    part = PartOfBooks(books, np.array([1, 3]))
    assert_array_equal(part.elapsed_s, [5, 7])
    assert_array_equal(part.allowance_j("exact"), [10 / 2, np.inf])
    assert_array_equal(part.allowance_j("paper"), [10 / 2.5, np.inf])
    pace = part.pace("exact")
    assert_array_equal(pace.device, [1, 3])
    assert pace.fleet_size == 4
    assert_array_equal(pace.left_j, [10, np.inf])
    assert_array_equal(pace.rounds_left, [2, 4])
    assert_array_equal(part.pace("paper").rounds_left, [2.5, 5.5])
    assert (pace.t, pace.r, pace.edge_rounds) == (0, 1, 2)
    assert_array_equal(pace.budget_j, [12, np.inf])
    assert_array_equal(pace.spent_j, [2, 4])
    assert (pace.most_rounds_left, pace.time_s) == (5, 0)
    for left in (4, 3, 2, 1):
        books = books.charge(outcome_of(np.zeros(4), np.array([5.0, 7.0])))
        assert PartOfBooks(books, np.array([1, 3])).pace("exact").most_rounds_left == left


def test_nobody_writes_in_the_books():
    books = Ledger.open(np.array([2.0, 3.0]), 2, 2, 2)
    part = PartOfBooks(books, np.array([1]))
    given_books = GivenAllowance(np.ones(2), np.zeros(2))
    for values in (books.spent_j, books.budget_j, part.who, part.pace("exact").device):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 7
    for values in (given_books.allowance, given_books.elapsed_s):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 7


def test_the_last_edge_round_may_spend_all_that_is_left():
    books = Ledger.open(np.array([12.0]), 1, 3, 2)
    for _ in range(5):
        books = books.charge(outcome_of(np.array([1.0]), np.array([1.0]), np.array([0.0])))
    assert_array_equal(books.allowance_j("exact"), [7])
    assert_allclose(books.allowance_j("paper"), [7 / 3])  # the paper keeps two edge rounds unspent


def test_overspending_turns_the_allowance_negative():
    books = Ledger.open(np.array([2.0, 20.0]), 2, 2, 1)
    books = books.charge(outcome_of(np.array([5.0, 1.0]), NONE))
    assert_array_equal(books.left_j, [-3, 19])
    assert_array_equal(books.overspent_j, [3, 0])
    assert_array_equal(books.allowance_j("exact"), [-3, 19])


def test_no_limit_stays_no_limit():
    books = Ledger.open(np.array([np.inf, 0.0]), 2, 2, 1)
    assert_array_equal(books.allowance_j("paper"), [np.inf, 0])
    books = books.charge(outcome_of(np.array([1e9, 1.0]), NONE))
    assert_array_equal(books.allowance_j("exact"), [np.inf, -1])
    assert_array_equal(books.overspent_j, [0, 1])


@pytest.mark.parametrize("horizon", ["paper", "exact"])
def test_the_scenario_may_overrule_the_horizon(horizon):
    books = Ledger.open(np.array([12.0]), 1, 3, 2, forced_horizon=horizon)
    expected = 1.5 if horizon == "paper" else 2.0
    assert_array_equal(books.allowance_j("paper"), [expected])
    assert_array_equal(books.allowance_j("exact"), [expected])


def test_a_charge_leaves_the_old_books_alone():
    books = Ledger.open(np.array([2.0, 3.0]), 2, 2, 2)
    books.charge(outcome_of(np.ones(2), np.ones(2), np.ones(2)))
    assert_array_equal(books.spent_j, [0, 0])
    assert_array_equal(books.elapsed_s, [0, 0])


def test_rounding_is_no_overspend():
    one = np.array([1.0])
    assert overspend_j(one + 1e-12, one) == 0
    assert overspend_j(one + 1e-6, one) == pytest.approx(1e-6)
    assert overspend_j(one, -one) == 2
    # Relative to the greater of the two: nothing is left of a budget, or next to nothing spent.
    assert overspend_j(one * 1e3 + 1e-7, one * 1e3) == 0
    assert overspend_j(one * 1e-12, one * 0) == pytest.approx(1e-12)
    assert overspend_j(-one * 5e-10 + 5e-19, -one * 5e-10) == 0


def test_given_allowances_know_no_horizon():
    given_j = np.array([1.0, np.inf])
    books = GivenAllowance(given_j, NONE)
    assert_array_equal(books.allowance_j("paper"), given_j)
    assert_array_equal(books.allowance_j("exact"), given_j)


AMOUNT = st.floats(0, 1e6)


@given(
    budget=st.lists(st.floats(0, 1e9), min_size=3, max_size=3),
    edge_rounds=st.integers(1, 3),
    turns=st.lists(st.lists(AMOUNT, min_size=7, max_size=7), min_size=1, max_size=12),
)
def test_the_books_always_balance(budget, edge_rounds, turns):
    """Three devices, two edges; a turn is 3 energies, 2 edge times, 2 backhaul times."""
    table = np.array(turns[: len(turns) // edge_rounds * edge_rounds]).reshape(-1, 7)
    global_rounds = len(table) // edge_rounds
    books = Ledger.open(np.array(budget), 2, max(global_rounds, 1), edge_rounds)
    for row in table:
        assert np.isfinite(books.allowance_j("exact")).all()
        books = books.charge(outcome_of(row[:3], row[3:5], row[5:]))
        # Absolute: two units in the last place of the greatest sum, 12 x 1e6 J.
        assert_allclose(books.left_j + books.spent_j, budget, rtol=1e-12, atol=4e-9)
    assert_allclose(books.spent_j, table[:, :3].sum(axis=0), rtol=1e-12)
    per_round = (table[:, 3:5] + table[:, 5:]).reshape(-1, edge_rounds, 2).sum(axis=1).max(axis=1)
    assert_allclose(books.time_s, per_round.sum(), rtol=1e-12)
    assert (books.t, books.r) == (global_rounds, 0)
