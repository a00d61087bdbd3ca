"""Allocation where energy has a price: against CVXPY, and the conditions its docstring states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference.cvxpy_priced import least_worth_s
from support.tiny import tiny

from fedrt.control.allocation.allocate import allocate
from fedrt.control.allocation.priced import PricedFleet
from fedrt.control.allocation.shares import least_energy_j
from fedrt.cost.uplink import hertz_seconds
from fedrt.world.observation import Observation
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical


def fleet(seed, edges=4, per_edge=5):
    """Observation and prices near the paper's numbers."""
    rng = np.random.default_rng(seed)
    size = edges * per_edge
    seen = Observation(
        model_bits=8.7e6,
        local_steps=10,
        gossip_steps=10,
        edge_of_device=np.repeat(np.arange(edges), per_edge),
        cycles=np.full(size, 3e10) * rng.uniform(0.7, 1.3, size),
        snr=10 ** (rng.uniform(0, 15, size) / 10),
        tx_power_w=rng.choice([0.0, 0.01, 0.05], size),
        capacitance=2e-28 * rng.uniform(0.01, 0.1, size),
        cpu_min_hz=np.full(size, 1.5e9),
        cpu_max_hz=np.full(size, 3e9),
        edge_bandwidth_hz=rng.uniform(0.5e6, 1e6, edges),
    )
    return seen, 10 ** rng.uniform(-3, 0.5, size)


def measured(seen, allocation):
    """Seconds per cluster and joules per device of an allocation."""
    upload_s = hertz_seconds(seen.model_bits, seen.snr) / allocation.bandwidth_hz
    energy_j = seen.tx_power_w * upload_s
    energy_j = energy_j + seen.capacitance / 2 * seen.cycles * allocation.cpu_hz**2
    return seen.max_by_edge(seen.cycles / allocation.cpu_hz + upload_s), energy_j


def cluster_of(seen, c):
    part = seen.edge_of_device == c
    columns = ("cycles", "snr", "tx_power_w", "capacitance", "cpu_min_hz", "cpu_max_hz")
    return part, replace(
        seen,
        edge_of_device=np.zeros(part.sum(), dtype=np.int64),
        edge_bandwidth_hz=seen.edge_bandwidth_hz[c : c + 1],
        **{name: getattr(seen, name)[part] for name in columns},
    )


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_no_allocation_in_time_is_worth_less(seed, capped):
    seen, price = fleet(seed)
    cap_j = 1.3 * least_energy_j(seen) if capped else np.full(seen.num_devices, np.inf)
    priced = PricedFleet(seen, price, cap_j)
    tau_s = priced.least_s * np.array([1.01, 1.1, 1.3, 2.0])
    allocation, _ = priced.in_time(tau_s)
    time_s, energy_j = measured(seen, allocation)
    assert np.all(time_s <= tau_s * (1 + 1e-9))
    assert np.all(energy_j <= cap_j * (1 + 1e-9))
    used_hz = seen.sum_by_edge(allocation.bandwidth_hz)
    assert np.all(used_hz <= seen.edge_bandwidth_hz * (1 + 1e-12))
    for c in range(4):
        part, alone = cluster_of(seen, c)
        theirs = least_worth_s(alone, price[part], cap_j[part], tau_s[c])
        assert price[part] @ energy_j[part] == pytest.approx(theirs, rel=2e-6)


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_price_of_time_is_what_a_second_saves(seed, capped):
    """Also where a device is at its cap: more time frees bandwidth for the others."""
    seen, worth = fleet(seed)
    if capped:
        # A radio of every device takes power: a cap then binds between f_min and f_max.
        seen = replace(seen, tx_power_w=np.where(seen.tx_power_w > 0, seen.tx_power_w, 0.03))
    cap_j = 1.5 * least_energy_j(seen) if capped else np.full(seen.num_devices, np.inf)
    priced = PricedFleet(seen, worth, cap_j)
    tau_s = priced.least_s * np.array([1.02, 1.1, 1.2, 1.4])
    _, price = priced.in_time(tau_s)
    step_s = 1e-4 * tau_s
    ends = [
        seen.sum_by_edge(worth * measured(seen, priced.in_time(tau_s + sign * step_s)[0])[1])
        for sign in (-1, 1)
    ]
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step_s), price, rtol=1e-3, atol=1e-7)


