"""A world: the same for every policy, in any order of asking."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support.tiny import tiny

from fedrt.quantities import SNR_DB
from fedrt.world.observation import Backhaul
from fedrt.world.simulated import SimulatedWorld

WORLDS = {
    "uniform": (),
    "gauss-markov": ('channel={kind="gauss-markov",mean_db=8,std_db=4,correlation=0.8}',),
    "path-loss": ('channel={kind="path-loss",snr_at_1m_db=90,fading_db=3}',),
    "all random": (
        'bandwidth={kind="uniform",low_hz=1e6,high_hz=2e6}',
        'base_graph={kind="erdos-renyi",probability=0.3}',
        "fleet.tx_power_w={uniform=[0.01,0.1]}",
    ),
}
ROUNDS = [(t, r) for t in range(4) for r in range(2)]


def everything(world: SimulatedWorld, t: int, r: int) -> list[np.ndarray]:
    seen = world.observe(t, r)
    arrays = [np.asarray(getattr(seen, f.name)) for f in fields(seen) if f.name != "backhaul"]
    return [*arrays, world.backhaul_bps(t), world.stand_in_distance(t), world.base_graph]


@pytest.mark.parametrize("settings", WORLDS.values(), ids=WORLDS.keys())
def test_the_same_whatever_the_order_of_asking(settings):
    scenario = tiny(*settings)
    world = SimulatedWorld(scenario, 3)
    first = {when: everything(world, *when) for when in ROUNDS}
    other = SimulatedWorld(scenario, 3)
    for i in np.random.default_rng(1).permutation(np.repeat(np.arange(len(ROUNDS)), 2)):
        for a, b in zip(everything(other, *ROUNDS[i]), first[ROUNDS[i]], strict=True):
            assert_array_equal(a, b)


def test_seeds_differ():
    one, two = (SimulatedWorld(tiny(*WORLDS["all random"]), seed) for seed in (0, 1))
    a, b = one.observe(0, 0), two.observe(0, 0)
    names = [f.name for f in fields(a) if f.name != "backhaul"]
    moved = {name for name in names if not np.array_equal(getattr(a, name), getattr(b, name))}
    assert moved == {"snr", "tx_power_w", "capacitance", "edge_bandwidth_hz"}
    assert not np.array_equal(one.backhaul_bps(0), two.backhaul_bps(0))
    assert not np.array_equal(one.stand_in_distance(0), two.stand_in_distance(0))


@pytest.mark.parametrize("share", [0.05, 0.5, 0.7, 1.0])
def test_the_share_of_rounds_is_how_often_a_device_is_drawn(share):
    """Clusters of 2, 3 and 2: with 0.5 one, two and one of them are drawn."""
    world = SimulatedWorld(tiny(f"learning.participation={share}"), 0)
    rounds = 3000
    drawn = np.concatenate([world.taking_part(t, 0) for t in range(rounds)])
    often = np.bincount(drawn, minlength=7) / rounds
    np.testing.assert_allclose(often, world.participation, atol=0.03)
    if share == 0.5:
        assert_array_equal(world.participation, [1 / 2] * 2 + [2 / 3] * 3 + [1 / 2] * 2)


def test_stand_in_distances():
    world = SimulatedWorld(tiny("fleet.num_edges=7", "fleet.cluster_sizes=even"), 0)
    off = ~np.eye(7, dtype=bool)
    for t in range(3):
        distance = world.stand_in_distance(t)
        assert_array_equal(distance, distance.T)
        assert_array_equal(np.diag(distance), np.zeros(7))
        assert distance[off].min() >= 1.0
        assert distance[off].max() < 1.3
    spread = np.concatenate([world.stand_in_distance(t)[off] for t in range(200)])
    assert abs(spread.mean() - 1.15) < 5 * 0.3 / np.sqrt(12 * len(spread) / 2)
    assert not np.array_equal(world.stand_in_distance(0), world.stand_in_distance(1))


def test_cycles_are_steps_times_batch_times_cycles_per_sample():
    # 10 steps x 32 samples x 94.2e6 cycles = 3.0144e10.
    assert_array_equal(SimulatedWorld(tiny(), 0).observe(0, 0).cycles, np.full(7, 3.0144e10))


def test_more_devices_or_servers_move_nobody():
    small = SimulatedWorld(tiny(), 0)
    large = SimulatedWorld(tiny("fleet.num_devices=9", "fleet.cluster_sizes=[2,3,4]"), 0)
    wide = SimulatedWorld(tiny("fleet.num_edges=4", "fleet.cluster_sizes=[2,3,1,1]"), 0)
    for t, r in ROUNDS:
        snr = small.observe(t, r).snr
        assert_array_equal(large.observe(t, r).snr[:7], snr)
        assert_array_equal(wide.observe(t, r).snr, snr)
        assert_array_equal(wide.backhaul_bps(t)[:3, :3], small.backhaul_bps(t))
        assert_array_equal(wide.stand_in_distance(t)[:3, :3], small.stand_in_distance(t))


def test_those_that_take_part_are_seen_as_among_all():
    world = SimulatedWorld(tiny("fleet.cpu_max_hz={uniform=[2.5e9,3e9]}"), 0)
    who = np.array([1, 2, 5])
    some, whole = world.observe(1, 1, who), world.observe(1, 1)
    for name in ("edge_of_device", "cycles", "snr", "tx_power_w", "capacitance", "cpu_min_hz"):
        assert_array_equal(getattr(some, name), getattr(whole, name)[who])
    assert_array_equal(some.cpu_max_hz, whole.cpu_max_hz[who])
    assert_array_equal(some.edge_bandwidth_hz, whole.edge_bandwidth_hz)
    assert (some.model_bits, some.local_steps, some.gossip_steps) == (8e6, 10, 10)
    assert some.backhaul is None


def test_no_radio_is_seen_beyond_what_radios_do():
    world = SimulatedWorld(tiny(), 0)
    ends = np.array([-1e4, 1e4, 0.0, 10.0, 20.0, 0.0, 0.0])
    world._channel = SimpleNamespace(snr_db=lambda t, r: ends)
    snr = world.observe(0, 0).snr
    assert_array_equal(snr[[2, 3, 4]], [1.0, 10.0, 100.0])
    assert 0 < snr[0] < 1e-3
    assert 1e3 < snr[1] < np.inf
    assert_array_equal(10 * np.log10(snr[:2]), [SNR_DB.least, SNR_DB.most])


def test_every_link_that_carries_anything_is_in_the_base_graph():
    bps = np.array([[0.0, 0.5, 0.0], [0.5, 0.0, 1e9], [0.0, 1e9, 0.0]])
    graph = Backhaul(bps, np.zeros((3, 3)), 1.0).base_graph
    assert_array_equal(graph, [[False, True, False], [True, False, True], [False, True, False]])
