"""Links, gossip steps and weights together, against trying everything."""

from __future__ import annotations

import numpy as np
import pytest
from reference.exhaustive_gossip import least_round_time_s

from fedrt.control.mixing.fastest import fastest_weights, simple_weights
from fedrt.control.mixing.gossip import choose_gossip, choose_gossip_apart
from fedrt.control.mixing.weights import contraction
from fedrt.control.topology.consensus import consensus_limit, meets_limit
from fedrt.control.topology.links import best_links, finish_time_s
from fedrt.graph import is_connected

pytestmark = pytest.mark.numerical


def problem(seed, size, kappa=0.5, missing=0.0):
    """Finish times, seconds per hop, distances and the limit, near the paper's numbers."""
    rng = np.random.default_rng(seed)
    hop_s = np.triu(8.6e6 / rng.uniform(1e6, 1e7, (size, size)), 1)
    ring = np.roll(np.eye(size, dtype=bool), 1, axis=1)
    linked = np.triu(rng.random((size, size)) >= missing, 1)
    linked = linked | linked.T | ring | ring.T
    hop_s = np.where(linked & ~np.eye(size, dtype=bool), hop_s + hop_s.T, np.inf)
    distance = np.triu(1 + 0.3 * rng.uniform(size=(size, size)), 1)
    distance = distance + distance.T
    finish_s = rng.uniform(90, 105, size)
    return finish_s, hop_s, distance, consensus_limit(np.isfinite(hop_s), distance, kappa)


def time_of(gossip, finish_s, hop_s):
    return finish_time_s(gossip.gossip.links, finish_s, gossip.gossip.steps * hop_s)


@pytest.mark.parametrize("seed", range(16))
def test_no_choice_is_faster(seed):
    size, missing = (5, 0.3) if seed % 2 else (4, 0.0)
    parts = problem(seed, size, kappa=(0.3, 0.6, 1.0)[seed % 3], missing=missing)
    rho = (0.5, 0.05, 0.005)[seed % 3]
    # The oracle's weights may be a hair slower than the search's: both end within a small gap.
    least = least_round_time_s(*parts, rho, 6, lambda kept: fastest_weights(kept, gap=1e-7).zeta)
    found = choose_gossip(*parts, rho, 6)
    if np.isfinite(least):
        assert time_of(found, *parts[:2]) == pytest.approx(least, rel=1e-12)
        assert found.contraction <= rho
    else:
        assert found.contraction > rho
    assert is_connected(found.gossip.links)
    assert meets_limit(found.gossip.links, *parts[2:])


@pytest.mark.parametrize("seed", range(8))
def test_simple_weights_keep_the_limits_and_are_never_faster_than_the_fastest(seed):
    parts = problem(seed, 6)
    exact, simple = (choose_gossip(*parts, 0.05, 10, exact=exact) for exact in (True, False))
    assert contraction(simple.gossip.weights) ** simple.gossip.steps <= 0.05
    assert meets_limit(simple.gossip.links, *parts[2:])
    assert time_of(exact, *parts[:2]) <= time_of(simple, *parts[:2])
    assert simple.zeta == simple_weights(simple.gossip.links).zeta


def test_fewer_steps_are_found_where_they_are_faster():
    """Ten steps over the best links take longer than a few over more links."""
    parts = problem(1, 8)
    found = choose_gossip(*parts, 0.05, 10)
    finish_s, hop_s, *limits = parts
    ten = finish_time_s(best_links(finish_s, 10 * hop_s, *limits), finish_s, 10 * hop_s)
    assert found.gossip.steps < 10
    assert time_of(found, finish_s, hop_s) < ten


@pytest.mark.parametrize("seed", range(4))
def test_more_freedom_is_never_slower(seed):
    parts = problem(seed, 7)
    times = [time_of(choose_gossip(*parts, rho, 8), *parts[:2]) for rho in (1e-3, 0.05, 0.5, 1.0)]
    assert times == sorted(times, reverse=True)
    times = [time_of(choose_gossip(*parts, 0.05, most), *parts[:2]) for most in (2, 4, 10)]
    assert times == sorted(times, reverse=True)