def test_one_device_uses_all_bandwidth_wherever_the_search_for_its_price_starts():
    """While its price of bandwidth is on a plateau, a device does not answer to it at all."""
    from fedrt.control.allocation.priced_kernel import PricedDevices, allocate_in_time

    # k = 1e6 Hz s over b = 1e6 Hz: an upload of 1 s whatever the price. In tau = 2.5 s the W = 1e9
    # cycles may take 1.5 s: f = 2/3 GHz. A joule is worth 1 s, p = 0.1 W, alpha f^3 = 8/27 W, so
    # nu = (p + alpha f^3) t^2 / k, and the price of time is nu k / t^2 - p. At f_min = 0.5 GHz
    # t = 0.5 s for every nu from p t^2 / k to (p + 1/8) t^2 / k: the plateau.
    values = {"b": 1e6, "lam": 1.0, "p": 0.1, "q": 1e-27, "w": 1e9, "k": 1e6}
    values |= {"f_min": 0.5e9, "f_max": 2e9, "cap_j": np.inf, "bandwidth_hz": 1.0, "cpu_hz": 1.0}
    for start in np.geomspace(1e-9, 1e3, 40):
        arrays = {name: np.array([value]) for name, value in values.items()}
        devices = PricedDevices(first=np.array([0, 1]), **arrays)
        nu, price = np.array([start]), np.zeros(1)
        allocate_in_time(np.array([2.5]), np.array([1.5]), nu, devices, price)
        np.testing.assert_allclose(devices.cpu_hz, 1e9 / 1.5, rtol=1e-9)
        np.testing.assert_allclose(devices.bandwidth_hz, 1e6, rtol=1e-12)
        np.testing.assert_allclose(nu, (0.1 + 8 / 27) / 1e6, rtol=1e-8)
        np.testing.assert_allclose(price, 8 / 27, rtol=1e-8)


@pytest.mark.parametrize("per_edge", [1, 2, 9])
def test_what_was_asked_before_does_not_matter_to_radios_without_power(per_edge):
    """With time to spare such a cluster's bandwidth is worth nothing: no price is remembered."""
    seen, price = fleet(3, per_edge=per_edge)
    seen = replace(seen, tx_power_w=np.zeros(seen.num_devices))
    cap_j = np.full(seen.num_devices, np.inf)
    fresh, asked = PricedFleet(seen, price, cap_j), PricedFleet(seen, price, cap_j)
    asked.in_time(5 * asked.least_s)
    for factor in (1.02, 1.1, 1.3):
        _, first = measured(seen, fresh.in_time(factor * fresh.least_s)[0])
        _, second = measured(seen, asked.in_time(factor * asked.least_s)[0])
        np.testing.assert_allclose(second, first, rtol=1e-6)
        assert second.sum() < measured(seen, fresh.fastest)[1].sum()


def test_ends_of_float64_give_the_fastest_allocation_or_a_sound_one():
    seen, _ = fleet(0, edges=1, per_edge=2)
    for capacitance in (1e-30, 0.18, 1.0):
        odd = replace(seen, capacitance=np.full(2, capacitance), tx_power_w=np.array([1e-18, 1e-3]))
        for cap in (0.0, 1e-9, 1.0):
            found = PricedFleet(odd, np.array([1e-6, 1e6]), np.full(2, cap))
            allocation, _ = found.in_time(1.5 * found.least_s)
            assert (allocation.bandwidth_hz > 0).all()
            assert np.isfinite(allocation.cpu_hz).all()


