"""Whole resource blocks: the allocation equals exhaustive search, and too few of them are told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mpmath import mp, mpf
from reference.exhaustive_blocks import least_time_s
from reference.instances import BUDGETS
from reference.law_instances import law_case, with_idling
from reference.precise_laws import PreciseLaws
from support.allocations import as_plan

from fedrt.control.allocation.allocate import allocate
from fedrt.control.allocation.shares import allocate_evenly, even_split_hz, least_energy_j
from fedrt.cost.round import price
from fedrt.errors import InputError
from fedrt.plan import plan_problems

pytestmark = pytest.mark.numerical

LAWS = ("fixed", "noise", "tables", "noise and tables")


def block_case(rng, kind, law):
    """A small cluster with 1 to 4 devices and up to 10 blocks, and how many it has."""
    size = int(rng.integers(1, 5))
    blocks = int(rng.integers(size, 11))
    case = law_case(rng, size, kind, law)
    b = case.seen.edge_bandwidth_hz[0]
    block_hz = b / (blocks + rng.uniform(0, 0.9))
    laws = replace(case.seen.laws, block_hz=block_hz)
    # Rounding up takes more than the budgets of `law_case` leave where they barely fit.
    allowance_j = case.allowance_j * rng.choice([1.0, 1.3, 2.0])
    return replace(case, seen=replace(case.seen, laws=laws), allowance_j=allowance_j), blocks


def equal_twins(case):
    """The cluster in which all devices are like the first: the end of each is the cluster's."""
    seen = case.seen
    if seen.laws.cpu is not None:
        return case
    names = ("cycles", "snr", "tx_power_w", "capacitance", "cpu_min_hz", "cpu_max_hz")
    same = {name: np.full(seen.num_devices, getattr(seen, name)[0]) for name in names}
    laws = seen.laws
    if laws.cn0_hz is not None:
        laws = replace(laws, cn0_hz=np.full(seen.num_devices, laws.cn0_hz[0]))
    allowance_j = np.full(seen.num_devices, case.allowance_j[0])
    return replace(case, seen=replace(seen, laws=laws, **same), allowance_j=allowance_j)


@pytest.mark.parametrize(
    "count", [200, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.long])]
)
def test_equal_exhaustive_search(count, record_property):
    rng = np.random.default_rng(3)
    worst, relaxed = 0.0, 0
    for i in range(count):
        kind, law = BUDGETS[i // len(LAWS) % len(BUDGETS)], LAWS[i % len(LAWS)]
        case, blocks = block_case(rng, kind, law)
        if i % 5 == 0:
            case = equal_twins(case)
        seen = case.seen
        found = allocate(seen, case.allowance_j)
        plan = as_plan(seen, found)
        assert not plan_problems(plan, seen), (i, case.label)
        allowance_j = case.allowance_j
        best_s = least_time_s(seen, allowance_j, seen.laws.block_hz, blocks)
        assert np.isinf(best_s) == found.relaxed[0], (i, case.label)
        if found.relaxed[0]:
            relaxed += 1
            allowance_j = np.maximum(allowance_j, least_energy_j(seen))
            best_s = least_time_s(seen, allowance_j, seen.laws.block_hz, blocks)
        cost = price(plan, seen)
        assert (cost.energy_j <= allowance_j * (1 + 1e-9)).all(), (i, case.label)
        used = np.rint(found.bandwidth_hz / seen.laws.block_hz).sum()
        assert used == blocks, (i, case.label)
        # Where budgets barely fit, their last digits are worth more than those of the time.
        rounded_s = least_time_s(
            seen, allowance_j + 1e-9 * np.abs(allowance_j), seen.laws.block_hz, blocks
        )
        time_s = cost.edge_time_s[0]
        assert rounded_s * (1 - 1e-9) <= time_s <= best_s * (1 + 1e-9), (i, case.label)
        worst = max(worst, abs(time_s / best_s - 1))
    tally = {"clusters in whole blocks": count, "of them relaxed": relaxed}
    record_property("oracle", {**tally, "worst of whole blocks": float(worst)})


@pytest.mark.parametrize("count", [6, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.long])])
def test_with_power_control_less_time_needs_more_blocks(count):
    """In 60 digits: the blocks that 1e-9 less time asks for are more than there are."""
    rng = np.random.default_rng(4)
    for i in range(count):
        case, blocks = block_case(rng, BUDGETS[i % len(BUDGETS)], "power")
        seen = case.seen
        found = allocate(seen, case.allowance_j)
        plan = as_plan(seen, found)
        assert not plan_problems(plan, seen), case.label
        allowance_j = case.allowance_j
        if found.relaxed[0]:
            assert not PreciseLaws(seen, allowance_j).feasible_ever(), case.label
            allowance_j = np.maximum(allowance_j, least_energy_j(seen))
        cost = price(plan, seen)
        assert (cost.energy_j <= allowance_j * (1 + 1e-9)).all(), case.label
        sooner_s = mpf(float(cost.edge_time_s[0] * (1 - 1e-9)))
        block_hz = mpf(float(seen.laws.block_hz))
        need = [d.least_bandwidth(sooner_s) for d in PreciseLaws(seen, allowance_j).devices]
        assert any(mp.isinf(hz) for hz in need) or (
            sum(max(int(mp.ceil(hz / block_hz)), 1) for hz in need) > blocks
        ), case.label


