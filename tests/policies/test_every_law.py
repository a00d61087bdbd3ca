"""Every policy under every law: its plans can be carried out and are charged by the laws."""

from __future__ import annotations

import pytest
from numpy.testing import assert_allclose
from support.failing import EVERYTHING
from support.laws import EVERY_LAW, SETTINGS, obvious_cost
from support.tiny import tiny

from fedrt.policies import SHIPPED, make_policy
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical


def edge_rounds(policy, *settings):
    world = SimulatedWorld(tiny("rounds.global_rounds=2", *settings), 0)
    return [
        turn for done in simulate_rounds(world, make_policy(policy)) for turn in done.edge_rounds
    ]


@pytest.mark.parametrize("policy", SHIPPED)
def test_plans_are_charged_as_one_device_after_the_other(policy):
    for turn in edge_rounds(policy, *EVERY_LAW):
        for name, values in obvious_cost(turn.plan, turn.seen).items():
            assert_allclose(getattr(turn.cost, name), values, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("policy", SHIPPED)
def test_plans_can_be_carried_out_where_things_fail(policy):
    assert len(edge_rounds(policy, *EVERYTHING, *EVERY_LAW)) == 4


@pytest.mark.parametrize("law", SETTINGS)
@pytest.mark.parametrize("policy", ["fedrt", "fedrt-plus", "fedrt-joint"])
def test_each_law_by_itself(policy, law):
    for turn in edge_rounds(policy, *SETTINGS[law], "fleet.energy_j_per_edge_round=40"):
        assert turn.plan.status != "best-effort"
        for name, values in obvious_cost(turn.plan, turn.seen).items():
            assert_allclose(getattr(turn.cost, name), values, rtol=1e-9, atol=1e-12, err_msg=name)