def test_no_more_time_is_used_than_pays():
    """With all the time in the world CPUs are at f_min and uploads at the cheapest split."""
    seen, price = fleet(3)
    seen = replace(seen, tx_power_w=np.full(seen.num_devices, 0.02))
    allocation, at = PricedFleet(seen, price, np.full(20, np.inf)).in_time(np.full(4, 1e4))
    np.testing.assert_array_equal(allocation.cpu_hz, seen.cpu_min_hz)
    np.testing.assert_allclose(at, 0.0, atol=1e-15)
    # The least sum of lambda p k / b with a given sum of b: b in proportion to sqrt(lambda p k).
    root = np.sqrt(price * hertz_seconds(seen.model_bits, seen.snr))
    share = root / seen.sum_by_edge(root)[seen.edge_of_device]
    best_hz = share * seen.edge_bandwidth_hz[seen.edge_of_device]
    np.testing.assert_allclose(allocation.bandwidth_hz, best_hz, rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_deadline_balances_time_and_energy(seed):
    seen, price = fleet(seed)
    offset_s = np.random.default_rng(seed).uniform(0, 20, 4)
    priced = PricedFleet(seen, price, np.full(seen.num_devices, np.inf))
    allocation, end_s = priced.by_deadline(offset_s)
    time_s, energy_j = measured(seen, allocation)
    assert np.all(offset_s + time_s <= end_s * (1 + 1e-9))
    _, prices = priced.in_time(end_s - offset_s)
    at_once = np.any(end_s - offset_s <= priced.least_s * (1 + 2e-6))
    assert prices.sum() == pytest.approx(1.0, rel=2e-3) or (at_once and prices.sum() < 1)
    best = end_s + price @ energy_j
    for other_s in (end_s * 0.99, end_s * 1.01):
        if np.all(other_s - offset_s > priced.least_s):
            other = measured(seen, priced.in_time(other_s - offset_s)[0])[1]
            assert best <= (other_s + price @ other) * (1 + 1e-9)


def test_a_price_of_time_finds_its_time():
    seen, price = fleet(5)
    priced = PricedFleet(seen, price, np.full(seen.num_devices, np.inf))
    for target in (0.01, 0.3, 5.0):
        tau_s = priced.at_price(np.full(4, target))
        _, found = priced.in_time(tau_s)
        # Even the least time may be worth less than asked: then it is taken.
        at_once = tau_s <= priced.least_s * (1 + 2e-6)
        np.testing.assert_allclose(found[~at_once], target, rtol=2e-3)
        assert np.all(found[at_once] < target)
        assert not (at_once.any() and target < 1)


def test_at_the_least_time_nothing_is_left_to_choose():
    seen, price = fleet(6)
    cap_j = 1.2 * least_energy_j(seen)
    priced = PricedFleet(seen, price, cap_j)
    best = allocate(seen, cap_j)
    allocation, at = priced.in_time(priced.least_s)
    np.testing.assert_array_equal(allocation.cpu_hz, best.cpu_hz)
    np.testing.assert_array_equal(allocation.bandwidth_hz, best.bandwidth_hz)
    assert np.isinf(at).all()
    # And just above it the cheapest allocation has hardly moved.
    near, _ = priced.in_time(priced.least_s * (1 + 1e-6))
    np.testing.assert_allclose(near.cpu_hz, best.cpu_hz, rtol=1e-2)


def test_clusters_that_cannot_keep_their_caps_are_relaxed_and_no_others():
    seen, price = fleet(7)
    cap_j = 1.5 * least_energy_j(seen)
    cap_j[2] = -1.0
    priced = PricedFleet(seen, price, cap_j)
    assert priced.fastest.relaxed.tolist() == [True, False, False, False]
    allocation, _ = priced.in_time(priced.least_s * 1.2)
    _, energy_j = measured(seen, allocation)
    assert np.all(energy_j[5:] <= cap_j[5:] * (1 + 1e-9))
    assert np.isfinite(energy_j).all()


def test_empty_clusters_take_no_time():
    seen, price = fleet(8)
    keep = seen.edge_of_device != 1
    columns = ("cycles", "snr", "tx_power_w", "capacitance", "cpu_min_hz", "cpu_max_hz")
    changes = {name: getattr(seen, name)[keep] for name in (*columns, "edge_of_device")}
    part = replace(seen, **changes)
    priced = PricedFleet(part, price[keep], np.full(15, np.inf))
    tau_s = priced.at_price(np.full(4, 0.25))
    assert tau_s[1] == 0.0
    allocation, end_s = priced.by_deadline(np.zeros(4))
    assert np.isfinite(allocation.bandwidth_hz).all()
    assert np.isfinite(end_s)


def test_a_cluster_without_devices_takes_no_time_wherever_the_search_starts():
    seen = SimulatedWorld(tiny(), 0).observe(0, 0, np.array([0, 1, 5, 6]))
    priced = PricedFleet(seen, np.ones(4), np.full(4, 5.0))
    for start_s in (None, np.full(3, 50.0)):
        time_s = priced.at_price(np.full(3, 1 / 3), start_s)
        assert time_s[1] == 0.0
        assert (time_s[[0, 2]] >= priced.least_s[[0, 2]]).all()