@pytest.mark.parametrize("rule", [allocate, allocate_evenly])
def test_fewer_blocks_than_devices_are_told(rule):
    case = law_case(np.random.default_rng(0), 5, "none", "noise")
    laws = replace(case.seen.laws, block_hz=case.seen.edge_bandwidth_hz[0] / 4.5)
    with pytest.raises(InputError, match="edge server 0 has 4 whole blocks for 5 devices"):
        rule(replace(case.seen, laws=laws), case.allowance_j)


def test_an_even_split_in_blocks():
    """11 blocks for 4 devices: 3, 3, 3, 2."""
    case = law_case(np.random.default_rng(0), 4, "none", "noise")
    block_hz = case.seen.edge_bandwidth_hz[0] / 11
    seen = replace(case.seen, laws=replace(case.seen.laws, block_hz=block_hz))
    np.testing.assert_allclose(even_split_hz(seen) / block_hz, [3, 3, 3, 2])
    assert not plan_problems(as_plan(seen, allocate_evenly(seen, case.allowance_j)), seen)


def test_left_over_blocks_go_to_the_last_to_end():
    """Equal devices need equal counts; the blocks beyond them go to the first of those."""
    case = equal_twins(law_case(np.random.default_rng(1), 4, "none", "noise"))
    block_hz = case.seen.edge_bandwidth_hz[0] / 14
    seen = replace(case.seen, laws=replace(case.seen.laws, block_hz=block_hz))
    found = allocate(seen, case.allowance_j)
    blocks = np.rint(found.bandwidth_hz / block_hz)
    assert blocks.tolist() == [4, 4, 3, 3]


def test_idle_power_in_blocks_keeps_allowances():
    """Where a plan is not called best-effort, it keeps every allowance with all waiting."""
    rng = np.random.default_rng(8)
    kept = 0
    for i in range(120):
        case, _ = block_case(rng, BUDGETS[i % len(BUDGETS)], LAWS[i % len(LAWS)])
        seen = with_idling(rng, case.seen)
        for found in (
            allocate(seen, case.allowance_j),
            allocate_evenly(seen, case.allowance_j),
        ):
            plan = as_plan(seen, found)
            assert not plan_problems(plan, seen)
            over = (price(plan, seen).energy_j > case.allowance_j * (1 + 2e-9)).any()
            assert over <= found.relaxed[0], (i, case.label)
            kept += not found.relaxed[0]
        assert not allocate(seen, case.allowance_j).proven
    assert kept > 100
