"""The cost model: every equation on numbers worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrt.cost.backhaul import backhaul_time_s, link_bytes, link_time_s
from fedrt.cost.compute import compute_energy_j, compute_time_s, training_cycles
from fedrt.cost.round import global_round_time_s, price, slowest_device_s
from fedrt.cost.uplink import hertz_seconds, upload_energy_j, upload_time_s
from fedrt.ledger import overspend_j
from fedrt.plan import Gossip, Plan
from fedrt.world.observation import Backhaul, Observation

pytestmark = pytest.mark.numerical

EXACT = 1e-15  # a few roundings of a double


def test_training_cycles():
    # W = S I mu = 10 * 32 * 3.9e6 = 1.248e9 and 10 * 32 * 123.9e6 = 3.9648e10
    got = training_cycles(10, 32, np.array([3.9e6, 123.9e6]))
    np.testing.assert_allclose(got, [1.248e9, 3.9648e10], rtol=EXACT)


def test_training_cycles_with_steps_of_each_device():
    # 8 * 4 * 100 = 3200, 12 * 4 * 100 = 4800
    got = training_cycles(np.array([8.0, 12.0]), 4, np.array([100.0, 100.0]))
    np.testing.assert_allclose(got, [3200.0, 4800.0], rtol=0)


def test_compute_time():
    # 1.248e9 / 2e9 = 0.624 s
    np.testing.assert_allclose(compute_time_s(np.array([1.248e9]), np.array([2e9])), 0.624, EXACT)


def test_compute_energy():
    # (2e-28 / 2) * 1e10 * (3e9)^2 = 1e-28 * 1e10 * 9e18 = 9 J
    got = compute_energy_j(np.array([1e10]), np.array([3e9]), np.array([2e-28]))
    np.testing.assert_allclose(got, 9.0, rtol=EXACT)


def test_hertz_seconds():
    # SNR 3 carries log2(4) = 2 bit/s/Hz: 8e6 / 2 = 4e6 Hz s. SNR 1: log2(2) = 1, 8e6 Hz s.
    got = hertz_seconds(8e6, np.array([3.0, 1.0]))
    np.testing.assert_allclose(got, [4e6, 8e6], rtol=EXACT)


def test_hertz_seconds_keeps_its_digits_at_very_low_snr():
    # log2(1 + x) = x / ln 2 (1 - x/2 ...): at x = 1e-20 it is 1e-20 / ln 2, never log2(1) = 0.
    got = hertz_seconds(1.0, np.array([1e-20]))
    np.testing.assert_allclose(got, np.log(2) * 1e20, rtol=EXACT)


def test_upload_time_and_energy():
    # k / b = 4e6 / 5e5 = 8 s; p k / b = 0.01 * 8 = 0.08 J
    upload_s = upload_time_s(8e6, np.array([3.0]), np.array([5e5]))
    np.testing.assert_allclose(upload_s, 8.0, rtol=EXACT)
    np.testing.assert_allclose(upload_energy_j(upload_s, np.array([0.01])), 0.08, rtol=EXACT)


def test_link_time():
    # psi Lambda / B = 10 * 8e6 / 4e6 = 20 s; no link takes for ever
    got = link_time_s(8e6, 10, np.array([[0.0, 4e6], [4e6, 0.0]]))
    np.testing.assert_array_equal(got, [[np.inf, 20.0], [20.0, np.inf]])


def test_backhaul_time_is_that_of_the_slowest_kept_link():
    # Links 0-1 at 4e6 (20 s), 0-2 at 8e6 (10 s), 1-2 at 1e6 (80 s, not kept).
    bps = 1e6 * np.array([[0.0, 4, 8], [4, 0, 1], [8, 1, 0]])
    kept = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=bool)
    np.testing.assert_allclose(backhaul_time_s(8e6, 10, bps, kept), [20.0, 20.0, 10.0], rtol=EXACT)


def test_backhaul_time_of_a_single_server_is_zero():
    got = backhaul_time_s(8e6, 10, np.zeros((1, 1)), np.zeros((1, 1), dtype=bool))
    np.testing.assert_array_equal(got, [0.0])


def test_bytes_of_a_gossip_go_over_kept_links_both_ways():
    kept = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=bool)
    sent = link_bytes(8e6, 10, kept)
    np.testing.assert_allclose(sent, 1e7 * np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]]))


def test_coded_gossip_is_priced_by_its_messages():
    links = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    bps = np.where(np.eye(3, dtype=bool), 0.0, 1e6)
    seen = replace(
        observation(Backhaul(bps, bps, 1.0)),
        gossip_codec="given",
        gossip_bits=2e6,
        buffer_bits=32e3,
    )
    # Ten steps of two megabit, at one a second.
    np.testing.assert_allclose(price(plan(links), seen).backhaul_s, 20.0, rtol=EXACT)
    # 8e6 / 32 = 250,000 numbers: 16 bytes, 977 scales of two and half a byte each are 126,970
    # bytes, 1,015,760 bits; with the buffers 1,047,760, and ten times that.
    own = replace(plan(links), gossip=Gossip(links, 10, codec="int4"))
    np.testing.assert_allclose(price(own, seen).backhaul_s, 10.4776, rtol=EXACT)
    # As it is, whatever the scenario's codec: ten models of eight megabit.
    raw = replace(plan(links), gossip=Gossip(links, 10, codec="none"))
    np.testing.assert_allclose(price(raw, seen).backhaul_s, 80.0, rtol=EXACT)


def observation(backhaul=None):
    """Three devices on edges 0, 0, 2; edge 1 is empty."""
    return Observation(
        model_bits=8e6,
        local_steps=10,
        gossip_steps=10,
        edge_of_device=np.array([0, 0, 2]),
        cycles=np.array([1e9, 2e9, 4e9]),
        snr=np.array([3.0, 3.0, 1.0]),
        tx_power_w=np.array([0.01, 0.02, 0.0]),
        capacitance=np.array([2e-28, 2e-28, 4e-28]),
        cpu_min_hz=np.full(3, 1e9),
        cpu_max_hz=np.full(3, 2e9),
        edge_bandwidth_hz=np.array([1e6, 1e6, 1e6]),
        backhaul=backhaul,
    )


def plan(links=None, steps=(10, 10, 10)):
    return Plan(
        status="feasible",
        bandwidth_hz=np.array([5e5, 5e5, 1e6]),
        cpu_hz=np.array([1e9, 2e9, 2e9]),
        local_steps=np.array(steps),
        gossip=None if links is None else Gossip(links, 10),
    )


def test_price_by_hand():
    cost = price(plan(), observation())
    # compute: 1e9/1e9 = 1, 2e9/2e9 = 1, 4e9/2e9 = 2 s; upload: 4e6/5e5 = 8, 8, 8e6/1e6 = 8 s
    np.testing.assert_allclose(cost.compute_s, [1.0, 1.0, 2.0], rtol=EXACT)
    np.testing.assert_allclose(cost.upload_s, [8.0, 8.0, 8.0], rtol=EXACT)
    # 1e-28 * 1e9 * 1e18 = 0.1; 1e-28 * 2e9 * 4e18 = 0.8; 2e-28 * 4e9 * 4e18 = 3.2 J
    np.testing.assert_allclose(cost.compute_j, [0.1, 0.8, 3.2], rtol=EXACT)
    # 0.01 * 8 = 0.08; 0.02 * 8 = 0.16; 0 J
    np.testing.assert_allclose(cost.upload_j, [0.08, 0.16, 0.0], rtol=EXACT)
    np.testing.assert_allclose(cost.energy_j, [0.18, 0.96, 3.2], rtol=EXACT)
    # Slowest device of each edge: 9, none, 10 s. No backhaul before the last edge round.
    np.testing.assert_allclose(cost.edge_time_s, [9.0, 0.0, 10.0], rtol=EXACT)
    np.testing.assert_array_equal(cost.backhaul_s, [0.0, 0.0, 0.0])
    # With 5, 20, 0 s behind them: max(14, 20, 10) = 20 s
    assert global_round_time_s(np.array([5.0, 20.0, 0.0]), cost) == 20.0


def test_price_of_the_last_edge_round_adds_the_backhaul():
    bps = 1e6 * np.array([[0.0, 4, 8], [4, 0, 1], [8, 1, 0]])
    kept = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=bool)
    backhaul = Backhaul(bps, np.zeros((3, 3)), 1.0)
    cost = price(plan(kept), observation(backhaul))
    np.testing.assert_allclose(cost.backhaul_s, [20.0, 20.0, 10.0], rtol=EXACT)
    # max(9 + 20, 0 + 20, 10 + 10) = 29 s
    assert global_round_time_s(np.zeros(3), cost) == pytest.approx(29.0, rel=EXACT)


def test_mixing_costs_nothing_without_links_or_before_the_backhaul_is_seen():
    kept = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=bool)
    backhaul = Backhaul(np.where(kept, 1e6, 0.0), np.zeros((3, 3)), 1.0)
    for cost in (price(plan(kept), observation()), price(plan(), observation(backhaul))):
        np.testing.assert_array_equal(cost.backhaul_s, [0.0, 0.0, 0.0])


def test_the_slowest_devices_of_an_edge_share_its_time():
    """Edge 0: 1 + 8 s, and 2e9 cycles at 1e9 Hz with 4e6 Hz s in 7 s: together, so their mean."""
    both = replace(
        plan(), cpu_hz=np.array([1e9, 1e9, 2e9]), bandwidth_hz=np.array([5e5, 4e6 / 7, 1e6])
    )
    seen = observation()
    parts = slowest_device_s(seen, price(both, seen))
    np.testing.assert_allclose(parts["compute_s"], [1.5, 0.0, 2.0], rtol=1e-12)
    np.testing.assert_allclose(parts["upload_s"], [7.5, 0.0, 8.0], rtol=1e-12)
    # A rounding apart is together, a millionth is not.
    for earlier, compute in ((1e-10, 1.5), (1e-6, 1.0)):
        bandwidth_hz = np.array([5e5, 4e6 / 7 * (1 + earlier), 1e6])
        cost = price(replace(both, bandwidth_hz=bandwidth_hz), seen)
        np.testing.assert_allclose(
            slowest_device_s(seen, cost)["compute_s"][0], compute, rtol=1e-12
        )


def test_price_charges_the_steps_of_the_plan():
    # 5, 20 and 10 steps of 10 make 0.5e9, 4e9 and 4e9 cycles: 0.5, 2, 2 s; 0.05, 1.6, 3.2 J
    cost = price(plan(steps=(5, 20, 10)), observation())
    np.testing.assert_allclose(cost.compute_s, [0.5, 2.0, 2.0], rtol=EXACT)
    np.testing.assert_allclose(cost.compute_j, [0.05, 1.6, 3.2], rtol=EXACT)


def test_overspend():
    # 1.5 of 1.0 is 0.5 over; 1.0 of 1.0 and of inf nothing; of -0.5 it is 1.5; 1e-10 is rounding.
    energy = np.array([1.5, 1.0, 1.0, 1.0, 1.0 + 1e-10])
    allowed = np.array([1.0, 1.0, np.inf, -0.5, 1.0])
    np.testing.assert_allclose(overspend_j(energy, allowed), [0.5, 0.0, 0.0, 1.5, 0.0], rtol=EXACT)
