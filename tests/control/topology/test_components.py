"""A backhaul that has fallen apart: every part is planned and mixed by itself."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference.exhaustive_topology import least_round_time_s

from fedrt.control.mixing.weights import MIXINGS, contraction, mixing_weights, slowest_contraction
from fedrt.control.topology.components import links_by_part
from fedrt.control.topology.consensus import consensus_limit, meets_limit
from fedrt.control.topology.links import best_links, finish_time_s, prune_greedily
from fedrt.graph import parts_of, same_parts
from fedrt.policies.base import keep_all_links

pytestmark = pytest.mark.numerical

RULES = [best_links, prune_greedily, keep_all_links]


def broken(seed: int, parts: tuple[int, ...] = (4, 3, 1)):
    """Finish times, link times and distances of servers in parts, shuffled; one is alone."""
    rng = np.random.default_rng(seed)
    size = sum(parts)
    part = rng.permutation(np.repeat(np.arange(len(parts)), parts))
    link_s = np.triu(rng.uniform(0.5, 8, (size, size)), 1)
    link_s = link_s + link_s.T
    link_s[part[:, None] != part[None, :]] = np.inf
    np.fill_diagonal(link_s, np.inf)
    distance = np.triu(1 + 0.3 * rng.random((size, size)), 1)
    return rng.uniform(0, 10, size), link_s, distance + distance.T, part


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(20))
def test_each_part_is_planned_as_if_it_were_alone(rule, seed):
    finish_s, link_s, distance, part = broken(seed)
    base, kappa = np.isfinite(link_s), 0.5
    limit = consensus_limit(base, distance, kappa)
    topology = links_by_part(rule, finish_s, link_s, distance, limit)
    assert same_parts(topology, base)
    assert meets_limit(topology, distance, limit)
    for number in range(3):
        mine = np.flatnonzero(part == number)
        within = np.ix_(mine, mine)
        own = consensus_limit(base[within], distance[within], kappa)
        alone = np.zeros((1, 1), dtype=bool)
        if len(mine) > 1:
            alone = rule(finish_s[mine], link_s[within], distance[within], own)
        assert_array_equal(topology[within], alone)


def test_a_whole_backhaul_is_left_to_the_rule():
    finish_s, link_s, distance, _ = broken(0, (6,))
    limit = consensus_limit(np.isfinite(link_s), distance, 0.3)
    for rule in RULES:
        one = links_by_part(rule, finish_s, link_s, distance, limit)
        assert_array_equal(one, rule(finish_s, link_s, distance, limit))


def test_the_best_links_of_a_part_are_those_of_an_exhaustive_search():
    for seed in range(10):
        finish_s, link_s, distance, part = broken(seed)
        base = np.isfinite(link_s)
        limit = consensus_limit(base, distance, 0.4)
        topology = links_by_part(best_links, finish_s, link_s, distance, limit)
        for number in (0, 1):
            mine = np.flatnonzero(part == number)
            within = np.ix_(mine, mine)
            own = consensus_limit(base[within], distance[within], 0.4)
            found_s = finish_time_s(topology[within], finish_s[mine], link_s[within])
            wanted_s = least_round_time_s(finish_s[mine], link_s[within], distance[within], own)
            assert found_s == pytest.approx(wanted_s, rel=1e-12)


@pytest.mark.parametrize("rule", MIXINGS)
def test_mixing_takes_every_part_to_its_own_average(rule):
    _, link_s, _, part = broken(3)
    topology = np.isfinite(link_s)
    mixing = mixing_weights(rule, topology)
    assert_allclose(mixing.sum(1), 1)
    assert_array_equal(mixing[part[:, None] != part[None, :]], 0)
    models = np.random.default_rng(0).random((8, 5))
    mixed = np.linalg.matrix_power(mixing, 200) @ models
    for number in range(3):
        mine = part == number
        assert_allclose(mixed[mine], np.tile(models[mine].mean(0), (mine.sum(), 1)), rtol=1e-9)
    lone = np.flatnonzero(part == 2)
    assert_array_equal(mixing[lone, lone], 1)
    zetas = [contraction(mixing[np.ix_(p, p)]) for p in parts_of(topology)]
    assert slowest_contraction(mixing, topology) == max(zetas)
    assert contraction(mixing) == pytest.approx(1)


def test_parts():
    graph = np.zeros((5, 5), dtype=bool)
    graph[0, 3] = graph[3, 0] = graph[1, 4] = graph[4, 1] = True
    assert [part.tolist() for part in parts_of(graph)] == [[0, 3], [1, 4], [2]]
    other = graph.copy()
    other[1, 2] = other[2, 1] = True
    assert not same_parts(graph, other)
    assert same_parts(graph, graph)
