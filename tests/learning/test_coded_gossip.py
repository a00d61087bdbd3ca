"""Gossip by coded differences: against single servers with real messages, and what it conserves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.coded_servers import first_servers
from reference.coded_servers import gossip as gossip_of_servers

from fedrt.control.mixing.damping import damped
from fedrt.control.mixing.fastest import fastest_weights
from fedrt.control.mixing.weights import mixing_weights
from fedrt.learning import coded_gossip, gossip
from fedrt.learning.coded_gossip import KnownModels, mix_coded
from fedrt.learning.gossip import mix
from fedrt.messages import GOSSIP_CODECS, distortion
from fedrt.plan import Gossip, gossip_bits
from fedrt.world.observation import Observation

pytestmark = pytest.mark.numerical

CODECS = GOSSIP_CODECS[1:]
BUFFERS = 5


def graph(edges: int, rng: np.random.Generator, chance: float = 0.3) -> np.ndarray:
    """Random links; not always connected."""
    links = np.triu(rng.random((edges, edges)) < chance, 1)
    return links | links.T


def drift(models: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """The models after some training: together and apart, not evenly over their numbers."""
    spread = np.exp(rng.normal(size=models.shape[1]))
    change = (rng.normal(size=models.shape[1]) + 0.5 * rng.normal(size=models.shape)) * spread
    return models + torch.from_numpy(change).to(models)


def observation(size: int, codec: str) -> Observation:
    """What the loop would see of servers with so many parameters."""
    one = np.ones(1)
    return Observation(
        32.0 * size, 1, 1, np.zeros(1, dtype=np.int64), *(one,) * 6, one, gossip_codec=codec,
        buffer_bits=32.0 * BUFFERS,
    )  # fmt: skip


@pytest.mark.parametrize("move", ["kernel", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(max_examples=20, deadline=None)
@given(
    edges=st.integers(1, 5),
    size=st.sampled_from([1, 255, 256, 300, 700]),
    seed=st.integers(0, 1000),
    codecs=st.lists(st.sampled_from(CODECS), min_size=1, max_size=6),
)
def test_it_is_what_single_servers_do_with_their_messages(dtype, move, edges, size, seed, codecs):
    """To the bit, over rounds with changing links, codecs and steps.

    Both ends of every link hold equal copies after each round, from real messages alone; what these
    took is what is charged.
    """
    rng = np.random.default_rng(seed)
    first = torch.from_numpy(rng.normal(size=size + BUFFERS)).to(dtype)
    models = first.repeat(edges, 1)
    servers = first_servers(models.numpy(), size, first.numpy())
    start = first[:size]
    copies = KnownModels.none(start)
    with pytest.MonkeyPatch.context() as patch:
        if move == "torch":
            here = torch.device("cpu")
            by_torch = lambda links: coded_gossip._by_torch(links, here, "float32")[1]  # noqa: E731
            patch.setattr(coded_gossip, "_move_by_kernel", by_torch)
            patch.setattr(coded_gossip, "_has_kernel", lambda *_: False)
        for codec in codecs:
            models = drift(models, rng)
            for server, row in zip(servers, models.numpy(), strict=True):
                server.model, server.buffers = row[:size].copy(), row[size:].astype(np.float32)
            links, steps = graph(edges, rng), int(rng.integers(1, 4))
            seen, plan = observation(size, codec), Gossip(links, steps, codec=codec)
            plain = mixing_weights("metropolis", links)
            before = (models.clone(), copies.held.clone())
            mixed = mix_coded(models, copies, start, plain, steps, codec)
            assert torch.equal(models, before[0])
            assert torch.equal(copies.held, before[1])
            weights = damped(plain, distortion(codec))
            sent = gossip_of_servers(servers, links, plain, weights, steps, codec)
            np.testing.assert_array_equal(8 * sent, links * steps * gossip_bits(plan, seen))
            models, copies = mixed
            assert models.dtype == dtype
            for c, server in enumerate(servers):
                assert torch.equal(models[c, :size], torch.from_numpy(server.model))
                assert torch.equal(models[c, size:].float(), torch.from_numpy(server.buffers))
            for (c, j), copy in zip(copies.pairs.tolist(), copies.held, strict=True):
                assert torch.equal(copy, torch.from_numpy(servers[c].told[j]))


@pytest.mark.parametrize("codec", CODECS)
def test_numbers_at_the_ends_of_their_range_are_coded_alike(codec, monkeypatch):
    """Zeros, denormal numbers, and the greatest there are, whose scale would overflow."""
    rng = np.random.default_rng(5)
    ends = np.array([0.0, -0.0, 1e-45, -1e-40, 1.2e-38, 1e-30, 1.0, 3e38, -3.3e38])
    first = torch.zeros(600)
    weights = mixing_weights("metropolis", graph(4, rng, 0.9))
    for scale in (ends[:3], ends[:6], ends[:7], ends):
        models = torch.from_numpy(rng.choice(scale, size=(4, 600))).float()
        here = mix_coded(models, KnownModels.none(first), first, weights, 1, codec)
        with monkeypatch.context() as patch:
            patch.setattr(coded_gossip, "_has_kernel", lambda *_: False)
            there = mix_coded(models, KnownModels.none(first), first, weights, 1, codec)
        one, other = here.copies.held, there.copies.held
        assert bool(one.isfinite().all())
        assert torch.equal(one.view(torch.int32), other.view(torch.int32))
        assert torch.equal(here.models.view(torch.int32), there.models.view(torch.int32))


@pytest.mark.parametrize("codec", CODECS)
def test_the_average_of_the_models_stays_to_rounding(codec):
    rng = np.random.default_rng(3)
    models, first = torch.zeros(6, 500), torch.zeros(500)
    copies = KnownModels.none(first)
    for _ in range(20):
        models = drift(models, rng)
        links = graph(6, rng, 0.5)
        mixed = mix_coded(models, copies, first, mixing_weights("metropolis", links), 3, codec)
        moved = (mixed.models.double().mean(0) - models.double().mean(0)).abs()
        # Each step rounds every model once as it is stored.
        assert bool((moved <= 3 * 2.0**-23 * models.abs().double().amax(0)).all())
        models, copies = mixed


def test_whole_numbers_in_float32_mix_as_without_a_codec():
    """Integers below 2^20, weights of a half and steps that keep them whole: nothing is rounded."""
    models = torch.tensor([[8.0, -16.0, 1024.0], [24.0, 32.0, 2048.0], [0.0, 8.0, 8.0]])
    weights = np.array([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]])
    first = torch.zeros(3)
    mixed = mix_coded(models, KnownModels.none(first), first, weights, 1, "float32")
    assert torch.equal(mixed.models, mix(models, weights, 1))
    assert torch.equal(mixed.copies.held, models[mixed.copies.pairs[:, 0]])


def test_one_step_by_hand():
    """int4 has levels -7 to 7: a scale of 2 for 14 and 5, which becomes 4 (half to even).

    Server 0 moves by w (copy from 1 - copy to 1) = 1/2 (0 - 14) and 1/2 (0 - 4).
    """
    models = torch.tensor([[14.0, 5.0], [0.0, 0.0]])
    weights = np.full((2, 2), 0.5)
    mixed = mix_coded(models, KnownModels.none(torch.zeros(2)), torch.zeros(2), weights, 1, "int4")
    assert mixed.copies.pairs.tolist() == [[0, 1], [1, 0]]
    assert mixed.copies.held.tolist() == [[14.0, 4.0], [0.0, 0.0]]
    assert mixed.models.tolist() == [[7.0, 3.0], [7.0, 2.0]]


@pytest.mark.parametrize("near", [1, 2, 5])
@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_of_columns_and_threads_change_nothing(near, threads, monkeypatch):
    rng = np.random.default_rng(0)
    models, first = drift(torch.zeros(5, 1500), rng), drift(torch.zeros(1, 1400), rng)[0]
    copies = KnownModels.none(first)
    weights = mixing_weights("metropolis", graph(5, rng, 0.6))
    wanted = mix_coded(models, copies, first, weights, 3, "int5")
    monkeypatch.setattr(coded_gossip, "NEAR", near)
    monkeypatch.setattr(gossip, "HEAVY", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    again = mix_coded(models, copies, first, weights, 3, "int5")
    assert torch.equal(again.models, wanted.models)
    assert torch.equal(again.copies.held, wanted.copies.held)


def path(edges: int) -> np.ndarray:
    return np.eye(edges, k=1, dtype=bool) | np.eye(edges, k=-1, dtype=bool)


def star(edges: int) -> np.ndarray:
    links = np.zeros((edges, edges), dtype=bool)
    links[0, 1:] = links[1:, 0] = True
    return links


def left_apart(codec, links, rounds=80):
    """How far apart models are after gossip, over how far each drifts by itself; the last round."""
    rng, size = np.random.default_rng(1), 512
    models, first = torch.zeros(8, size), torch.zeros(size)
    copies = KnownModels.none(first)
    weights = fastest_weights(links).mixing
    for _ in range(rounds):
        models = models + torch.from_numpy(rng.normal(size=size) + rng.normal(size=(8, size)))
        models, copies = mix_coded(models.float(), copies, first, weights, 2, codec)
    return float((models - models.mean(0)).norm()) / np.sqrt(8 * size)


@pytest.mark.parametrize("links", [path(8), star(8)], ids=["path", "star"])
def test_coarse_codecs_stay_stable_on_weights_that_swing(links, monkeypatch):
    """The fastest weights of a path and a star have eigenvalues near -1."""
    exact = left_apart("float32", links)
    assert left_apart("int4", links) < 1.5 * exact
    assert left_apart("int3", links) < 2 * exact
    monkeypatch.setattr(coded_gossip, "damped", lambda weights, distortion: weights)
    assert left_apart("int3", links) > 100 * exact
