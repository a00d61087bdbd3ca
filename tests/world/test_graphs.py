"""The base graph: always connected, and in words how it came about."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fedrt.graph import is_connected, links_of
from fedrt.scenario.processes import (
    CompleteGraph,
    ErdosRenyiGraph,
    LinkListGraph,
    RingGraph,
    StarGraph,
)
from fedrt.world.graphs import draw_base_graph

FIVE_LINKS = LinkListGraph(((0, 1), (3, 1), (1, 2), (4, 0), (5, 4)))
KINDS = [
    CompleteGraph(),
    RingGraph(),
    StarGraph(),
    FIVE_LINKS,
    ErdosRenyiGraph(0.3),
    ErdosRenyiGraph(0.0),
]


def draw(graph, size, seed=0):
    return draw_base_graph(graph, np.arange(size), seed)


def links(graph) -> set[tuple[int, int]]:
    return set(zip(*(end.tolist() for end in links_of(graph)), strict=True))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_kind_is_a_connected_plain_graph(kind):
    for size in [6] if kind is FIVE_LINKS else [1, 2, 3, 9]:
        graph, words = draw(kind, size)
        assert graph.shape == (size, size)
        assert graph.dtype == np.bool_
        assert_array_equal(graph, graph.T)
        assert not np.diag(graph).any()
        assert is_connected(graph)
        assert words


@pytest.mark.parametrize(
    ("kind", "one", "two", "three", "four"),
    [
        (RingGraph(), set(), {(0, 1)}, {(0, 1), (1, 2), (0, 2)}, {(0, 1), (1, 2), (2, 3), (0, 3)}),
        (StarGraph(), set(), {(0, 1)}, {(0, 1), (0, 2)}, {(0, 1), (0, 2), (0, 3)}),
        (CompleteGraph(), set(), {(0, 1)}, {(0, 1), (0, 2), (1, 2)}, None),
    ],
)
def test_small_rings_stars_and_complete_graphs(kind, one, two, three, four):
    for size, expected in enumerate([one, two, three, four], start=1):
        if expected is not None:
            assert links(draw(kind, size)[0]) == expected


def test_given_links_are_taken_either_way_round():
    graph, words = draw(FIVE_LINKS, 6)
    assert links(graph) == {(0, 1), (1, 3), (1, 2), (0, 4), (4, 5)}
    assert words == "5 given links"


def test_a_sparse_random_graph_says_at_which_draw_it_was_connected():
    tries = []
    for seed in range(300):
        graph, words = draw(ErdosRenyiGraph(0.2), 8, seed)
        assert is_connected(graph)
        tries.append(int(re.fullmatch(r"Erdos-Renyi, p = 0.2, connected at draw (\d+)", words)[1]))
    # 14 % of G(8, 0.2) are connected, so the draws needed are geometric: mean 7.1, deviation 6.6.
    assert abs(np.mean(tries) - 1 / 0.14) < 5 * 6.6 / np.sqrt(300)
    assert len(set(tries)) > 5


def test_the_share_of_links_is_the_probability():
    # At p = 0.6 and 30 servers the first draw is connected, so nothing was selected.
    graphs = [draw(ErdosRenyiGraph(0.6), 30, seed) for seed in range(20)]
    assert all(words.endswith("at draw 1") for _, words in graphs)
    share = np.mean([graph.sum() / (30 * 29) for graph, _ in graphs])
    assert abs(share - 0.6) < 5 * np.sqrt(0.24 / (20 * 435))


@pytest.mark.parametrize("size", [2, 3, 8])
def test_what_never_connects_is_joined_by_random_links_and_says_so(size):
    graph, words = draw(ErdosRenyiGraph(0.0), size)
    assert len(links(graph)) == size - 1
    assert is_connected(graph)
    expected = f"not connected in 1000 draws: {size - 1} random links join it"
    assert words == f"Erdos-Renyi, p = 0, {expected}"
    if size == 8:
        assert links(draw(ErdosRenyiGraph(0.0), size, 1)[0]) != links(graph)


def test_probability_one_is_complete_and_one_server_needs_no_link():
    graph, words = draw(ErdosRenyiGraph(1.0), 8)
    assert_array_equal(graph, ~np.eye(8, dtype=bool))
    assert words.endswith("connected at draw 1")
    assert draw(ErdosRenyiGraph(0.0), 1)[0].tolist() == [[False]]


@pytest.mark.parametrize("kind", KINDS[:-1], ids=lambda kind: kind.kind)
@given(key=st.permutations(range(6)).map(np.array))
def test_relabelling_permutes(kind, key):
    plain, words = draw(kind, 6, 4)
    permuted, same_words = draw_base_graph(kind, key, 4)
    assert_array_equal(permuted, plain[np.ix_(key, key)])
    assert words == same_words


@pytest.mark.parametrize("seed", range(3))
def test_relabelling_permutes_joined_parts_too(seed):
    key = np.array([3, 0, 5, 1, 4, 2])
    plain, _ = draw(ErdosRenyiGraph(0.0), 6, seed)
    permuted, _ = draw_base_graph(ErdosRenyiGraph(0.0), key, seed)
    assert_array_equal(permuted, plain[np.ix_(key, key)])
