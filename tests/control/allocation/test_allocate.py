"""`allocate` against a hand-worked case, CVXPY/Clarabel, 60-digit bisection, and its own laws."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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

from fedrt.control.allocation import kernel as allocation_kernel
from fedrt.control.allocation.allocate import (
    RESIDUAL,
    allocate,
    allocate_evenly,
    even_split_hz,
    evenly_where_it_fits,
    feasible_clusters,
    slowest_compute_energy_j,
)
from fedrt.control.allocation.kernel import MOST_TIME_STEPS, Devices, solve_clusters
from fedrt.cost.uplink import hertz_seconds
from fedrt.errors import FedrtError

pytestmark = pytest.mark.numerical

CVXPY_TOLERANCE = 1e-6  # what the solver can be trusted with, not what the search delivers
FEASIBILITY = 1e-9


def times_s(seen, allocation):
    """Per device, compute and upload seconds."""
    k = seen.model_bits / np.log2(1 + seen.snr)
    return seen.cycles / allocation.cpu_hz, k / allocation.bandwidth_hz


def least_times_s(seen, allocation):
    """Per cluster, its slowest device."""
    return seen.max_by_edge(sum(times_s(seen, allocation)))


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


def spare_j(seen, allowance_j):
    """What computing at f_min leaves of each allowance."""
    return allowance_j - slowest_compute_energy_j(seen)


def granted_j(seen, allowance_j, relaxed):
    """The allowances that count: best-effort ones where the cluster was relaxed."""
    k = seen.model_bits / np.log2(1 + seen.snr)
    a = seen.capacitance * seen.cycles / 2
    fair_j = a * seen.cpu_min_hz**2 + seen.tx_power_w * k / even_split_hz(seen)
    return np.where(relaxed[seen.edge_of_device], np.maximum(allowance_j, fair_j), allowance_j)


# --- worked by hand ------------------------------------------------------------------------


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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 116))
def test_equals_cvxpy_on_thousands(seed, record_property):
    check_against_cvxpy(ordinary_cases(seed, 240), record_property)


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


# --- laws ----------------------------------------------------------------------------------

CASES = st.builds(
    lambda seed, size, kind, wide: (wide_case if wide else ordinary_case)(
        np.random.default_rng(seed), size, kind
    ),
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 3, 9]),
    st.sampled_from(BUDGETS),
    st.booleans(),
)
FITTING = CASES.filter(lambda case: case.label != "too little")

# A time may come out longer by rounding alone.
ROUNDING = 1e-12


@given(FITTING, st.floats(1.0, 1e3))
def test_more_bandwidth_is_never_slower(case, factor):
    more = replace(case.seen, edge_bandwidth_hz=case.seen.edge_bandwidth_hz * factor)
    before = least_times_s(case.seen, allocate(case.seen, case.allowance_j))
    after = least_times_s(more, allocate(more, case.allowance_j))
    assert np.all(after <= before * (1 + ROUNDING))


@given(FITTING, st.floats(0.0, 1e3), st.integers(0, 8))
def test_more_energy_is_never_slower(case, extra, device):
    more = case.allowance_j.copy()
    more[device % len(more)] *= 1 + extra
    before = least_times_s(case.seen, allocate(case.seen, case.allowance_j))
    after = least_times_s(case.seen, allocate(case.seen, more))
    assert np.all(after <= before * (1 + ROUNDING))


@given(CASES, st.randoms(use_true_random=False))
def test_relabelling_devices_permutes_the_answer(case, random):
    order = list(range(case.seen.num_devices))
    random.shuffle(order)
    columns = {name: getattr(case.seen, name)[order] for name in DEVICE_COLUMNS}
    plain = allocate(case.seen, case.allowance_j)
    moved = allocate(replace(case.seen, **columns), case.allowance_j[order])
    np.testing.assert_array_equal(moved.relaxed, plain.relaxed)
    # Sums in another order round differently; near the edge of feasibility that is amplified.
    np.testing.assert_allclose(moved.bandwidth_hz, plain.bandwidth_hz[order], rtol=1e-8)
    np.testing.assert_allclose(moved.cpu_hz, plain.cpu_hz[order], rtol=1e-8)


@given(st.lists(CASES, min_size=2, max_size=6))
def test_batching_clusters_changes_nothing(cases):
    together = allocate(*(lambda j: (j.seen, j.allowance_j))(join(cases)))
    alone = [allocate(case.seen, case.allowance_j) for case in cases]
    for field in ("bandwidth_hz", "cpu_hz", "relaxed"):
        apart = np.concatenate([getattr(plan, field) for plan in alone])
        np.testing.assert_array_equal(getattr(together, field), apart)


@given(FITTING)
@settings(max_examples=300)
def test_conditions_of_optimality(case):
    """All bandwidth is used; a device ends at tau or, at f_min, sends as long as it can afford.

    A device that ends at tau runs at f_max or spends its whole allowance. Together with
    feasibility these conditions leave only the optimum.
    """
    seen, plan = case.seen, allocate(case.seen, case.allowance_j)
    compute_s, upload_s = times_s(seen, plan)
    tau = (compute_s + upload_s).max()
    compute_j = seen.capacitance / 2 * seen.cycles * plan.cpu_hz**2
    energy_j = compute_j + seen.tx_power_w * upload_s
    np.testing.assert_allclose(plan.bandwidth_hz.sum(), seen.edge_bandwidth_hz[0], rtol=1e-12)
    ends_at_tau = compute_s + upload_s >= tau * (1 - 1e-9)
    spends_all = energy_j >= case.allowance_j * (1 - 1e-9)
    saturated = (plan.cpu_hz <= seen.cpu_min_hz * (1 + 1e-12)) & spends_all
    assert np.all(ends_at_tau | saturated)
    assert np.all(~ends_at_tau | (plan.cpu_hz >= seen.cpu_max_hz * (1 - 1e-9)) | spends_all)
    if not ends_at_tau.any():
        pytest.fail("nobody ends at tau")


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
