"""Gossip between servers: by hand, against a slow twin to the bit, and what it conserves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fedrt.control.mixing.weights import MIXINGS, metropolis_weights
from fedrt.learning import gossip
from fedrt.learning.distances import pairwise_distance
from fedrt.learning.gossip import links_of, mix, mix_by_torch

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


def models(edges: int, seed: int, dtype=torch.float32, size: int = 300) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(edges, size, generator=generator, dtype=dtype) * 3 + 1


def slow_mix(before: torch.Tensor, weights: np.ndarray, gossip_steps: int) -> torch.Tensor:
    """Each server by itself, number by number: Python rounds every product and every sum."""
    kind = before.numpy().dtype.type
    held = before.tolist()
    for _ in range(gossip_steps):
        after = []
        for c, own in enumerate(held):
            new = []
            for k, value in enumerate(own):
                total = float(weights[c, c]) * value
                for j in range(len(held)):
                    if j != c and weights[c, j] != 0:
                        total = total + float(weights[c, j]) * held[j][k]
                new.append(float(kind(total)))
            after.append(new)
        held = after
    return torch.tensor(held, dtype=before.dtype)


@pytest.mark.parametrize("dtype", ULP)
@pytest.mark.parametrize("mixing", MIXINGS)
@settings(max_examples=25)
@given(edges=st.integers(1, 9), seed=st.integers(0, 1000), psi=st.integers(0, 4))
def test_it_is_what_single_servers_do_to_the_bit(dtype, mixing, edges, seed, psi):
    before, weights = models(edges, seed, dtype, size=11), MIXINGS[mixing](graph(edges, seed))
    wanted, kept = slow_mix(before, weights, psi), before.clone()
    assert torch.equal(mix(before, weights, psi), wanted)
    assert torch.equal(mix_by_torch(before, links_of(weights), psi), wanted)
    assert torch.equal(before, kept)


@given(edges=st.integers(2, 9), seed=st.integers(0, 1000), psi=st.integers(1, 12))
def test_it_is_the_power_of_the_matrix_to_rounding(edges, seed, psi):
    """All steps at once in float64, rounded once: 1e-6 of the greatest number is 17 roundings."""
    before, weights = models(edges, seed), metropolis_weights(graph(edges, seed))
    power = torch.as_tensor(np.linalg.matrix_power(weights, psi))
    at_once = (power @ before.double()).float()
    gap = (mix(before, weights, psi) - at_once).abs().max()
    assert float(gap) <= 1e-6 * float(before.abs().max())


@pytest.mark.parametrize("dtype", ULP)
@pytest.mark.parametrize("mixing", MIXINGS)
@given(edges=st.integers(1, 9), seed=st.integers(0, 1000), psi=st.integers(1, 12))
def test_mixing_conserves_the_average_to_rounding(dtype, mixing, edges, seed, psi):
    before = models(edges, seed, dtype)
    after = mix(before, MIXINGS[mixing](graph(edges, seed)), psi)
    assert after.dtype == dtype
    drift = (after.double().mean(0) - before.double().mean(0)).abs()
    # In every step each number is rounded once as it is stored, in float64 as it is added up too.
    roundings = psi * (1 if dtype == torch.float32 else 40)
    room = ULP[dtype] * (before.abs().double().amax(0) + 1) * roundings
    assert bool((drift <= room).all())


@pytest.mark.parametrize("edges", [1, 2, 5, 8])
def test_the_complete_graph_gives_all_the_same_model_at_once(edges):
    before = models(edges, edges)
    after = mix(before, metropolis_weights(~np.eye(edges, dtype=bool)), 1)
    # The average is taken in double and rounded to float32 once: the last bit at most.
    average = before.double().mean(0).expand_as(before)
    assert_allclose(after, average, rtol=ULP[torch.float32])
    assert pairwise_distance(after).max() <= ULP[torch.float32] * float(after[0].norm())


@given(edges=st.integers(2, 8), seed=st.integers(0, 1000), psi=st.integers(1, 10))
def test_psi_steps_are_psi_single_steps(edges, seed, psi):
    """To the bit: a model goes over a link in the type it is kept in."""
    weights = metropolis_weights(graph(edges, seed))
    single = models(edges, seed)
    for _ in range(psi):
        single = mix(single, weights, 1)
    assert torch.equal(mix(models(edges, seed), weights, psi), single)


def test_one_step_by_hand():
    """A path 0 - 1 - 2: weights 1/3 on links; 0 and 2 keep 2/3, 1 keeps 1/3."""
    path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    u = torch.tensor([[3.0, 0.0], [6.0, 3.0], [0.0, 9.0]], dtype=torch.float64)
    mixed = mix(u, metropolis_weights(path), 1)
    assert_allclose(mixed, [[4, 1], [3, 4], [2, 7]], rtol=1e-15)


def test_a_server_without_links_keeps_its_model():
    before = models(3, 0)
    weights = np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1.0]])
    assert torch.equal(mix(before, weights, 7)[2], before[2])


@pytest.mark.parametrize("near", [1, 7, 299, 300, 301])
@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_of_columns_and_threads_change_nothing(near, threads, monkeypatch):
    before, weights = models(6, 4), metropolis_weights(graph(6, 4))
    wanted = mix(before, weights, 3)
    monkeypatch.setattr(gossip, "NEAR", near)
    monkeypatch.setattr(gossip, "HEAVY", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert torch.equal(mix(before, weights, 3), wanted)
