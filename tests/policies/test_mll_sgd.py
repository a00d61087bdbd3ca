"""MLL-SGD: local steps follow the speed of each device within its cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.states import decide, random_state

from fedrt.control.allocation.shares import allocate_evenly
from fedrt.cost.round import price
from fedrt.decision import plan_round, read_state
from fedrt.errors import InputError
from fedrt.policies import POLICIES
from fedrt.policies.mll_sgd import steps_by_speed

pytestmark = pytest.mark.numerical


def two_speeds(steps, cpu_hz):
    """An observation whose devices, all in one cluster, run at the given frequencies."""
    size = len(cpu_hz)
    state = random_state(0, edges=1, devices=size, backhaul=False)
    seen = replace(read_state(state).seen, local_steps=steps)
    return steps_by_speed(seen, np.array(cpu_hz, dtype=float)).tolist()


def test_steps_follow_speed_within_the_cluster():
    # Mean 2e9: 10 * 1/2 = 5, 10 * 3/2 = 15.
    assert two_speeds(10, [1e9, 3e9]) == [5, 15]


def test_steps_round_half_up():
    # Mean 1e9: 9.5 -> 10 and 10.5 -> 11 (to even would be 10 and 10).
    assert two_speeds(10, [0.95e9, 1.05e9]) == [10, 11]
    # Mean 1e9: 8.5 -> 9 and 11.5 -> 12.
    assert two_speeds(10, [0.85e9, 1.15e9]) == [9, 12]


def test_every_device_takes_at_least_one_step():
    # Mean 5e8: 1 * 1/5 = 0.2 -> 0, but 1 is the least; 1 * 9/5 = 1.8 -> 2.
    assert two_speeds(1, [1e8, 9e8]) == [1, 2]


def test_mll_sgd_fits_charges_and_plans_its_steps():
    plan, checked = decide(random_state(3, budget=0.8), "mll-sgd")
    seen, allowed = checked.seen, checked.books.allowance
    first = allocate_evenly(seen, allowed).cpu_hz
    mean_hz = first.reshape(5, 4).mean(axis=1).repeat(4)
    expected = np.maximum(1, np.floor(10 * first / mean_hz + 0.5))
    np.testing.assert_array_equal(plan.local_steps, expected)
    assert len(set(plan.local_steps.tolist())) > 1
    # W_n = S_n / S of the given cycles, and the frequency that fits it: a f^2 = E - upload.
    cycles = seen.cycles * expected / 10
    cost = price(plan, seen)
    np.testing.assert_allclose(cost.compute_s, cycles / plan.cpu_hz, rtol=1e-14)
    fitted = np.sqrt((allowed - cost.upload_j) / (seen.capacitance / 2 * cycles))
    np.testing.assert_allclose(plan.cpu_hz, np.clip(fitted, 1e9, 3e9), rtol=1e-12)
    assert np.any(plan.cpu_hz != first)


def test_mll_sgd_needs_to_know_the_steps():
    state = random_state(0)
    del state["local_steps"]
    with pytest.raises(InputError, match="local_steps"):
        plan_round(state, "mll-sgd")
    assert plan_round(state, "fedrt")["edges"][0]["devices"][0]["local_steps"] is None


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"mll-sgd"}))
def test_other_policies_take_all_steps(name):
    plan, _ = decide(random_state(0), name)
    assert set(plan.local_steps.tolist()) == {10}
