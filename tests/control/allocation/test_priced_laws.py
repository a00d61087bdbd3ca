"""Allocation where energy has a price, under laws other than the paper's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from law_bounds import small_world
from law_worlds import LAWS
from reference.cvxpy_priced import least_worth_s
from support.tiny import tiny

from fedrt.control.allocation.priced import PricedFleet, cost_of, trades_energy
from fedrt.control.allocation.shares import least_energy_j
from fedrt.world.laws import Laws
from fedrt.world.observation import Observation
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical


def spread_fleet(seed, reference_hz, edges=3, per_edge=4):
    """Noise spread over the bandwidth: SNRs that hold over `reference_hz`, and prices."""
    rng = np.random.default_rng(seed)
    size = edges * per_edge
    edge, hz = np.repeat(np.arange(edges), per_edge), rng.uniform(0.5e6, 1e6, edges)
    cn0_hz = reference_hz * 10 ** (rng.uniform(0, 15, size) / 10)
    seen = Observation(
        model_bits=8.7e6,
        local_steps=10,
        gossip_steps=10,
        edge_of_device=edge,
        cycles=np.full(size, 3e10) * rng.uniform(0.7, 1.3, size),
        snr=cn0_hz / (hz / per_edge)[edge],
        tx_power_w=rng.choice([0.01, 0.03, 0.05], size),
        capacitance=2e-28 * rng.uniform(0.01, 0.1, size),
        cpu_min_hz=np.full(size, 1.5e9),
        cpu_max_hz=np.full(size, 3e9),
        edge_bandwidth_hz=hz,
        laws=Laws(cn0_hz=cn0_hz),
    )
    return seen, 10 ** rng.uniform(-3, 0.5, size)


def cluster_of(seen, c):
    part = seen.edge_of_device == c
    columns = ("cycles", "snr", "tx_power_w", "capacitance", "cpu_min_hz", "cpu_max_hz")
    return part, replace(
        seen,
        edge_of_device=np.zeros(part.sum(), dtype=np.int64),
        edge_bandwidth_hz=seen.edge_bandwidth_hz[c : c + 1],
        upload_bits=seen.upload_bits[part],
        device=np.arange(part.sum()),
        laws=Laws(cn0_hz=seen.laws.cn0_hz[part]),
        **{name: getattr(seen, name)[part] for name in columns},
    )


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("reference_hz", [1e5, 1e6, 1e8])
def test_no_allocation_in_time_is_worth_less_with_spread_noise(reference_hz, capped):
    """From rates that hardly depend on the bandwidth to such that are in proportion to it."""
    seen, price = spread_fleet(int(reference_hz), reference_hz)
    cap_j = 1.3 * least_energy_j(seen) if capped else np.full(seen.num_devices, np.inf)
    priced = PricedFleet(seen, price, cap_j)
    time_s = priced.least_s * np.array([1.01, 1.15, 2.0])
    allocation, _ = priced.in_time(time_s)
    cost = cost_of(seen, allocation)
    assert np.all(cost.edge_time_s <= time_s * (1 + 1e-9))
    assert np.all(cost.energy_j <= cap_j * (1 + 1e-9))
    used_hz = seen.sum_by_edge(allocation.bandwidth_hz)
    assert np.all(used_hz <= seen.edge_bandwidth_hz * (1 + 1e-12))
    for c in range(3):
        part, alone = cluster_of(seen, c)
        theirs = least_worth_s(alone, price[part], cap_j[part], time_s[c])
        assert price[part] @ cost.energy_j[part] == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("capped", [False, True])
def test_the_price_of_time_is_what_a_second_saves_with_spread_noise(capped):
    seen, worth = spread_fleet(5, 1e5)
    cap_j = 1.5 * least_energy_j(seen) if capped else np.full(seen.num_devices, np.inf)
    priced = PricedFleet(seen, worth, cap_j)
    time_s = priced.least_s * np.array([1.02, 1.1, 1.4])
    _, price = priced.in_time(time_s)
    step_s = 1e-4 * time_s
    ends = [
        seen.sum_by_edge(worth * cost_of(seen, priced.in_time(time_s + sign * step_s)[0]).energy_j)
        for sign in (-1, 1)
    ]
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step_s), price, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("law", LAWS)
def test_times_and_caps_are_those_of_the_cost_model(law):
    """The least time is what the plan takes, and with more time nothing is late or dearer."""
    for number in range(6):
        world = small_world(law, 2, number)
        seen = world.observe(0, 0)
        cap_j = 1.2 * least_energy_j(seen)
        fleet = PricedFleet(seen, np.full(seen.num_devices, 0.1), cap_j)
        fastest = cost_of(seen, fleet.fastest)
        np.testing.assert_allclose(fleet.least_s, fastest.edge_time_s, rtol=1e-12)
        kept = ~fleet.fastest.relaxed[seen.edge_of_device]
        for factor in (1.0, 1.05, 1.5):
            time_s = fleet.least_s * factor
            cost = cost_of(seen, fleet.in_time(time_s)[0])
            assert np.all(cost.edge_time_s <= time_s * (1 + 1e-9))
            assert np.all(cost.energy_j[kept] <= cap_j[kept] * (1 + 1e-9))
            assert np.all(cost.energy_j.sum() <= fastest.energy_j.sum() * (1 + 1e-9))
        offset_s = np.zeros(seen.num_edges)
        allocation, end_s = fleet.by_deadline(offset_s)
        assert np.all(cost_of(seen, allocation).edge_time_s <= end_s * (1 + 1e-9))


def test_a_broadcast_and_overheads_change_no_allocation_but_its_time_and_caps():
    plain = SimulatedWorld(tiny(), 3).observe(0, 0)
    listening = "downlink={tx_power_w=0.1}", "fleet.rx_power_w=0.02", "overheads.aggregation_s=2"
    seen = SimulatedWorld(tiny(*listening), 3).observe(0, 0)
    price, cap_j = np.full(7, 0.1), np.full(7, 2.0)
    cost = cost_of(seen, PricedFleet(seen, price, cap_j).fastest)
    more_s, more_j = seen.max_by_edge(cost.download_s) + 2, cost.download_j
    assert np.all(more_j > 0)
    one, other = PricedFleet(plain, price, cap_j - more_j), PricedFleet(seen, price, cap_j)
    np.testing.assert_allclose(other.least_s, one.least_s + more_s, rtol=1e-12)
    offset_s = np.array([0.0, 1.0, 2.0])
    found, end_s = one.by_deadline(offset_s + more_s)
    same, same_s = other.by_deadline(offset_s)
    assert same_s == pytest.approx(end_s, rel=1e-9)
    np.testing.assert_allclose(same.cpu_hz, found.cpu_hz, rtol=1e-9)
    worth = np.array([0.1, 0.3, 0.5])
    np.testing.assert_allclose(other.at_price(worth), one.at_price(worth) + more_s, rtol=1e-6)


def test_only_convex_laws_with_a_price_trade_time_for_energy():
    assert trades_energy(Laws())
    assert trades_energy(Laws(cn0_hz=np.ones(3), listen_s=np.ones(3), overhead_s=1.0))
    assert not trades_energy(Laws(cn0_hz=np.ones(3), power_control=True))
    assert not trades_energy(Laws(block_hz=1e4))
    assert not trades_energy(Laws(idle_power_w=np.ones(3)))
