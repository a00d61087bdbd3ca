"""`allocate` under every convex law against CVXPY/Clarabel, and 60 digits where it cannot decide.

Power control also against a fine grid of computing times, which needs no convexity.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from reference.cvxpy_laws import solve_law, solve_power
from reference.instances import BUDGETS
from reference.law_instances import law_case
from reference.precise_laws import PreciseLaws
from support.allocations import as_plan

from fedrt.control.allocation.allocate import allocate
from fedrt.control.allocation.shares import least_energy_j
from fedrt.cost.compute import training_energy_j
from fedrt.cost.round import price
from fedrt.cost.uplink import bandwidth_of_rate_hz
from fedrt.plan import plan_problems

pytestmark = pytest.mark.numerical

CVXPY_TOLERANCE = 1e-6
FEASIBILITY = 1e-9
LAWS = ("noise", "tables", "idle", "noise and tables", "all", "power")


def check_against_cvxpy(law, seed, count, record_property):
    """Compare every case; where the solver cannot decide, 60 digits do."""
    rng = np.random.default_rng(seed)
    tally: Counter[str] = Counter()
    worst = 0.0
    for i in range(count):
        kind = BUDGETS[i % len(BUDGETS)]
        case = law_case(rng, int(rng.choice([1, 2, 3, 5, 9])), kind, law)
        seen, allowance_j = case.seen, case.allowance_j
        what = f"case {i} ({case.label}, {seen.num_devices} devices)"
        found = allocate(seen, allowance_j)
        plan = as_plan(seen, found)
        assert not plan_problems(plan, seen), what
        cost, relaxed = price(plan, seen), bool(found.relaxed[0])
        if not relaxed:
            assert (cost.energy_j <= allowance_j * (1 + FEASIBILITY)).all(), what
        time_s = cost.edge_time_s[0]
        if law == "power":
            verdict, theirs_s = solve_power(seen, allowance_j, time_s)
        else:
            verdict, theirs_s = solve_law(seen, allowance_j)
        precise = PreciseLaws(seen, allowance_j)
        off = abs(time_s / theirs_s - 1)
        if verdict == "solved" and not off <= CVXPY_TOLERANCE:
            # Where sending is 1e-7 of the energy, a row that is kept to 1e-9 is not kept at all.
            assert not precise.feasible_at(theirs_s * (1 + FEASIBILITY)), f"{what}: {theirs_s} s"
            verdict = "undecided"
        tally[f"{law}: CVXPY/Clarabel instances {verdict}"] += 1
        if verdict == "infeasible":
            assert relaxed, f"{what}: only the solver calls it infeasible"
        elif verdict == "solved":
            assert not relaxed, f"{what}: the solver finds {theirs_s} s"
            worst = max(worst, off)
        else:
            assert precise.feasible_ever() != relaxed, what
            if not relaxed:
                assert precise.feasible_at(time_s * (1 + FEASIBILITY)), what
                assert not precise.feasible_at(time_s * (1 - CVXPY_TOLERANCE)), what
            tally[f"{law}: decided by 60 digits instead"] += 1
    worst_of = f"{law}: worst relative difference from CVXPY/Clarabel"
    record_property("oracle", {**tally, worst_of: float(worst)})


@pytest.mark.parametrize("law", LAWS)
def test_equals_cvxpy(law, record_property):
    check_against_cvxpy(law, 1, 8, record_property)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
def test_equals_cvxpy_on_a_thousand(law, record_property):
    check_against_cvxpy(law, 2, 1000, record_property)


# --- power control against a grid --------------------------------------------------------------


def grid_hz(seen, allowance_j, n, tau_s, points):
    """The least bandwidth of a device over a grid of computing times, at the most power it has."""
    cycles = seen.cycles[n]
    first_s, last_s = cycles / seen.cpu_max_hz[n], min(cycles / seen.cpu_min_hz[n], tau_s)
    if tau_s <= first_s:
        return np.inf
    compute_s = np.linspace(first_s, last_s, points)
    compute_s = compute_s[compute_s < tau_s]
    one = replace(seen, capacitance=np.full(len(compute_s), seen.capacitance[n]))
    cpu = seen.laws.cpu
    if cpu is not None:
        place = np.full(len(compute_s), cpu.of_device[n])
        one = replace(one, laws=replace(seen.laws, cpu=replace(cpu, of_device=place)))
    each_cycles = np.full(len(compute_s), cycles)
    left_j = allowance_j[n] - training_energy_j(one, each_cycles, cycles / compute_s)
    power_w, upload_s = seen.tx_power_w[n], tau_s - compute_s
    share = power_w * seen.upload_bits[n] * np.log(2) / seen.laws.cn0_hz[n]
    share = share / np.maximum(np.minimum(left_j, power_w * upload_s), 1e-300)
    fits = share < 1
    if not fits.any():
        return np.inf
    # log(1 + y) = share y; all hertz-seconds are bits ln 2 / log(1 + y).
    y = 1.0 / bandwidth_of_rate_hz(share[fits] / np.log(2), np.ones(fits.sum()))
    return float(np.min(seen.upload_bits[n] * np.log(2) / np.log1p(y) / upload_s[fits]))


@pytest.mark.parametrize("law", ["noise", "noise and tables"])
def test_no_point_of_a_grid_beats_power_control(law):
    rng = np.random.default_rng(5)
    lowered, faster = 0, 0
    for i in range(24):
        case = law_case(rng, int(rng.choice([1, 2, 3, 5])), BUDGETS[i % len(BUDGETS)], law)
        full = allocate(case.seen, case.allowance_j)
        full_s = price(as_plan(case.seen, full), case.seen).edge_time_s[0]
        seen = replace(case.seen, laws=replace(case.seen.laws, power_control=True))
        found = allocate(seen, case.allowance_j)
        kept_j = case.allowance_j
        if found.relaxed[0]:
            kept_j = np.maximum(kept_j, least_energy_j(seen))
        plan = as_plan(seen, found)
        assert not plan_problems(plan, seen), case.label
        cost = price(plan, seen)
        assert (cost.energy_j <= kept_j * (1 + FEASIBILITY)).all(), case.label
        tau_s, everyone = cost.edge_time_s[0], range(seen.num_devices)
        b_hz = seen.edge_bandwidth_hz[0]
        sooner_s = tau_s * (1 - CVXPY_TOLERANCE)
        need_hz = sum(grid_hz(seen, kept_j, n, sooner_s, 1001) for n in everyone)
        assert need_hz >= b_hz, case.label
        # The grid is a little worse than the best point, and comes close.
        need_hz = sum(grid_hz(seen, kept_j, n, tau_s * 1.01, 5001) for n in everyone)
        assert need_hz <= 1.01 * b_hz, case.label
        lowered += bool((found.tx_power_w < 0.99 * seen.tx_power_w).any())
        if not full.relaxed[0]:
            faster += tau_s < 0.99 * full_s
            assert tau_s <= full_s * (1 + FEASIBILITY), case.label
    assert lowered > 5
    assert faster > 2
