"""Coded gossip in the JSON contract of one decision: its messages, what was missed, its codec."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
from support.paths import EXAMPLES

from fedrt.decision import plan_round, read_state
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
def test_coded_gossip_takes_its_messages_and_what_was_missed(policy):
    """Two megabit a step, on one link after five more: seconds as the answer's own links say."""
    behind = np.zeros((4, 4))
    behind[0, 1] = behind[1, 0] = 5e6
    state = changed(gossip_bits=2e6, behind_bits=behind.tolist(), schema_version=2)
    answer = plan_round(state, policy)
    gossip, bps = answer["gossip"], EXAMPLE["backhaul_bps"]
    took = [0.0] * 4
    for c, c2 in gossip["links"]:
        link_s = (gossip["steps"] * 2e6 + behind[c, c2]) / bps[c][c2]
        took[c], took[c2] = max(took[c], link_s), max(took[c2], link_s)
    assert [edge["backhaul_s"] for edge in answer["edges"]] == pytest.approx(took, rel=1e-12)
    assert "codec" not in gossip
    # Without messages of their own servers send whole models, and no copies are needed.
    plain = plan_round(changed(behind_bits=behind.tolist()), policy)
    assert plain == plan_round(EXAMPLE, policy)


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


def test_what_is_behind_goes_with_the_backhaul():
    state = changed(behind_bits=np.zeros((4, 4)).tolist())
    for name in ("backhaul_bps", "consensus_distance", "consensus_limit"):
        del state[name]
    with pytest.raises(InputError) as caught:
        read_state(state)
    assert caught.value.lines == ["state.behind_bits: goes with backhaul_bps, which is missing"]
