"""`allocate` under other laws than the paper's: by hand, and against bisection in 60 digits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference.instances import BUDGETS, one_cluster
from reference.law_instances import LAWS, law_case
from reference.precise_laws import PreciseLaws
from support.allocations import as_plan

from fedrt.control.allocation.allocate import allocate, feasible_clusters
from fedrt.control.allocation.shares import allocate_evenly, least_energy_j, slowest_energy_j
from fedrt.cost.round import price
from fedrt.cost.uplink import bandwidth_of_rate_hz, most_rate_bps, rate_bps
from fedrt.world.laws import CpuTables, Laws

pytestmark = pytest.mark.numerical

FEASIBILITY = 1e-9


def granted_j(seen, allowance_j, relaxed):
    """The allowances that count: best-effort ones where the cluster was relaxed."""
    raised_j = np.maximum(allowance_j, least_energy_j(seen))
    return np.where(relaxed[seen.edge_of_device], raised_j, allowance_j)


def worst_violation(seen, plan, allowance_j):
    """The most that any constraint is exceeded by, relative to its own size."""
    limited = np.isfinite(allowance_j)
    over = (price(plan, seen).energy_j - allowance_j)[limited] / np.abs(allowance_j[limited])
    used = seen.sum_by_edge(plan.bandwidth_hz) / seen.edge_bandwidth_hz - 1
    assert np.all(plan.bandwidth_hz > 0)
    return max(
        over.max(initial=0.0),
        used.max(),
        (plan.cpu_hz / seen.cpu_max_hz - 1).max(initial=0.0),
        (1 - plan.cpu_hz / seen.cpu_min_hz).max(initial=0.0),
    )


def check_precisely(case, *, wide=False):
    """Feasible to 1e-9 in every constraint, and 1e-6 less time shown to be too little."""
    found = allocate(case.seen, case.allowance_j)
    if found.relaxed[0] and wide and case.seen.laws.idle_power_w is not None:
        # Best-effort allowances may leave a single time, which rounding takes away where numbers
        # lie many decades apart.
        return
    kept_j = granted_j(case.seen, case.allowance_j, found.relaxed)
    plan = as_plan(case.seen, found)
    assert worst_violation(case.seen, plan, kept_j) <= FEASIBILITY, case.label
    given = PreciseLaws(case.seen, case.allowance_j)
    # That no time at all is feasible with idle power takes a search of its own: see the CVXPY test.
    if case.seen.laws.idle_power_w is None:
        assert given.feasible_ever() != found.relaxed[0], case.label
    precise = PreciseLaws(case.seen, kept_j) if found.relaxed[0] else given
    time_s = price(plan, case.seen).edge_time_s[0]
    assert not precise.feasible_at(time_s * (1 - 1e-6)), case.label


def cases(seed, count, *, wide=False, laws=LAWS):
    rng = np.random.default_rng(seed)
    for i in range(count):
        kind, law = BUDGETS[i // len(laws) % len(BUDGETS)], laws[i % len(laws)]
        yield law_case(rng, int(rng.choice([1, 2, 3, 5, 9])), kind, law, wide=wide)


@pytest.mark.parametrize("wide", [False, True])
def test_is_feasible_and_optimal_to_60_digits(wide):
    for case in cases(1, 30, wide=wide):
        check_precisely(case, wide=wide)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("seed", range(2, 7))
def test_is_feasible_and_optimal_to_60_digits_on_thousands(seed, wide):
    for case in cases(seed, 600, wide=wide):
        check_precisely(case, wide=wide)


# --- noise spread over the bandwidth, by hand ------------------------------------------------


def twins(bits=3e6, cn0_hz=3e6, **laws):
    """Two equal devices on 2 MHz: 1 s of computing at 1 GHz, 0.1 W radios, 0.5 J at 1 GHz."""
    both = np.ones(2)
    seen = one_cluster(
        bits,
        2e6,
        cycles=1e9 * both,
        snr=3 * both,
        tx_power_w=0.1 * both,
        capacitance=1e-27 * both,
        cpu_min_hz=0.5e9 * both,
        cpu_max_hz=1e9 * both,
    )
    return replace(seen, laws=Laws(cn0_hz=cn0_hz * both, **laws))


def test_two_equal_devices_by_hand():
    # An even share of 1 MHz: rate 1e6 log2(1 + 3) = 2 Mbit/s, so 3 Mbit take 1.5 s.
    seen = twins()
    found = allocate(seen, np.full(2, np.inf))
    np.testing.assert_allclose(found.bandwidth_hz, 1e6)
    np.testing.assert_allclose(found.cpu_hz, 1e9)
    np.testing.assert_allclose(price(as_plan(seen, found), seen).edge_time_s, 2.5)


def test_rate_saturates():
    """A device that cannot send for longer than bits ln 2 / cn0 fits into no bandwidth."""
    seen = twins()
    least_s = 3e6 * np.log(2) / 3e6
    floor_j = 0.5e-27 * 1e9 * 0.5e9**2
    cn0_hz = seen.laws.cn0_hz
    assert np.isinf(bandwidth_of_rate_hz(seen.upload_bits / least_s, cn0_hz)).all()
    assert np.isfinite(bandwidth_of_rate_hz(seen.upload_bits / (least_s * 1.001), cn0_hz)).all()
    for bandwidth_hz in (2e6, 1e13):
        wide = replace(seen, edge_bandwidth_hz=np.array([bandwidth_hz]))
        below = np.full(2, floor_j + 0.1 * least_s * 0.999999)
        assert not feasible_clusters(wide, below - slowest_energy_j(wide)).any()
        assert allocate(wide, below).relaxed.all()
    above = np.full(2, floor_j + 0.1 * least_s * 1.000001)
    assert feasible_clusters(wide, above - slowest_energy_j(wide)).all()
    assert not allocate(wide, above).relaxed.any()


@pytest.mark.parametrize("share", [1e-100, 1e-30, 1e-9, 0.1, 0.5, 0.9, 0.999999, 1 - 1e-12])
def test_bandwidth_of_a_rate_gives_the_rate(share):
    rate, cn0_hz = share * most_rate_bps(np.array([7.0])), np.array([7.0])
    found = bandwidth_of_rate_hz(rate, cn0_hz)
    # Near the limit a last digit of the rate is many of the bandwidth; the rate must come back.
    np.testing.assert_allclose(rate_bps(found, cn0_hz), rate, rtol=1e-14)
    from fedrt.control.allocation.device_kernel import bandwidth_for

    compiled_hz, fall = bandwidth_for(np.log(2.0) * 3.0 / 7.0, 7.0, 3.0 / float(rate[0]))
    np.testing.assert_allclose(rate_bps(np.array([compiled_hz]), cn0_hz), rate, rtol=1e-14)
    assert fall > 0


# --- measured CPUs, idle power and constants, by hand ----------------------------------------


def test_a_table_by_hand():
    """Two points, 1 GHz at 0.5 J and 0.5 GHz at 0.1 J per 1e9 cycles: 1 s or 2 s of computing.

    0.1 W for t s and 0.5 - 0.4 (c - 1) J: with 0.44 J, 0.1 t = 0.4 (c - 1) - 0.06.
    At t = 1.5 s (an even share): c = 1.525 s.
    """
    seen = twins()
    table = CpuTables(
        np.zeros(2, dtype=np.int64),
        np.array([0, 2]),
        np.array([1e-9, 2e-9]),
        np.array([0.5e-9, 0.1e-9]),
    )
    seen = replace(seen, laws=replace(seen.laws, cpu=table))
    for found in (allocate(seen, np.full(2, 0.44)), allocate_evenly(seen, np.full(2, 0.44))):
        cost = price(as_plan(seen, found), seen)
        np.testing.assert_allclose(cost.compute_s, 1.525)
        np.testing.assert_allclose(cost.energy_j, 0.44)
    # 0.1 J and 0.15 J to send at least.
    assert not allocate(seen, np.full(2, 0.25 + 1e-9)).relaxed.any()
    assert allocate(seen, np.full(2, 0.25 - 1e-9)).relaxed.all()


def test_idle_power_is_kept_within_the_allowance():
    """One device computes for 10 s, so the other, at its lowest frequency, has to wait.

    It computes for 2 s, sends at 0.1 W for t s and waits at 0.05 W: its 0.7 J, less 0.125 J of
    computing, allow 0.1 t + 0.05 (tau - 2 - t) = 0.575.
    """
    seen = twins(idle_power_w=np.full(2, 0.05))
    seen = replace(seen, cycles=np.array([10e9, 1e9]))
    found = allocate(seen, np.array([np.inf, 0.7]))
    cost = price(as_plan(seen, found), seen)
    assert not found.relaxed.any()
    assert cost.idle_j[1] > 0
    np.testing.assert_allclose(found.cpu_hz, [1e9, 0.5e9])
    upload_s, tau_s = cost.upload_s[1], cost.edge_time_s[0]
    np.testing.assert_allclose(0.1 * upload_s + 0.05 * (tau_s - 2 - upload_s), 0.575)
    # The first takes over 10 s + 1.13 s on all of the bandwidth, and the second sends for more
    # than 0.69 s: 0.125 + 0.05 x (11.13 - 2) + 0.05 x 0.69 = 0.616 J are too few.
    assert allocate(seen, np.array([np.inf, 0.616])).relaxed.all()


@pytest.mark.parametrize("spread", [False, True])
def test_listening_and_averaging_are_set_aside(spread):
    """What every plan pays, 0.25 W for 0.4 s and 0.1 W for 2 s, is taken off the allowance."""
    seen = twins()
    if not spread:
        seen = replace(seen, laws=Laws())
    listening = replace(seen.laws, listen_s=np.array([0.2, 0.4]), rx_power_w=np.full(2, 0.25))
    paying = replace(seen, laws=listening)
    fixed_j = 0.25 * 0.4
    if spread:
        idle = replace(listening, idle_power_w=np.full(2, 0.1), overhead_s=2.0)
        paying, fixed_j = replace(seen, laws=idle), 0.25 * 0.4 + 0.1 * 2.0
    for rule in (allocate, allocate_evenly):
        free, paid = rule(seen, np.full(2, 0.4)), rule(paying, np.full(2, 0.4 + fixed_j))
        np.testing.assert_allclose(free.bandwidth_hz, paid.bandwidth_hz)
        np.testing.assert_allclose(free.cpu_hz, paid.cpu_hz)
        np.testing.assert_allclose(price(as_plan(paying, paid), paying).energy_j, 0.4 + fixed_j)
    np.testing.assert_allclose(least_energy_j(paying), least_energy_j(seen) + fixed_j)
