"""`allocate` against CVXPY/Clarabel and bisection in 60 digits, and when its search ends."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from reference.cvxpy_allocation import solve_cluster
from reference.instances import (
    BUDGETS,
    DEVICE_COLUMNS,
    Case,
    budgets,
    join,
    one_cluster,
    ordinary_case,
    well_posed,
    wide_case,
)
from reference.precise_allocation import PreciseCluster
from support.allocations import least_times_s, spare_j, times_s

from fedrt.control.allocation import kernel as allocation_kernel
from fedrt.control.allocation.allocate import allocate, feasible_clusters
from fedrt.control.allocation.kernel import MOST_TIME_STEPS, Devices, solve_clusters
from fedrt.control.allocation.shares import RESIDUAL, even_split_hz
from fedrt.cost.uplink import hertz_seconds
from fedrt.errors import FedrtError

pytestmark = pytest.mark.numerical

CVXPY_TOLERANCE = 1e-6  # what the solver can be trusted with, not what the search delivers
FEASIBILITY = 1e-9


def worst_violation(seen, allocation, allowance_j):
    """The most that any constraint is exceeded by, relative to its own size."""
    _, upload_s = times_s(seen, allocation)
    f, b = allocation.cpu_hz, allocation.bandwidth_hz
    energy_j = seen.tx_power_w * upload_s + seen.capacitance / 2 * seen.cycles * f**2
    limited = np.isfinite(allowance_j)
    over = (energy_j - allowance_j)[limited] / np.abs(allowance_j[limited])
    used = seen.sum_by_edge(b) / seen.edge_bandwidth_hz - 1
    assert np.all(np.isfinite(b))
    assert np.all(b > 0)
    assert np.all(np.isfinite(f))
    return max(
        over.max(initial=0.0),
        used.max(),
        (f / seen.cpu_max_hz - 1).max(initial=0.0),
        (1 - f / seen.cpu_min_hz).max(initial=0.0),
    )


def granted_j(seen, allowance_j, relaxed):
    """The allowances that count: best-effort ones where the cluster was relaxed."""
    k = seen.model_bits / np.log2(1 + seen.snr)
    a = seen.capacitance * seen.cycles / 2
    fair_j = a * seen.cpu_min_hz**2 + seen.tx_power_w * k / even_split_hz(seen)
    return np.where(relaxed[seen.edge_of_device], np.maximum(allowance_j, fair_j), allowance_j)


# --- against CVXPY and Clarabel ------------------------------------------------------------


def check_against_cvxpy(cases, record_property):
    """Compare every case; where the solver cannot decide, 60 digits do. None is dropped."""
    joined = join(cases)
    plan = allocate(joined.seen, joined.allowance_j)
    ours_s = least_times_s(joined.seen, plan)
    count: Counter[str] = Counter()
    worst = 0.0
    for i, case in enumerate(cases):
        answer = solve_cluster(case.seen, case.allowance_j)
        count[f"CVXPY/Clarabel instances {answer.verdict}"] += 1
        what = f"case {i} ({case.label}, {case.seen.num_devices} devices)"
        if answer.verdict == "infeasible":
            assert plan.relaxed[i], f"{what}: only the solver calls it infeasible"
        elif answer.verdict == "solved":
            assert not plan.relaxed[i], f"{what}: the solver finds {answer.time_s[0]} s"
            off = abs(ours_s[i] / answer.time_s[0] - 1)
            assert off <= CVXPY_TOLERANCE, f"{what}: {ours_s[i]} s against {answer.time_s[0]} s"
            worst = max(worst, off)
        else:
            precise = PreciseCluster(case.seen, case.allowance_j)
            assert plan.relaxed[i] != precise.feasible_ever(), what
            if not plan.relaxed[i]:
                assert precise.feasible_at(ours_s[i] * (1 + FEASIBILITY)), what
                assert not precise.feasible_at(ours_s[i] * (1 - CVXPY_TOLERANCE)), what
            count["decided by 60 digits instead"] += 1
    kept = granted_j(joined.seen, joined.allowance_j, plan.relaxed)
    assert worst_violation(joined.seen, plan, kept) <= FEASIBILITY
    record_property(
        "oracle", {**count, "worst relative difference from CVXPY/Clarabel": float(worst)}
    )


def ordinary_cases(seed, count, sizes=(1, 2, 3, 5, 9, 20)):
    rng = np.random.default_rng(seed)
    return [
        ordinary_case(rng, int(rng.choice(sizes)), BUDGETS[i % len(BUDGETS)]) for i in range(count)
    ]


def test_equals_cvxpy(record_property):
    check_against_cvxpy(ordinary_cases(1, 240), record_property)


def test_equals_cvxpy_on_a_large_cluster(record_property):
    rng = np.random.default_rng(2)
    check_against_cvxpy([ordinary_case(rng, 1000, "slack")], record_property)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 116))
def test_equals_cvxpy_on_thousands(seed, record_property):
    check_against_cvxpy(ordinary_cases(seed, 240), record_property)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("size", [200, 1000])
def test_equals_cvxpy_on_large_clusters(kind, size, record_property):
    rng = np.random.default_rng(300 + size)
    check_against_cvxpy([ordinary_case(rng, size, kind) for _ in range(2)], record_property)


# --- against bisection in 60 digits --------------------------------------------------------


def corner_cases(rng):
    """Clusters built to hurt: almost free sending, almost no slack, one giant among dwarfs."""
    cases = []
    for _ in range(4):
        for size in (1, 2, 7):
            base = wide_case(rng, size, "none").seen
            tiny_power = well_posed(replace(base, tx_power_w=np.full(size, 1e-12)), "binding")
            cases.append(Case(tiny_power, budgets(rng, tiny_power, "binding"), "tiny power"))
            cases.append(Case(tiny_power, budgets(rng, tiny_power, "none"), "tiny power"))
            fixed = well_posed(replace(base, cpu_min_hz=base.cpu_max_hz), "binding")
            cases.append(Case(fixed, budgets(rng, fixed, "binding"), "one frequency"))
            floor_j = base.capacitance / 2 * base.cycles * base.cpu_min_hz**2
            upload_j = base.tx_power_w * hertz_seconds(base.model_bits, base.snr)
            enough = upload_j * size / base.edge_bandwidth_hz * 1.5
            cases.append(Case(base, floor_j * (1 + 1e-7) + enough, "little slack"))
            low = well_posed(replace(base, snr=np.full(size, 0.1)), "barely")
            cases.append(Case(low, budgets(rng, low, "barely"), "-10 dB"))
            longer = base.cycles * np.where(np.arange(size) == 0, 1e6, 1.0)
            giant = well_posed(replace(base, cycles=longer), "mixed")
            cases.append(Case(giant, budgets(rng, giant, "mixed"), "a giant"))
            free = replace(base, tx_power_w=np.zeros(size))
            exactly = free.capacitance / 2 * free.cycles * free.cpu_min_hz**2
            cases.append(Case(free, exactly, "exactly f_min"))
    return cases


def empty_cluster(case):
    none = {name: np.empty(0) for name in DEVICE_COLUMNS}
    return Case(one_cluster(case.seen.model_bits, 1e6, **none), np.empty(0), "empty")


def check_precisely(cases, record_property):
    """Feasible to 1e-9 in every constraint, and 1e-6 less time shown to be too little."""
    joined = join(cases)
    seen = joined.seen
    plan = allocate(seen, joined.allowance_j)
    kept = granted_j(seen, joined.allowance_j, plan.relaxed)
    assert worst_violation(seen, plan, kept) <= FEASIBILITY
    ours_s = least_times_s(seen, plan)
    relaxed = 0
    for i, case in enumerate(cases):
        if case.seen.num_devices == 0:
            assert ours_s[i] == 0
            assert not plan.relaxed[i]
            continue
        what = f"case {i} ({case.label}, {case.seen.num_devices} devices)"
        given_j = PreciseCluster(seen, joined.allowance_j, i)
        if case.label != "exactly f_min":  # where the last digit of the input decides
            assert given_j.feasible_ever() != plan.relaxed[i], what
        relaxed += int(plan.relaxed[i])
        best_effort = bool(plan.relaxed[i])
        precise = PreciseCluster(seen, joined.allowance_j, i, best_effort=best_effort)
        assert not precise.feasible_at(ours_s[i] * (1 - 1e-6)), what
    record_property("oracle", {"60-digit clusters": len(cases), "of them best-effort": relaxed})


def wide_cases(seed, count):
    rng = np.random.default_rng(seed)
    cases = [
        wide_case(rng, int(rng.choice([1, 2, 3, 6, 12])), BUDGETS[i % len(BUDGETS)])
        for i in range(count)
    ]
    return [*cases, empty_cluster(cases[0]), wide_case(rng, 4, "binding")]


def test_wide_data_is_feasible_and_optimal(record_property):
    check_precisely(wide_cases(11, 60), record_property)


def test_corners_are_feasible_and_optimal(record_property):
    check_precisely(corner_cases(np.random.default_rng(12)), record_property)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 26))
def test_wide_data_is_feasible_and_optimal_on_hundreds(seed, record_property):
    check_precisely(wide_cases(seed, 60), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "binding", "barely", "mixed"])
def test_a_huge_cluster_of_wide_data(kind, record_property):
    rng = np.random.default_rng(30)
    check_precisely([wide_case(rng, 400, kind)], record_property)


@pytest.mark.parametrize("kind", ["none", "slack", "binding", "barely", "mixed"])
def test_equals_its_slow_twin(kind):
    rng = np.random.default_rng(40)
    for size in (1, 2, 4):
        case = ordinary_case(rng, size, kind)
        plan = allocate(case.seen, case.allowance_j)
        least = float(PreciseCluster(case.seen, case.allowance_j).least_time_s())
        np.testing.assert_allclose(least_times_s(case.seen, plan), least, rtol=1e-11)


def test_the_search_ends_by_itself(record_property):
    """Newton needs tens of steps even on hostile data; the cap is never what stops it."""
    rng = np.random.default_rng(50)
    cases = corner_cases(rng) + [
        wide_case(rng, int(rng.choice([1, 3, 30])), BUDGETS[i % 6], closest=1e-9)
        for i in range(3000)
    ]
    joined = join(cases)
    seen = joined.seen
    spare = spare_j(seen, joined.allowance_j)
    fits = feasible_clusters(seen, spare)[seen.edge_of_device]
    spare = np.where(fits, np.maximum(spare, 0.0), np.inf)
    steps, residual = solve_clusters(
        Devices(
            first=seen.first_device,
            edge_bandwidth_hz=seen.edge_bandwidth_hz,
            k=hertz_seconds(seen.model_bits, seen.snr),
            w=seen.cycles,
            a=seen.capacitance * seen.cycles / 2,
            p=seen.tx_power_w,
            spare_j=spare,
            f_min=seen.cpu_min_hz,
            f_max=seen.cpu_max_hz,
            bandwidth_hz=np.empty(seen.num_devices),
            cpu_hz=np.empty(seen.num_devices),
        )
    )
    record_property("oracle", {"worst Newton steps of a cluster": float(steps)})
    assert 0 < steps < MOST_TIME_STEPS / 5
    assert 0 <= residual < RESIDUAL / 100


def test_a_search_that_does_not_end_is_told(monkeypatch):
    case = ordinary_case(np.random.default_rng(0), 3, BUDGETS[0])
    for found in ((MOST_TIME_STEPS, 0.0), (3, 2 * RESIDUAL), (3, np.nan)):
        monkeypatch.setattr(allocation_kernel, "solve_clusters", lambda fleet, found=found: found)
        with pytest.raises(FedrtError, match=f"did not converge: after {found[0]} steps"):
            allocate(case.seen, case.allowance_j)
