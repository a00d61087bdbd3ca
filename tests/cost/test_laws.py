"""The laws beyond the paper's cost model: by hand, and against one device at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.laws import obvious_cost, random_round
from support.three_devices import three_devices

from fedrt.cost.backhaul import backhaul_time_s, link_time_s
from fedrt.cost.outcome import Deadline, FailureRules, carry_out
from fedrt.cost.round import price, slowest_device_s
from fedrt.cost.uplink import bandwidth_of_rate_hz, most_rate_bps, rate_bps, seconds_to_send
from fedrt.plan import plan_problems
from fedrt.rounds import Outcome
from fedrt.world.faults import Failures
from fedrt.world.laws import CUBIC, CpuTables

pytestmark = pytest.mark.numerical

EXACT = 1e-14  # a few roundings of a double
NONE = Deadline()


def happens(silent=(0, 0, 0), speed=(1, 1, 1), deadline=NONE, spends="compute", **laws) -> Outcome:
    plan, seen = three_devices(**laws)
    nobody = np.zeros(3, dtype=np.int64)
    failures = Failures(
        silent=np.array(silent, dtype=bool),
        cpu_fraction=np.array(speed, dtype=float),
        expected=np.array([2, 0, 1]),
        absent=nobody,
        idle=nobody,
        server_up=np.ones(3, dtype=bool),
        links_down=0,
    )
    return carry_out(plan, seen, failures, FailureRules(deadline, spends))


def test_the_rate_where_noise_is_spread_over_the_bandwidth():
    # C/N0 = 3e6 Hz: over 1 MHz the SNR is 3, 1e6 log2(4) = 2e6; over 3 MHz it is 1, 3e6 log2(2).
    assert_allclose(rate_bps(np.array([1e6, 3e6]), np.array([3e6, 3e6])), [2e6, 3e6], rtol=EXACT)
    # No bandwidth gives more than 3e6 / ln 2 = 4.328e6.
    assert_allclose(most_rate_bps(np.array([3e6])), 4328085.1227, rtol=1e-10)
    assert rate_bps(np.array([1e15]), np.array([3e6]))[0] <= 4328085.1228
    # Tiny C/N0 keeps its digits.
    assert_allclose(rate_bps(np.array([1e6]), np.array([1e-9])), 1e-9 / np.log(2), rtol=EXACT)


def test_the_bandwidth_of_a_rate():
    assert_allclose(
        bandwidth_of_rate_hz(np.array([2e6, 3e6]), np.array([3e6, 3e6])), [1e6, 3e6], rtol=1e-12
    )
    # From the saturation on there is none.
    most = 3e6 / np.log(2)
    got = bandwidth_of_rate_hz(np.array([most, 2 * most]), np.array([3e6, 3e6]))
    assert_array_equal(got, [np.inf, np.inf])
    share = np.geomspace(1e-12, 0.999, 200)
    cn0_hz = np.full(200, 2.5e5)
    rate = share * most_rate_bps(cn0_hz)
    assert_allclose(rate_bps(bandwidth_of_rate_hz(rate, cn0_hz), cn0_hz), rate, rtol=1e-11)


def test_less_power_is_a_lower_ratio_and_fewer_joules():
    """C/N0 = 12, 6, 24 Hz: over 4, 2, 8 Hz the SNR is 3, 2 bit/s/Hz; at a third of it SNR 1."""
    plan, seen = three_devices(cn0_hz=np.array([12.0, 6.0, 24.0]), power_control=True)
    assert_allclose(price(plan, seen).upload_s, [1, 2, 0.5], rtol=EXACT)
    quiet = replace(plan, tx_power_w=seen.tx_power_w / 3)
    assert plan_problems(quiet, seen) == []
    cost = price(quiet, seen)
    assert_allclose(cost.upload_s, [2, 4, 1], rtol=EXACT)
    assert_allclose(cost.upload_j, [2 / 3, 8 / 3, 1], rtol=EXACT)
    assert_allclose(
        seconds_to_send(seen, 8.0, plan.bandwidth_hz, quiet.tx_power_w), [2, 4, 1], rtol=EXACT
    )


def test_a_broadcast_takes_what_its_slowest_listener_needs():
    plan, seen = three_devices(
        listen_s=np.array([1.0, 3.0, 2.0]), rx_power_w=np.array([0.5, 1.0, 2.0])
    )
    cost = price(plan, seen)
    assert_array_equal(cost.download_s, [3, 3, 2])
    assert_array_equal(cost.download_j, [1.5, 3, 4])
    # 3 + 4 + 2, 3 + 2 + 4 and 2 + 1 + 1 s; 2 + 2 + 1.5, 8 + 8 + 3 and 32 + 3 + 4 J.
    assert_allclose(cost.edge_time_s, [9, 0, 4], rtol=EXACT)
    assert_allclose(cost.energy_j, [5.5, 19, 39], rtol=EXACT)
    # Without its slowest listener the broadcast is that of the others.
    some = replace(plan, trains=np.array([True, False, True]))
    assert_array_equal(price(some, seen).download_s, [1, 0, 2])
    parts = slowest_device_s(seen, cost)
    assert_allclose(parts["download_s"], [3, 0, 2], rtol=EXACT)


def test_overheads_come_once_where_anybody_trains_and_are_waited_through():
    """Edge 0 ends after 6 + 1.5 s, edge 2 after 2 + 1.5; both of edge 0 are through after 6 s."""
    plan, seen = three_devices(overhead_s=1.5, idle_power_w=np.array([1.0, 2.0, 4.0]))
    cost = price(plan, seen)
    assert_allclose(cost.edge_time_s, [7.5, 0, 3.5], rtol=EXACT)
    assert_allclose(cost.idle_j, [1.5, 3, 6], rtol=EXACT)
    alone = replace(plan, trains=np.array([True, True, False]))
    assert_array_equal(price(alone, seen).edge_time_s[1:], 0)
    # Device 1 at twice its speed is through after 1 + 4 s: idle for 1 + 1.5 s at 2 W.
    fast = replace(plan, cpu_hz=np.array([1.0, 4.0, 4.0]))
    assert_allclose(price(fast, seen).idle_j, [1.5, 5, 6], rtol=EXACT)


def test_messages_between_servers_take_their_latency_in_every_step():
    # 10 (8e6 / 4e6 + 0.05) = 20.5 s
    bps = np.array([[0.0, 4e6], [4e6, 0.0]])
    assert_array_equal(link_time_s(8e6, 10, bps, 0.05), [[np.inf, 20.5], [20.5, np.inf]])
    assert_array_equal(backhaul_time_s(8e6, 10, bps, bps > 0, 0.05), [20.5, 20.5])


def test_measured_energy_of_computing():
    """Points at 4 and 1 Hz with 16 and 1 J per cycle; 2 Hz is a third of the way to the slower.

    1/4, 1/2 and 1 s per cycle: (0.5 - 0.25) / 0.75 = 1/3, so 16 - 15 / 3 = 11 J per cycle. Device
    0 runs 4 cycles at 1 Hz, 4 J; device 1 at 2 Hz, 44 J; device 2 has no table, 32 J as before.
    """
    points = ([0, 2], [0.25, 1.0], [16.0, 1.0])
    cpu = CpuTables(np.array([0, 0, CUBIC]), *map(np.array, points))
    plan, seen = three_devices(cpu=cpu)
    assert_allclose(price(plan, seen).compute_j, [4, 44, 32], rtol=EXACT)
    # Slower than its slowest point, as a straggler may be, a cycle costs no less than there.
    assert_allclose(happens(speed=(0.1, 1, 1), cpu=cpu).cost.compute_j, [4, 44, 32], rtol=EXACT)


@pytest.mark.parametrize("seed", range(200))
def test_the_price_is_that_of_one_device_after_the_other(seed):
    plan, seen = random_round(seed)
    cost = price(plan, seen)
    for name, values in obvious_cost(plan, seen).items():
        assert_allclose(getattr(cost, name), values, rtol=1e-12, atol=1e-12, err_msg=name)


def test_a_late_device_stops_in_its_download_computing_or_upload():
    """Device 0 takes 3 + 4 + 2 s with its broadcast; at a quarter of its speed 3 + 16 + 2."""
    laws = {
        "listen_s": np.array([3.0, 1.0, 1.0]),
        "rx_power_w": np.array([2.0, 0.0, 0.0]),
        "idle_power_w": np.full(3, 0.5),
        "overhead_s": 1.0,
    }
    found = happens(speed=(0.25, 1, 1), deadline=Deadline(seconds=10), **laws)
    assert_array_equal(found.late, [True, False, False])
    cost = found.cost
    parts = [(cost.download_s[0], cost.compute_s[0], cost.upload_s[0])]
    # At the deadline it has computed for 7 of 16 s; 0.125 J is its energy at that speed.
    assert parts == [(3, 7, 0)]
    assert_allclose([cost.download_j[0], cost.compute_j[0]], [6, 0.125 * 7 / 16], rtol=EXACT)
    # The server averages what came: 1 s more, for which both wait. Device 1 is through after 9 s.
    assert_allclose(cost.edge_time_s, [11, 0, 4], rtol=EXACT)
    assert_allclose(cost.idle_j, [0.5, 1, 0.5], rtol=EXACT)
    # A deadline in the broadcast ends that: 2 of 3 s and 4 of 6 J. Nobody delivers on edge 0.
    found = happens(deadline=Deadline(seconds=2), **laws)
    assert_array_equal(found.late, [True, True, True])
    assert_array_equal(found.cost.download_s, [2, 2, 1])
    assert_array_equal(found.cost.compute_s, [0, 0, 1])
    assert_allclose(found.cost.download_j, [4, 0, 0], rtol=EXACT)
    # In the upload: 3 + 4 + 1 of 2 s.
    found = happens(deadline=Deadline(seconds=8), **laws)
    assert_array_equal(found.cost.upload_s[:1], [1])
    assert_array_equal(found.delivered_s, [0, 0, 4])


@pytest.mark.parametrize(
    ("spends", "listens", "joules"), [("nothing", 0, 0), ("compute", 3, 6), ("all", 3, 6)]
)
def test_a_silent_device_listens_if_it_does_anything(spends, listens, joules):
    """Device 1 (3 + 2 + 4 s) is silent, and awaited until then; device 0 is through as late."""
    found = happens(
        silent=(0, 1, 0),
        spends=spends,
        listen_s=np.array([3.0, 1.0, 1.0]),
        rx_power_w=np.full(3, 2.0),
        idle_power_w=np.ones(3),
        overhead_s=1.0,
    )
    cost = found.cost
    assert (cost.download_s[1], cost.download_j[1]) == (listens, joules)
    assert_allclose(cost.edge_time_s, [10, 0, 4], rtol=EXACT)
    # It waits too: one that only trains for 10 - 5 s, one that sends for 1 s, one that is off not.
    waits = {"nothing": 0, "compute": 5, "all": 1}[spends]
    assert_allclose(cost.idle_j, [1, waits, 1], rtol=EXACT)
    assert_allclose(found.lost_s, 0)


@pytest.mark.parametrize("seed", range(40))
def test_with_nothing_failing_an_outcome_is_its_plans_price(seed):
    plan, seen = random_round(seed)
    count, nobody = seen.num_devices, np.zeros(3, dtype=np.int64)
    failures = Failures(
        silent=np.zeros(count, dtype=bool),
        cpu_fraction=np.ones(count),
        expected=seen.cluster_size,
        absent=nobody,
        idle=nobody,
        server_up=np.ones(3, dtype=bool),
        links_down=0,
    )
    found, cost = carry_out(plan, seen, failures, FailureRules()), price(plan, seen)
    for name in vars(cost):
        assert_array_equal(getattr(found.cost, name), getattr(cost, name), err_msg=name)
    assert_array_equal(found.lost_s, 0)


def test_plans_keep_to_whole_blocks_and_to_the_radios_power():
    plan, seen = three_devices(block_hz=2.0)
    assert plan_problems(plan, seen) == []
    odd = replace(plan, bandwidth_hz=np.array([3.0, 2.0, 8.0]))
    assert plan_problems(odd, seen) == ["bandwidth_hz: must be whole blocks of block_hz = 2"]
    loud = replace(plan, tx_power_w=seen.tx_power_w)
    assert plan_problems(loud, seen) == ["tx_power_w: must be None without power control"]
    _, free = three_devices(cn0_hz=np.ones(3), power_control=True)
    for power_w in (2 * seen.tx_power_w, 0 * seen.tx_power_w, seen.tx_power_w[:2]):
        (line,) = plan_problems(replace(plan, tx_power_w=power_w), free)
        assert "above 0 and at most each device's full power" in line
