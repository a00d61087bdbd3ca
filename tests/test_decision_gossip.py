"""Coded gossip in the JSON contract of one decision: its messages and its codec."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
from support.paths import EXAMPLES
from support.states import random_state

from fedrt.decision import plan_round
from fedrt.errors import InputError
from fedrt.policies import POLICIES, make_policy

EXAMPLE = json.loads((EXAMPLES / "round.json").read_text())


def changed(**at_top):
    return copy.deepcopy(EXAMPLE) | at_top


class Coded:
    """A policy of its own, which chooses the codec of the gossip."""

    name, energy_horizon = "mine", "paper"

    def __init__(self, codec=None):
        self.codec = codec

    def plan(self, seen, books):
        plan = make_policy("fedrt").plan(seen, books)
        return replace(plan, gossip=replace(plan.gossip, codec=self.codec))


@pytest.mark.parametrize("policy", POLICIES)
def test_coded_gossip_takes_its_messages(policy):
    """Two megabit a step: seconds as the answer's own links say."""
    state = changed(gossip_bits=2e6, schema_version=2)
    answer = plan_round(state, policy)
    gossip, bps = answer["gossip"], EXAMPLE["backhaul_bps"]
    took = [0.0] * 4
    for c, c2 in gossip["links"]:
        link_s = gossip["steps"] * 2e6 / bps[c][c2]
        took[c], took[c2] = max(took[c], link_s), max(took[c2], link_s)
    assert [edge["backhaul_s"] for edge in answer["edges"]] == pytest.approx(took, rel=1e-12)
    assert "codec" not in gossip


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("policy", POLICIES)
def test_messages_of_an_eighth_are_links_eight_times_as_fast(policy, seed):
    """Nothing but the seconds of links tells a policy how long messages are: the plan is equal."""
    state = random_state(seed, edges=5) | {"schema_version": 2, "contraction_limit": 0.2}
    short = state | {"gossip_bits": state["model_bits"] / 8}
    fast = [[8 * bps for bps in row] for row in state["backhaul_bps"]]
    answers = [plan_round(each, policy) for each in (short, state | {"backhaul_bps": fast})]
    assert answers[0] == answers[1]
    if policy in ("fedrt", "static-r", "fedrt-plus"):
        assert answers[0]["round_time_s"] < plan_round(state, policy)["round_time_s"]


def test_a_codec_of_the_gossip_is_answered_in_version_2():
    coded = Coded("int4")
    answer = plan_round(changed(schema_version=2), coded)
    assert answer["gossip"]["codec"] == "int4"
    plain = plan_round(changed(schema_version=2), Coded())
    slower = zip(answer["edges"], plain["edges"], strict=True)
    assert all(one["backhaul_s"] < other["backhaul_s"] for one, other in slower)
    with pytest.raises(InputError, match="policy mine chooses the codec of the gossip, which"):
        plan_round(EXAMPLE, coded)
    with pytest.raises(InputError, match=r'gossip.codec = "int1": must be None or one of none, '):
        plan_round(changed(schema_version=2), Coded("int1"))
