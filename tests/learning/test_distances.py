"""Averages and distances, by hand and against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fedrt.learning import distances
from fedrt.learning.aggregators import Mean, averaging_weights
from fedrt.learning.distances import average, distance_to_average, pairwise_distance

pytestmark = pytest.mark.numerical


def models(edges: int, seed: int, dtype=torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(edges, 300, generator=generator, dtype=dtype) * 3 + 1


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
    monkeypatch.setattr("fedrt.learning.distances.FEW_MODELS", 90)
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
    monkeypatch.setattr("fedrt.learning.distances.WIDE", wide)
    whole = models.numpy()
    assert_allclose(average(models).numpy(), whole.mean(0), rtol=1e-12)
    apart = np.linalg.norm(whole - whole.mean(0), axis=1).mean()
    assert_allclose(distance_to_average(models), apart, rtol=1e-12)


def test_up_to_64_models_are_compared_by_differences_and_more_by_products(monkeypatch):
    """Products of many models are quicker, differences of few are exact to the last digits."""
    asked = []
    monkeypatch.setattr(distances, "_many_distances", lambda models: asked.append(len(models)))
    for count in (1, 2, 64):
        pairwise_distance(torch.ones(count, 3))
    assert asked == []
    pairwise_distance(torch.ones(65, 3))
    assert asked == [65]
