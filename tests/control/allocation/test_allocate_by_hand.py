"""`allocate` on clusters of two devices, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference.instances import join, one_cluster, ordinary_case
from reference.precise_allocation import PreciseCluster
from support.allocations import least_times_s, spare_j, times_s

from fedrt.control.allocation.allocate import allocate, feasible_clusters
from fedrt.control.allocation.shares import (
    allocate_evenly,
    evenly_where_it_fits,
    slowest_compute_energy_j,
)

pytestmark = pytest.mark.numerical

FEASIBILITY = 1e-9


def two_devices(**changes):
    columns = {
        "cycles": np.array([1e9, 1e9]),
        "snr": np.array([3.0, 3.0]),
        "tx_power_w": np.array([0.5, 0.5]),
        "capacitance": np.array([1e-27, 1e-27]),
        "cpu_min_hz": np.array([5e8, 5e8]),
        "cpu_max_hz": np.array([1e9, 1e9]),
    }
    return one_cluster(4e6, 2e6, **(columns | changes))


def test_no_limit_by_hand():
    # k = 4e6 / log2(4) = 2e6 Hz s. W/f = 1 s and 0.5 s at f_max = 1e9, 2e9. tau solves
    # 2e6 / (tau - 1) + 2e6 / (tau - 1/2) = 2e6, so with x = tau - 1: 1/x + 1/(x + 1/2) = 1,
    # x^2 - 3/2 x - 1/2 = 0, x = (3/2 + sqrt(9/4 + 2)) / 2 = (1.5 + 2.0615528128) / 2.
    seen = two_devices(cpu_max_hz=np.array([1e9, 2e9]))
    plan = allocate(seen, np.full(2, np.inf))
    x = (1.5 + 4.25**0.5) / 2
    np.testing.assert_allclose(plan.bandwidth_hz, [2e6 / x, 2e6 / (x + 0.5)], rtol=1e-14)
    np.testing.assert_allclose(plan.cpu_hz, [1e9, 2e9], rtol=0)
    assert not plan.relaxed.any()


def test_crossing_by_hand():
    # Two equal devices get 1 MHz each, so t = 2 s and p t = 1 J. a = 1e-27 * 1e9 / 2 = 5e-19.
    # E = 1 + 5e-19 * (8e8)^2 = 1 + 0.32 J leaves exactly f = 8e8: tau = 1/0.8 + 2 = 3.25 s.
    seen = two_devices()
    plan = allocate(seen, np.full(2, 1.32))
    np.testing.assert_allclose(plan.bandwidth_hz, 1e6, rtol=1e-12)
    np.testing.assert_allclose(plan.cpu_hz, 8e8, rtol=1e-12)
    np.testing.assert_allclose(least_times_s(seen, plan), 3.25, rtol=1e-12)


def test_saturated_device_finishes_early_by_hand():
    # Device 0: spare = E - a f_min^2 = 0.75 J above 5e-19 * 25e16 = 0.125 J, so t <= 1.5 s and
    # it needs 2e6 / 1.5 = 4/3 MHz; device 1 (no limit) gets 2/3 MHz, t = 3 s, W/f = 1 s.
    # tau = 4 s; device 0 ends at 1e9 / 5e8 + 1.5 = 3.5 s.
    seen = two_devices()
    plan = allocate(seen, np.array([0.875, np.inf]))
    np.testing.assert_allclose(plan.bandwidth_hz, [4e6 / 3, 2e6 / 3], rtol=1e-12)
    np.testing.assert_allclose(plan.cpu_hz, [5e8, 1e9], rtol=1e-12)
    np.testing.assert_allclose(sum(times_s(seen, plan)), [3.5, 4.0], rtol=1e-12)


def test_free_sending_by_hand():
    # p = 0: f = sqrt(E / a) = sqrt(0.245 / 5e-19) = 7e8; tau = 1/0.7 + 2 s.
    seen = two_devices(tx_power_w=np.zeros(2))
    plan = allocate(seen, np.full(2, 0.245))
    np.testing.assert_allclose(plan.cpu_hz, 7e8, rtol=1e-14)
    np.testing.assert_allclose(least_times_s(seen, plan), 1 / 0.7 + 2, rtol=1e-14)


def test_best_effort_grants_the_fair_share_by_hand():
    # The even split at f_min takes 0.5 * 2 + 0.125 = 1.125 J. Device 0 has less (even less than
    # nothing) and no plan keeps that, so it plans with 1.125 J; device 1 keeps its own 1.32 J.
    seen = two_devices()
    plan = allocate(seen, np.array([-3.0, 1.32]))
    assert plan.relaxed.tolist() == [True]
    compute_s, upload_s = times_s(seen, plan)
    energy_j = 0.5 * upload_s + 5e-19 * plan.cpu_hz**2
    assert np.all(energy_j <= np.array([1.125, 1.32]) * (1 + FEASIBILITY))
    precise = PreciseCluster(seen, np.array([1.125, 1.32]))
    least = float(precise.least_time_s())
    np.testing.assert_allclose(max(compute_s + upload_s), least, rtol=1e-12)


def test_even_split_by_hand():
    # 1 MHz each, t = 2 s, 1 J to send. 1.32 J leaves 0.32 = a f^2: 8e8. 10 J: f_max. 1.1 J leaves
    # 0.1 J < a f_min^2 = 0.125 J: it runs at f_min and its cluster counts as relaxed.
    seen = two_devices()
    plan = allocate_evenly(seen, np.array([1.32, 10.0]))
    np.testing.assert_allclose(plan.cpu_hz, [8e8, 1e9], rtol=1e-12)
    np.testing.assert_allclose(plan.bandwidth_hz, 1e6, rtol=0)
    assert plan.relaxed.tolist() == [False]
    plan = allocate_evenly(seen, np.array([1.1, 10.0]))
    np.testing.assert_allclose(plan.cpu_hz, [5e8, 1e9], rtol=1e-12)
    assert plan.relaxed.tolist() == [True]


def test_the_edge_of_feasibility_by_hand():
    # Both spares 1 J: sum of p k / spare = 2 * 0.5 * 2e6 = 2e6 = b_c. Exactly fits; less does not.
    # If the second has no limit it needs bandwidth too, so the first must leave some.
    seen = two_devices()
    exact = np.full(2, 1.125)
    assert feasible_clusters(seen, spare_j(seen, exact)).tolist() == [True]
    assert feasible_clusters(seen, spare_j(seen, exact * 0.9999)).tolist() == [False]
    alone = np.array([0.125 + 0.5, np.inf])  # needs p k / 0.5 J = 2e6 Hz: all of it
    assert feasible_clusters(seen, spare_j(seen, alone)).tolist() == [False]
    assert feasible_clusters(seen, spare_j(seen, alone * 1.001)).tolist() == [True]
    # p = 0 may spend everything on computing at f_min, but not a hair less than that takes.
    free = two_devices(tx_power_w=np.zeros(2))
    assert feasible_clusters(free, spare_j(free, np.full(2, 0.125))).tolist() == [True]
    assert feasible_clusters(free, spare_j(free, np.full(2, 0.1249))).tolist() == [False]


def test_an_even_split_takes_the_place_of_another_where_it_keeps_the_caps():
    """Two clusters of two: the second's caps are below what f_min takes, under any allocation."""
    rng = np.random.default_rng(0)
    seen = join([ordinary_case(rng, 2, "none") for _ in range(2)]).seen
    least_j = slowest_compute_energy_j(seen)
    cap_j = np.where(seen.edge_of_device == 0, np.inf, 0.5 * least_j)
    other, even = allocate(seen, cap_j), allocate_evenly(seen, cap_j)
    assert (other.relaxed.tolist(), even.relaxed.tolist()) == ([False, True], [False, True])
    for told, relaxed in (([False, True], [False, True]), ([True, False], [False, False])):
        found = evenly_where_it_fits(seen, cap_j, replace(other, relaxed=np.array(told)))
        # A cluster breaks its caps only if neither keeps them.
        assert found.relaxed.tolist() == relaxed
        mine = seen.edge_of_device == 0
        np.testing.assert_array_equal(found.cpu_hz, np.where(mine, even.cpu_hz, other.cpu_hz))


def test_devices_that_need_no_energy_to_send_fit_into_any_bandwidth():
    """Half a hertz for two of them; they need some, but no amount in particular."""
    columns = {"cycles": [1e9, 1e9], "snr": [1.0, 1.0], "tx_power_w": [0.0, 0.0]}
    columns |= {"capacitance": [2e-28] * 2, "cpu_min_hz": [1e9] * 2, "cpu_max_hz": [2e9] * 2}
    seen = one_cluster(1e6, 0.5, **{name: np.array(column) for name, column in columns.items()})
    assert feasible_clusters(seen, np.array([1.0, 1.0])).tolist() == [True]
