"""Plans of policies under other laws: what they carry, and what they call themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.tiny import tiny

from fedrt.control.allocation.allocate import allocate
from fedrt.control.allocation.shares import allocate_evenly
from fedrt.cost.round import price
from fedrt.ledger import GivenAllowance
from fedrt.plan import plan_problems
from fedrt.policies.fedrt import FedRT
from fedrt.policies.fedrt_plus import FedRTPlus
from fedrt.policies.static_r import StaticR
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

NOISE = ("channel.law=noise-density", "channel.reference_hz=3e5", "fleet.tx_power_w=0.3")
LAWS = {
    "noise": (NOISE, "optimal"),
    "power control": ((*NOISE, "channel.power_control=true"), "optimal"),
    "blocks": (("bandwidth.block_hz=15e3",), "optimal"),
    "idle": (("fleet.idle_power_w=0.002",), "optimal"),
    "idle in blocks": (("fleet.idle_power_w=0.002", "bandwidth.block_hz=15e3"), "feasible"),
}
ALLOWANCE_J = 8.0


def observed(law):
    return SimulatedWorld(tiny(*LAWS[law][0]), 0).observe(0, 0)


@pytest.mark.parametrize("law", LAWS)
def test_a_plan_says_whether_its_time_is_proven(law):
    seen = observed(law)
    books = GivenAllowance(np.full(seen.num_devices, ALLOWANCE_J), np.zeros(seen.num_edges))
    plan = FedRT().plan(seen, books)
    assert plan.status == LAWS[law][1]
    assert not plan_problems(plan, seen)
    assert (price(plan, seen).energy_j <= ALLOWANCE_J * (1 + 1e-9)).all()
    even = StaticR().plan(seen, books)
    assert even.status == "feasible"
    assert not plan_problems(even, seen)
    least_s = price(plan, seen).edge_time_s
    assert (least_s <= price(even, seen).edge_time_s * (1 + 1e-9)).all()


@pytest.mark.parametrize("policy", [FedRT(), FedRTPlus()])
def test_a_plan_carries_lowered_powers(policy):
    seen = observed("power control")
    allowance_j = np.full(seen.num_devices, 6.0)
    found = allocate(seen, allowance_j)
    assert found.tx_power_w is not None
    assert (found.tx_power_w < 0.99 * seen.tx_power_w).any()
    plan = policy.plan(seen, GivenAllowance(allowance_j, np.zeros(seen.num_edges)))
    assert plan.tx_power_w is not None
    assert not plan_problems(plan, seen)
    full = replace(seen, laws=replace(seen.laws, power_control=False))
    least_s = price(plan, seen).edge_time_s
    assert (
        least_s
        <= price(policy.plan(full, GivenAllowance(allowance_j, np.zeros(3))), full).edge_time_s
        * (1 + 1e-9)
    ).all()


def test_clusters_are_exchanged_with_their_powers():
    seen = observed("power control")
    lowered = allocate(seen, np.full(seen.num_devices, 6.0))
    even = allocate_evenly(seen, np.full(seen.num_devices, 6.0))
    taken = np.array([True, False, False])
    mine = taken[seen.edge_of_device]
    mixed = lowered.with_clusters(even, taken, seen)
    np.testing.assert_array_equal(mixed.tx_power_w[mine], seen.tx_power_w[mine])
    np.testing.assert_array_equal(mixed.tx_power_w[~mine], lowered.tx_power_w[~mine])
    back = even.with_clusters(lowered, taken, seen)
    np.testing.assert_array_equal(back.tx_power_w[mine], lowered.tx_power_w[mine])
    np.testing.assert_array_equal(back.tx_power_w[~mine], seen.tx_power_w[~mine])
