"""Plans that the environment replays take what `fedrt estimate` says, for every shipped policy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

pytest.importorskip("gymnasium")

from fedrt.environment import HFELEnv
from fedrt.errors import InputError
from fedrt.policies import SHIPPED, make_policy
from fedrt.runs.loop import make_world, simulate_rounds
from fedrt.scenario import load_scenario

pytestmark = pytest.mark.numerical

FEW = "rounds.global_rounds=4"
WORLDS = {
    "as it is": (FEW,),
    "faults, four servers": (
        *("rounds.global_rounds=3", "rounds.edge_rounds=3", "fleet.num_edges=4"),
        *("fleet.cluster_sizes=uneven", "learning.participation=0.6"),
        "faults.silent={kind='random', probability=0.2}",
        "faults.straggler={kind='random', probability=0.4}",
        "faults.link_down={kind='random', probability=0.3}",
        "faults.deadline_factor=3",
    ),
    "other laws": (
        *(FEW, "base_graph.kind=ring", "bandwidth.block_hz=5e3", "downlink.tx_power_w=1"),
        *("overheads.round_trip_s=0.02", "overheads.header_factor=1.1", "learning.gossip=int8"),
        "control.contraction_limit=0.3",
    ),
    "one edge round": ("rounds.global_rounds=6", "rounds.edge_rounds=1"),
    "one server": (FEW, "rounds.edge_rounds=1", "fleet.num_edges=1", "fleet.num_devices=6"),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("policy", SHIPPED)
def test_replayed_plans_take_what_a_run_takes(policy, world):
    scenario = load_scenario("quickstart", WORLDS[world])
    *_, last = simulate_rounds(make_world(scenario, 4), make_policy(policy))
    env, replayed = HFELEnv("quickstart", WORLDS[world]), make_policy(policy)
    env.reset(seed=4)
    total, ended = 0.0, False
    while not ended:
        _, reward, ended, _, info = env.carry_out(env.plan_of(replayed))
        total += reward
    assert info["time_s"] == pytest.approx(last.ends_at_s, rel=1e-12)
    assert_allclose(env.episode.ledger.spent_j, last.last.after.spent_j, rtol=1e-12)
    assert total == pytest.approx(-info["time_s"] - info["overspent_j"], rel=1e-9)


def test_what_a_policy_needs_of_all_rounds_is_refused_in_the_middle_of_a_run():
    env = HFELEnv("quickstart", (FEW,))
    env.reset(seed=0)
    env.step(np.zeros(env.action_space.shape))
    with pytest.raises(InputError, match="policy fedrt-plus: needs contraction_limit, reference"):
        env.plan_of(make_policy("fedrt-plus"))
    env.carry_out(env.plan_of(make_policy("oort")))
    env.reset(seed=0)
    assert env.plan_of(make_policy("fedrt-plus")).gossip is None
