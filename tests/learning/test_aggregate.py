"""Averaging, mixing and distances, by hand and by what must be conserved."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fedrt.control.mixing.weights import MIXINGS, metropolis_weights
from fedrt.learning import gossip as aggregate
from fedrt.learning.aggregators import Mean, averaging_weights
from fedrt.learning.gossip import average, distance_to_average, mix, pairwise_distance

pytestmark = pytest.mark.numerical

ULP = {torch.float32: 2.0**-23, torch.float64: 2.0**-52}


def graph(edges: int, seed: int) -> np.ndarray:
    """A random tree with random links on top: connected."""
    rng = np.random.default_rng(seed)
    links = np.zeros((edges, edges), dtype=bool)
    for c in range(1, edges):
        links[c, rng.integers(c)] = True
    links |= rng.random((edges, edges)) < 0.2
    links |= links.T
    np.fill_diagonal(links, False)
    return links


def models(edges: int, seed: int, dtype=torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(edges, 300, generator=generator, dtype=dtype) * 3 + 1


@pytest.mark.parametrize("dtype", ULP)
@pytest.mark.parametrize("mixing", MIXINGS)
@given(edges=st.integers(1, 9), seed=st.integers(0, 1000), psi=st.integers(1, 12))
def test_mixing_conserves_the_average_to_rounding(dtype, mixing, edges, seed, psi):
    before = models(edges, seed, dtype)
    after = mix(before, MIXINGS[mixing](graph(edges, seed)), psi)
    assert after.dtype == dtype
    drift = (after.double().mean(0) - before.double().mean(0)).abs()
    # Each of the stored numbers is rounded once; psi steps of the matrix in double are far below.
    room = ULP[dtype] * (after.abs().double().mean(0) + 1) * (1 if dtype == torch.float32 else 40)
    assert bool((drift <= room).all())


@pytest.mark.parametrize("edges", [1, 2, 5, 8])
def test_the_complete_graph_gives_all_the_same_model_at_once(edges):
    before = models(edges, edges)
    kept = before.clone()
    after = mix(before, metropolis_weights(~np.eye(edges, dtype=bool)), 1)
    assert torch.equal(before, kept)
    # The average is taken in double and rounded to float32 once: the last bit at most.
    average = before.double().mean(0).expand_as(before)
    assert_allclose(after, average, rtol=ULP[torch.float32])
    assert pairwise_distance(after).max() <= ULP[torch.float32] * float(after[0].norm())


@given(edges=st.integers(2, 8), seed=st.integers(0, 1000), psi=st.integers(1, 10))
def test_psi_steps_at_once_are_psi_single_steps(edges, seed, psi):
    mixing = metropolis_weights(graph(edges, seed))
    at_once = mix(models(edges, seed, torch.float64), mixing, psi)
    single = models(edges, seed, torch.float64)
    for _ in range(psi):
        single = mix(single, mixing, 1)
    assert_allclose(at_once, single, rtol=1e-12, atol=1e-13)


def test_one_step_by_hand():
    """A path 0 - 1 - 2: weights 1/3 on links; 0 and 2 keep 2/3, 1 keeps 1/3."""
    path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    u = torch.tensor([[3.0, 0.0], [6.0, 3.0], [0.0, 9.0]], dtype=torch.float64)
    mixed = mix(u, metropolis_weights(path), 1)
    assert_allclose(mixed, [[4, 1], [3, 4], [2, 7]], rtol=1e-15)


def test_distances_by_hand():
    """(0, 0), (3, 4), (0, 12): 5, 12, and sqrt(9 + 64); the average is (1, 16/3)."""
    u = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 12.0]])
    distance = pairwise_distance(u)
    third = np.sqrt(73)
    assert_allclose(distance, [[0, 5, 12], [5, 0, third], [12, third, 0]], rtol=1e-15)
    to_average = [np.hypot(1, 16 / 3), np.hypot(2, 4 / 3), np.hypot(1, 20 / 3)]
    assert distance_to_average(u) == pytest.approx(np.mean(to_average), rel=1e-14)


@given(edges=st.integers(1, 9), seed=st.integers(0, 1000))
def test_distances_are_symmetric_and_those_of_numpy(edges, seed):
    u = models(edges, seed)
    distance = pairwise_distance(u)
    assert distance.dtype == np.float64
    assert_array_equal(distance, distance.T)
    assert_array_equal(distance.diagonal(), 0)
    rows = u.double().numpy()
    wanted = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(-1))
    assert_allclose(distance, wanted, rtol=1e-13)
    mean = np.linalg.norm(rows - rows.mean(0), axis=1).mean()
    assert distance_to_average(u) == pytest.approx(mean, rel=1e-13, abs=1e-13)


def test_close_models_far_from_zero_keep_their_distance():
    """The Gram matrix would lose 1e-6 next to norms of 1e4."""
    u = torch.full((2, 10_000), 100.0, dtype=torch.float64)
    u[1, 0] += 1e-6
    assert pairwise_distance(u)[0, 1] == pytest.approx(1e-6, rel=1e-6)
    assert distance_to_average(u) == pytest.approx(0.5e-6, rel=1e-6)
    assert pairwise_distance(u[:1]).tolist() == [[0.0]]
    assert distance_to_average(u[:1]) == 0


def test_many_models_have_the_distances_of_few(monkeypatch):
    """Far from zero, spread over four orders of magnitude, some equal: worst relative gap 1e-10."""
    rng = np.random.default_rng(0)
    spread = 10.0 ** rng.uniform(-4, 0, (90, 1))
    u = torch.tensor(100 + spread * rng.standard_normal((90, 40_000)))
    u[7], u[9] = u[3], u[3]
    u[11, 5] += 1e-6
    u[12] = u[11]
    u[12, 4] += 1e-6
    many = pairwise_distance(u)
    monkeypatch.setattr("fedrt.learning.gossip.FEW_MODELS", 90)
    assert_allclose(many, pairwise_distance(u), rtol=1e-10)
    assert_array_equal(many, many.T)
    assert many[3, 7] == many[9, 7] == many[4, 4] == 0
    assert many[11, 12] == pytest.approx(1e-6, rel=1e-6)


def test_averaging_weights():
    """Within an edge equal shares, or 10 : 30 and 5 : 10 : 10; edge 1 has nobody."""
    edge_of_device = np.array([0, 0, 2, 2, 2])
    samples = np.array([10, 30, 5, 10, 10])
    uniform = averaging_weights(edge_of_device, Mean(), samples)
    assert_allclose(uniform, [1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3])
    by_samples = averaging_weights(edge_of_device, Mean(by_samples=True), samples)
    assert_allclose(by_samples, [0.25, 0.75, 0.2, 0.4, 0.4])


@pytest.mark.parametrize("wide", [7, 40, 10_000])
def test_blocks_of_columns_change_nothing(wide, monkeypatch):
    rng = np.random.default_rng(3)
    models = torch.as_tensor(rng.normal(size=(5, 83)))
    weights = rng.dirichlet(np.ones(5), 5)
    monkeypatch.setattr("fedrt.learning.gossip.WIDE", wide)
    whole = models.numpy()
    mixed = np.linalg.matrix_power(weights, 3) @ whole
    assert_allclose(mix(models, weights, 3).numpy(), mixed, rtol=1e-12)
    assert_allclose(average(models).numpy(), whole.mean(0), rtol=1e-12)
    apart = np.linalg.norm(whole - whole.mean(0), axis=1).mean()
    assert_allclose(distance_to_average(models), apart, rtol=1e-12)


def test_up_to_64_models_are_compared_by_differences_and_more_by_products(monkeypatch):
    """Products of many models are quicker, differences of few are exact to the last digits."""
    asked = []
    monkeypatch.setattr(aggregate, "_many_distances", lambda models: asked.append(len(models)))
    for count in (1, 2, 64):
        pairwise_distance(torch.ones(count, 3))
    assert asked == []
    pairwise_distance(torch.ones(65, 3))
    assert asked == [65]
