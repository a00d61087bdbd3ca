"""The fastest weights against a semidefinite programme, and what is proven about them."""

from __future__ import annotations

import numpy as np
import pytest
from reference.cvxpy_mixing import least_zeta

from fedrt.control.mixing.fastest import GAP, MOST_EXACT, fastest_weights, simple_weights
from fedrt.control.mixing.weights import best_constant_weights, contraction, metropolis_weights
from fedrt.graph import is_connected

pytestmark = pytest.mark.numerical


def random_graph(seed, size=None):
    """A connected graph of 3 to 8 servers, from sparse to nearly complete."""
    rng = np.random.default_rng(seed)
    size = size or int(rng.integers(3, 9))
    while True:
        upper = np.triu(rng.random((size, size)) < rng.uniform(0.3, 1.0), 1)
        if is_connected(upper | upper.T):
            return upper | upper.T


@pytest.mark.parametrize("seed", range(15))
def test_the_weights_are_the_fastest_there_are(seed):
    graph = random_graph(seed)
    found, least = fastest_weights(graph), least_zeta(graph)
    assert found.zeta == pytest.approx(least, abs=GAP + 1e-6)
    # The bound is proven: it never passes the optimum (to the other solver's precision).
    assert found.bound <= least + 1e-6
    assert found.zeta - found.bound <= GAP + 1e-12


@pytest.mark.parametrize("seed", range(15))
def test_the_weights_are_mixing_weights(seed):
    graph = random_graph(seed)
    found = fastest_weights(graph)
    np.testing.assert_array_equal(found.mixing, found.mixing.T)
    np.testing.assert_allclose(found.mixing.sum(axis=1), 1.0, atol=1e-14)
    assert not found.mixing[~graph & ~np.eye(len(graph), dtype=bool)].any()
    assert contraction(found.mixing) <= found.zeta + 1e-12
    for other in (metropolis_weights(graph), best_constant_weights(graph)):
        assert found.zeta <= contraction(other) + GAP


def test_a_complete_graph_averages_at_once_and_a_ring_of_four_keeps_a_third():
    complete = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(fastest_weights(complete).mixing, 0.2)
    assert fastest_weights(complete).zeta == 0.0
    # The ring's Laplacian has the eigenvalues 0, 2, 2, 4: (4 - 2) / (4 + 2) with equal weights,
    # and by symmetry equal weights are best.
    ring = np.roll(np.eye(4, dtype=bool), 1, axis=1)
    assert fastest_weights(ring | ring.T).zeta == pytest.approx(1 / 3, abs=GAP)


@pytest.mark.parametrize("seed", range(10))
def test_a_further_link_never_mixes_worse(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(seed, size=6)
    before = fastest_weights(graph).zeta
    for c, c2 in rng.permutation(np.argwhere(np.triu(~graph, 1))):
        graph[c, c2] = graph[c2, c] = True
        after = fastest_weights(graph).zeta
        assert after <= before + GAP
        before = after


@pytest.mark.parametrize("seed", range(10))
def test_a_question_is_answered_by_weights_or_by_proof(seed):
    graph = random_graph(seed)
    least = fastest_weights(graph).zeta
    yes = fastest_weights(graph, enough=least * 1.05 + 1e-3)
    assert contraction(yes.mixing) <= least * 1.05 + 1e-3
    if least > 0.01:
        no = fastest_weights(graph, enough=least * 0.9)
        assert no.bound > least * 0.9


def test_many_servers_take_the_better_of_two_simple_weights():
    for seed in range(4):
        graph = random_graph(seed, size=MOST_EXACT + 1)
        both = [contraction(w(graph)) for w in (metropolis_weights, best_constant_weights)]
        assert fastest_weights(graph).zeta == simple_weights(graph).zeta == min(both)
