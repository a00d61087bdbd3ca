"""Prices of energy: which way they move, what is kept back, and what is out of reach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tiny import tiny

from fedrt.control.allocation import even_upload_energy_j, slowest_compute_energy_j
from fedrt.control.foresight import guessed_later_s, soft_share_last
from fedrt.control.pacing import MOST_MOVE, Prices, adjust, least_price_s_per_j, spending
from fedrt.ledger import Pace
from fedrt.world.world import World

pytestmark = pytest.mark.numerical

WORLD = World(tiny(), 0)


def pace_of(left_j, rounds_left=10.0):
    return Pace(np.arange(7), 7, np.asarray(left_j, dtype=float), np.full(7, rounds_left), 0, 0, 2)


def start(left_j, rounds_left=10.0):
    seen, pace = WORLD.observe(0, 0), pace_of(left_j, rounds_left)
    return seen, pace, *spending(Prices.unknown(7), seen, pace)


def test_a_price_rises_after_spending_more_than_an_equal_part_and_falls_after_less():
    _, pace, prices, now = start(np.full(7, 20.0))
    np.testing.assert_array_equal(now.target_j, 2.0)
    energy_j = np.array([1.0, 2.0, 3.0, 2.0, 2.0, 2.0, 100.0])
    moved = np.log(adjust(prices, pace, now, energy_j).price_s_per_j / prices.price_s_per_j)
    assert moved[0] < 0 < moved[2] < moved[6] <= MOST_MOVE
    np.testing.assert_array_equal(moved[[1, 3, 4, 5]], 0.0)


def test_no_price_falls_below_the_least():
    seen, pace, prices, now = start(np.full(7, 1e6))
    for _ in range(50):
        prices, now = spending(prices, seen, pace)
        prices = adjust(prices, pace, now, np.zeros(7))
    _, now = spending(prices, seen, pace)
    np.testing.assert_allclose(now.price_s_per_j, least_price_s_per_j(seen))


def test_a_cap_leaves_the_rest_of_the_run_its_least_energy():
    left_j = np.full(7, 20.0)
    seen, _, prices, now = start(left_j)
    mean_j = prices.upload_j
    kept_j = left_j - now.cap_j
    least_j = 9 * (slowest_compute_energy_j(seen) + mean_j)
    assert np.all(kept_j >= least_j)
    assert np.all(now.cap_j >= now.target_j)
    # In the last round there is nothing left to keep back.
    prices, now = spending(prices, seen, pace_of(left_j, 1.0))
    np.testing.assert_array_equal(now.cap_j, left_j)


def test_no_limit_has_the_least_price_and_no_cap():
    seen, pace, prices, now = start(np.full(7, np.inf))
    np.testing.assert_allclose(now.price_s_per_j, least_price_s_per_j(seen))
    assert np.isinf(now.cap_j).all()
    after = adjust(prices, pace, now, np.ones(7))
    np.testing.assert_array_equal(after.price_s_per_j, prices.price_s_per_j)


def test_budgets_out_of_reach_pace_at_the_best_effort_energy():
    seen = WORLD.observe(0, 0)
    floor_j = slowest_compute_energy_j(seen)
    left_j = 10 * (floor_j + 5.0)
    left_j[0] = 10 * floor_j[0]  # nothing for the upload: the whole of cluster 0 is short
    pace = pace_of(left_j)
    prices, now = spending(Prices.unknown(7), seen, pace)
    mean_j, upload_j = prices.upload_j, even_upload_energy_j(seen)
    assert now.target_j[0] == floor_j[0] + mean_j[0]
    assert now.cap_j[0] >= floor_j[0] + upload_j[0]
    np.testing.assert_allclose(now.target_j[1:], floor_j[1:] + 5.0)


def test_devices_that_stay_away_are_left_as_they_are():
    seen = WORLD.observe(0, 0)
    some = np.array([0, 2, 3])
    part = WORLD.observe(0, 0, some)
    pace = pace_of(np.full(7, 20.0))
    pace = replace(pace, device=some, left_j=pace.left_j[some], rounds_left=pace.rounds_left[some])
    prices, now = spending(Prices.unknown(7), part, pace)
    prices = adjust(prices, pace, now, np.full(3, 5.0))
    others = np.setdiff1d(np.arange(7), some)
    assert not prices.price_s_per_j[others].any()
    assert prices.price_s_per_j[some].all()
    prices, _ = spending(prices, seen, pace_of(np.full(7, 20.0)))
    assert prices.price_s_per_j.all()


def test_the_slowest_to_come_is_worth_most():
    later_s = np.array([[10.0, 0.0], [0.0, 2.0], [0.0, 10.0], [0.0, 30.0]])
    share = soft_share_last(np.array([0.0, 0.0]) + later_s, 1e-3)
    np.testing.assert_allclose(share, [0.25, 0.75])
    np.testing.assert_allclose(soft_share_last(later_s, 1e9), 0.5)
    np.testing.assert_array_equal(guessed_later_s(np.array([1.0, 3.0]), 2), [[4.0, 4.0]])
