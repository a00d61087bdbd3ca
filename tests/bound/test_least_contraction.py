"""Bounds on the least contraction: against a semidefinite program, brute force and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from reference.whole_run import least_zeta, subsets
from support.graphs import random_graph

from fedrt.bound import least_contraction
from fedrt.bound.least_contraction import contraction_bounds, degree_contraction
from fedrt.control.mixing.fastest import fastest_weights

pytestmark = pytest.mark.numerical

PATH = np.array([[False, True, False], [True, False, True], [False, True, False]])


def test_degree_bound_by_hand():
    # A path of three: an end has 1 link, m = 3 - 1 - 1 = 1 missing: sqrt(1 / (3 x 2)).
    assert degree_contraction(1, 3) == pytest.approx((1 / 6) ** 0.5)
    assert degree_contraction(7, 8) == 0.0


def test_contraction_bounds_enclose_the_semidefinite_program(record_property):
    rng = np.random.default_rng(3)
    worst = 0.0
    for size in (2, 3, 5, 6):
        graphs = np.array([random_graph(rng, size) for _ in range(4)])
        low, high = contraction_bounds(graphs)
        for graph, below, above in zip(graphs, low, high, strict=True):
            zeta = least_zeta(graph)
            assert below <= zeta + 1e-7
            assert above >= zeta - 1e-7
            assert degree_contraction(graph.sum(axis=1).min(), size) <= zeta + 1e-7
            worst = max(worst, zeta - below)
    assert worst < 0.01
    record_property("oracle", {"worst certified contraction below the best": float(worst)})


def test_a_target_only_ends_the_search_sooner():
    rng = np.random.default_rng(5)
    graphs = np.array([random_graph(rng, 6) for _ in range(20)])
    low, high = contraction_bounds(graphs)
    for target in (0.2, 0.4, 0.6):
        some_low, some_high = contraction_bounds(graphs, np.full(20, target))
        assert not ((some_low > target * (1 + 1e-9)) & (high <= target)).any()
        assert not ((some_high <= target) & (low > target * (1 + 1e-9))).any()


def test_a_target_near_the_least_contraction_is_decided():
    """Just below what no weights beat, and just above what some reach, the answer is sure."""
    rng = np.random.default_rng(5)
    graphs = np.array([random_graph(rng, 6) for _ in range(20)])
    low, high = contraction_bounds(graphs)
    assert (high - low <= 2e-3).all()
    below, above = low * (1 - 1e-4), high * (1 + 1e-4)
    some = low > 0
    assert (contraction_bounds(graphs, below)[0] > below)[some].all()
    assert (contraction_bounds(graphs, above)[1] <= above).all()


@pytest.mark.parametrize("size", [2, 3, 4])
def test_no_weights_on_any_graph_mix_better_than_the_bound(size):
    """Brute force: every connected graph, weights all over, near the best and on it."""
    rng = np.random.default_rng(size)
    graphs = np.array(subsets(~np.eye(size, dtype=bool)))
    bound, _ = contraction_bounds(graphs)
    average = np.full((size, size), 1 / size)
    for graph, low in zip(graphs, bound, strict=True):
        best = np.where(graph, fastest_weights(graph, gap=1e-7).mixing, 0.0)
        # Weights may be negative. Steps from 1e-7 of the best weights up to far beyond them.
        noise = np.triu(
            rng.normal(size=(2000, size, size)) * 10 ** rng.uniform(-7, 0, (2000, 1, 1))
        )
        weight = best + np.where(graph, noise + noise.transpose(0, 2, 1), 0.0)
        weight = np.concatenate([best[None], weight])
        mixing = weight + (1 - weight.sum(axis=2))[:, :, None] * np.eye(size)
        found = np.linalg.norm(mixing - average, ord=2, axis=(1, 2))
        assert found.min() >= low - 1e-12
        # The best of them comes close: the comparison would notice a bound that is too high.
        assert found.min() <= low + 1e-5


@pytest.mark.parametrize("sharpness", [0.5, 8.0, 648.0])
def test_the_certificate_of_a_path_of_three_is_exact_however_blunt_the_smoothing(
    sharpness, monkeypatch
):
    # With the weight w on both links M - J has the eigenvalues 1 - w, of v = (1, 0, -1) / sqrt 2,
    # and 1 - 3 w, of u = (1, -2, 1) / sqrt 6. With a = (1, -1, 0): (a v)^2 = 1/2, (a u)^2 = 3/2,
    # so Y = 3 v v' - u u' and its multiples are all of its kind with a' Y a = 0 on both links.
    # <Y, I - J> = 3 - 1 over 3 + 1 is 1/2, for every multiple; w = 1/2 reaches it.
    monkeypatch.setattr(least_contraction, "SHARPNESS", (sharpness,))
    (low,), (high,) = contraction_bounds(PATH[None])
    assert low == pytest.approx(0.5, rel=1e-9)
    assert high >= low


def test_a_target_that_is_only_touched_does_not_end_the_search():
    """The bound on a path of three is 1/2 at once; a target of 1/2 is on neither side of it."""
    low, high = contraction_bounds(PATH[None])
    some_low, some_high = contraction_bounds(PATH[None], np.array([0.5]))
    np.testing.assert_array_equal((some_low, some_high), (low, high))
