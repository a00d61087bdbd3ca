"""Consensus distances: the limit, and the estimate of pairs that do not measure."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedrt.control.topology.consensus import (
    DistanceEstimate,
    consensus_limit,
    meets_limit,
    shortest_paths,
    unlinked_distance,
)

pytestmark = pytest.mark.numerical


def symmetric(size, values):
    matrix = np.zeros((size, size))
    for (c, c2), value in values.items():
        matrix[c, c2] = matrix[c2, c] = value
    return matrix


def links(size, pairs):
    return symmetric(size, dict.fromkeys(pairs, 1)).astype(bool)


DISTANCE = symmetric(3, {(0, 1): 1.0, (0, 2): 2.0, (1, 2): 4.0})
COMPLETE = ~np.eye(3, dtype=bool)
EMPTY = np.zeros((3, 3), dtype=bool)


def test_unlinked_distance_by_hand():
    # Only 0-1 is linked: both directions of 2 and 4 are left, 2 * 6 / 9 = 4/3.
    assert unlinked_distance(links(3, [(0, 1)]), DISTANCE) == pytest.approx(4 / 3, rel=1e-15)
    assert unlinked_distance(COMPLETE, DISTANCE) == 0
    assert unlinked_distance(EMPTY, DISTANCE) == pytest.approx(14 / 9, rel=1e-15)


@pytest.mark.parametrize(
    ("kappa", "limit"),
    # Base graph 0-1, 0-2 leaves 2 * 4 / 9 = 8/9, no link 14/9: 8/9 + kappa * 6/9.
    [(0.0, 8 / 9), (0.5, 11 / 9), (1.0, 14 / 9)],
)
def test_limit_by_hand(kappa, limit):
    base = links(3, [(0, 1), (0, 2)])
    assert consensus_limit(base, DISTANCE, kappa) == pytest.approx(limit, rel=1e-15)


def test_kappa_zero_forbids_pruning_and_one_allows_all():
    base = links(3, [(0, 1), (0, 2)])
    strict, free = (consensus_limit(base, DISTANCE, kappa) for kappa in (0.0, 1.0))
    assert meets_limit(base, DISTANCE, strict)
    assert not meets_limit(links(3, [(0, 2)]), DISTANCE, strict)
    assert meets_limit(EMPTY, DISTANCE, free)


def test_the_limit_has_room_for_rounding_only():
    limit = unlinked_distance(EMPTY, DISTANCE)
    assert meets_limit(EMPTY, DISTANCE, limit * (1 - 5e-13))
    assert not meets_limit(EMPTY, DISTANCE, limit * (1 - 5e-12))


def test_shortest_paths_by_hand():
    # 0 -1- 1 -2- 2, and 3 is alone; a zero is a length, not the absence of a link.
    length = np.full((4, 4), np.inf)
    length[0, 1] = length[1, 0] = 1.0
    length[1, 2] = length[2, 1] = 0.0
    expected = np.full((4, 4), np.inf)
    expected[:3, :3] = [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    np.fill_diagonal(expected, 0.0)
    np.testing.assert_array_equal(shortest_paths(length), expected)


def test_shortest_paths_take_detours():
    # Directly 10, over the middle 3 + 4.
    length = symmetric(3, {(0, 1): 3.0, (1, 2): 4.0, (0, 2): 10.0})
    np.testing.assert_array_equal(shortest_paths(length)[0], [0.0, 3.0, 7.0])


def test_a_pair_never_measured_takes_the_shortest_path():
    truth = symmetric(3, {(0, 1): 3.0, (1, 2): 4.0, (0, 2): 5.0})
    estimate = DistanceEstimate.unknown(3).update(truth, links(3, [(0, 1), (1, 2)]))
    # 0-2 is not linked: 3 + 4, whatever the truth.
    np.testing.assert_array_equal(estimate.distance[0], [0.0, 3.0, 7.0])
    # Never measured, so the next round brings the new path whole, not half of it.
    estimate = estimate.update(truth * 2, links(3, [(0, 1), (1, 2)]))
    np.testing.assert_array_equal(estimate.distance[0], [0.0, 6.0, 14.0])


def test_a_pair_measured_before_blends_half_and_half():
    truth = symmetric(3, {(0, 1): 3.0, (1, 2): 4.0, (0, 2): 5.0})
    estimate = DistanceEstimate.unknown(3).update(truth, COMPLETE)
    np.testing.assert_array_equal(estimate.distance, truth)
    # Now 0-2 is not linked: 0.5 * 5 + 0.5 * (3 + 4) = 6.
    estimate = estimate.update(truth, links(3, [(0, 1), (1, 2)]))
    np.testing.assert_array_equal(estimate.distance[0], [0.0, 3.0, 6.0])
    # Its last value is now the blend: 0.5 * 6 + 0.5 * 7 = 6.5.
    estimate = estimate.update(truth, links(3, [(0, 1), (1, 2)]))
    np.testing.assert_array_equal(estimate.distance[0], [0.0, 3.0, 6.5])


def test_without_a_measured_path_the_last_value_stands():
    truth = symmetric(3, {(0, 1): 3.0, (1, 2): 4.0, (0, 2): 5.0})
    estimate = DistanceEstimate.unknown(3).update(truth, COMPLETE)
    estimate = estimate.update(truth * 9, links(3, [(0, 1)]))
    np.testing.assert_array_equal(
        estimate.distance, symmetric(3, {(0, 1): 27.0, (1, 2): 4.0, (0, 2): 5.0})
    )


def test_updating_leaves_the_old_estimate_alone():
    truth = symmetric(2, {(0, 1): 3.0})
    before = DistanceEstimate.unknown(2)
    before.update(truth, ~np.eye(2, dtype=bool))
    np.testing.assert_array_equal(before.distance, np.zeros((2, 2)))
    assert not before.measured_once.any()


@pytest.mark.parametrize("middle", [0, 1, 2])
def test_a_path_may_lead_over_any_server(middle):
    """The two others measure with the middle one alone: 3 + 4, whichever it is."""
    one, two = (c for c in range(3) if c != middle)
    measured = links(3, [(one, middle), (middle, two)])
    truth = symmetric(3, {(one, middle): 3.0, (middle, two): 4.0, (one, two): 5.0})
    estimate = DistanceEstimate.unknown(3).update(truth, measured)
    assert estimate.distance[one, two] == estimate.distance[two, one] == 7.0


def test_paths_are_as_short_as_the_best_of_all_ways():
    """Five servers, every way over the others tried by hand."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        length = np.triu(np.where(rng.random((5, 5)) < 0.6, rng.uniform(1, 9, (5, 5)), np.inf), 1)
        length = length + length.T
        found = shortest_paths(length)
        for c, c2 in itertools.permutations(range(5), 2):
            others = [k for k in range(5) if k not in (c, c2)]
            ways = [
                sum(itertools.starmap(length.item, itertools.pairwise((c, *over, c2))))
                for count in range(4)
                for over in itertools.permutations(others, count)
            ]
            assert found[c, c2] == pytest.approx(min(ways), rel=1e-15)