def test_out_of_reach_takes_every_link_and_every_step():
    parts = problem(0, 6, missing=1.0)  # a ring
    found = choose_gossip(*parts, 1e-9, 3)
    np.testing.assert_array_equal(found.gossip.links, np.isfinite(parts[1]))
    assert found.gossip.steps == 3
    assert found.contraction > 1e-9
    assert found.zeta == pytest.approx(fastest_weights(found.gossip.links).zeta, abs=1e-6)


def test_a_consensus_limit_out_of_reach_keeps_every_link_but_not_every_step():
    finish_s, hop_s, distance, _ = problem(0, 6, missing=0.5)
    found = choose_gossip(finish_s, hop_s, distance, 0.0, 0.5, 10)
    np.testing.assert_array_equal(found.gossip.links, np.isfinite(hop_s))
    assert found.contraction <= 0.5
    assert found.gossip.steps < 10


def triangle(rho):
    """Servers that are ready at once; 0-1 and 1-2 take a second a step, 0-2 takes ten."""
    hop_s = np.array([[np.inf, 1.0, 10.0], [1.0, np.inf, 1.0], [10.0, 1.0, np.inf]])
    return choose_gossip(np.zeros(3), hop_s, np.ones((3, 3)) - np.eye(3), np.inf, rho, 1)


def test_links_that_mix_a_hair_too_slowly_are_not_enough():
    # The path of the quick links reaches 1/2 and no less: the weight 1/2 on both gives the
    # eigenvalues 1 - 1/2 and 1 - 3/2. All three links with the weight 1/3 reach 0.
    found = triangle(0.5 * (1 - 5e-10))
    assert found.contraction <= 1e-12
    assert found.gossip.links.sum() == 6


@pytest.mark.parametrize("above", [1e-7, 2e-9])
def test_weights_reach_the_limit_itself_where_a_whole_search_stops_short_of_it(above):
    rho = 0.5 * (1 + above)
    found = triangle(rho)
    assert found.gossip.links.sum() == 4
    assert fastest_weights(found.gossip.links).zeta > rho
    assert found.contraction <= rho
    assert contraction(found.gossip.weights) <= rho


def test_one_server_has_nothing_to_mix():
    alone = choose_gossip(np.array([3.0]), np.array([[np.inf]]), np.zeros((1, 1)), 0.0, 0.1, 10)
    assert (alone.gossip.steps, alone.zeta, alone.gossip.weights.tolist()) == (1, 0.0, [[1.0]])


@pytest.mark.parametrize("seed", range(4))
def test_servers_without_links_stand_apart_from_a_choice_among_the_others(seed):
    finish_s, hop_s, distance, _ = problem(seed, 5, missing=0.2)
    # Servers 1 and 4 of seven have no links.
    there = np.array([0, 2, 3, 5, 6])
    within = np.ix_(there, there)
    all_hops_s, all_distances = np.full((7, 7), np.inf), np.full((7, 7), 2.0)
    all_hops_s[within], all_distances[within] = hop_s, distance
    np.fill_diagonal(all_distances, 0.0)
    all_finish_s = np.full(7, 200.0)
    all_finish_s[there] = finish_s
    limit = consensus_limit(np.isfinite(all_hops_s), all_distances, 0.5)
    found = choose_gossip_apart(all_finish_s, all_hops_s, all_distances, limit, 0.05, 10)
    own = consensus_limit(np.isfinite(hop_s), distance, 0.5)
    alone = choose_gossip(finish_s, hop_s, distance, own, 0.05, 10)
    assert found.contraction == alone.contraction <= 0.05
    assert found.gossip.steps == alone.gossip.steps
    np.testing.assert_array_equal(found.gossip.links[within], alone.gossip.links)
    np.testing.assert_array_equal(found.gossip.weights[within], alone.gossip.weights)
    assert found.gossip.links.sum() == alone.gossip.links.sum()
    np.testing.assert_array_equal(found.gossip.weights[[1, 4]], np.eye(7)[[1, 4]])
    assert meets_limit(found.gossip.links, all_distances, limit)


def test_two_parts_with_links_are_left_to_another_rule():
    finish_s, hop_s, distance, limit = problem(0, 6)
    hop_s[:3, 3:] = hop_s[3:, :3] = np.inf
    assert choose_gossip_apart(finish_s, hop_s, distance, limit, 0.05, 10) is None
