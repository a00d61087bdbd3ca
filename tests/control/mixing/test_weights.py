"""Mixing matrices and their contraction, by hand and as laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrt.control.mixing.weights import (
    MIXINGS,
    best_constant_weights,
    contraction,
    metropolis_weights,
    mixing_weights,
    slowest_contraction,
)

pytestmark = pytest.mark.numerical


def graph(size, links):
    adjacency = np.zeros((size, size), dtype=bool)
    for c, c2 in links:
        adjacency[c, c2] = adjacency[c2, c] = True
    return adjacency


def complete(size):
    return ~np.eye(size, dtype=bool)


PATH_3 = graph(3, [(0, 1), (1, 2)])
RING_4 = graph(4, [(0, 1), (1, 2), (2, 3), (3, 0)])


@st.composite
def connected_graphs(draw):
    """A random tree and some more links."""
    size = draw(st.integers(2, 8))
    links = [(c, draw(st.integers(0, c - 1))) for c in range(1, size)]
    more = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    links += [(c, c2) for c, c2 in draw(st.lists(more, max_size=12)) if c != c2]
    return graph(size, links)


def test_metropolis_on_the_path_by_hand():
    # Degrees 1, 2, 1: both links weigh 1 / (1 + 2) = 1/3. The ends keep 2/3, the middle 1/3.
    expected = np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3
    np.testing.assert_allclose(metropolis_weights(PATH_3), expected, rtol=0, atol=1e-15)


def test_contraction_of_the_path_by_hand():
    # M = I - L/3, and the Laplacian of the path has eigenvalues 0, 1, 3: M has 1, 2/3, 0.
    assert contraction(metropolis_weights(PATH_3)) == pytest.approx(2 / 3, rel=1e-14)


def test_contraction_of_the_ring_by_hand():
    # All degrees 2: M = I - L/3 with Laplacian eigenvalues 0, 2, 2, 4: M has 1, 1/3, 1/3, -1/3.
    assert contraction(metropolis_weights(RING_4)) == pytest.approx(1 / 3, rel=1e-14)


def test_contraction_counts_negative_eigenvalues():
    # Two servers that swap models: eigenvalues 1 and -1, so nothing is ever gained.
    assert contraction(np.array([[0.0, 1.0], [1.0, 0.0]])) == pytest.approx(1.0, rel=1e-15)


def test_best_constant_on_the_path_by_hand():
    # Laplacian 0, 1, 3: weight 2 / (1 + 3) = 1/2, M = I - L/2 has 1, 1/2, -1/2.
    mixing = best_constant_weights(PATH_3)
    expected = np.array([[0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    np.testing.assert_allclose(mixing, expected, rtol=0, atol=1e-15)
    assert contraction(mixing) == pytest.approx(1 / 2, rel=1e-14)


@pytest.mark.parametrize("size", [2, 3, 8, 50])
@pytest.mark.parametrize("rule", MIXINGS.values(), ids=MIXINGS)
def test_one_step_on_the_complete_graph_is_the_average(rule, size):
    mixing = rule(complete(size))
    np.testing.assert_allclose(mixing, 1 / size, rtol=0, atol=1e-14)
    assert contraction(mixing) < 1e-13


@pytest.mark.parametrize("rule", MIXINGS.values(), ids=MIXINGS)
def test_a_single_server_keeps_its_model(rule):
    mixing = rule(np.zeros((1, 1), dtype=bool))
    np.testing.assert_array_equal(mixing, [[1.0]])
    assert contraction(mixing) == 0.0


@pytest.mark.parametrize("rule", MIXINGS.values(), ids=MIXINGS)
@given(adjacency=connected_graphs())
def test_rows_sum_to_one_and_only_links_carry_weight(rule, adjacency):
    mixing = rule(adjacency)
    np.testing.assert_allclose(mixing.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(mixing, mixing.T)
    off_links = ~adjacency & complete(len(adjacency))
    assert np.all(mixing[off_links] == 0)
    assert np.all(mixing[adjacency] > 0)
    assert contraction(mixing) < 1


@given(connected_graphs(), st.floats(0.001, 1.5))
def test_no_other_constant_weight_mixes_faster(adjacency, factor):
    best = best_constant_weights(adjacency)
    eye = np.eye(len(adjacency))
    other = eye + factor * (best - eye)
    assert contraction(best) <= contraction(other) + 1e-12


@given(connected_graphs())
def test_contraction_bounds_what_a_step_leaves(adjacency):
    mixing = metropolis_weights(adjacency)
    model = np.random.default_rng(0).normal(size=len(adjacency))
    before = np.linalg.norm(model - model.mean())
    after = np.linalg.norm(mixing @ model - model.mean())
    assert after <= contraction(mixing) * before + 1e-12


def test_the_slowest_part_decides():
    """A path of three leaves 2/3 of a distance, a ring of four 1/3, a pair and a lone server 0."""
    links = [(0, 1), (1, 2), (3, 4), (4, 5), (5, 6), (6, 3), (7, 8)]
    topology = graph(10, links)
    mixing = mixing_weights("metropolis", topology)
    assert slowest_contraction(mixing, topology) == pytest.approx(2 / 3, rel=1e-14)
    without_path = np.ix_(range(3, 10), range(3, 10))
    slowest = slowest_contraction(mixing[without_path], topology[without_path])
    assert slowest == pytest.approx(1 / 3, rel=1e-14)
    # Where all are connected it is the contraction of the whole.
    assert slowest_contraction(metropolis_weights(PATH_3), PATH_3) == pytest.approx(2 / 3)
