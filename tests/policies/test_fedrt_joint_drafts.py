"""The two drafts of `fedrt-joint` within a run, and how links and codecs of them go together."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from support.tiny import tiny

from fedrt.control.coding.choice import Coding
from fedrt.control.mixing.fastest import MOST_EXACT
from fedrt.policies import make_policy
from fedrt.policies.fedrt_joint import FedRTJoint
from fedrt.policies.fedrt_plus import FedRTPlus
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld


def drafts_of(monkeypatch, edges: int) -> list[list[object]]:
    """For each last edge round of a run, the gossip that each of its drafts has to take."""
    settled: list[list[object]] = []
    draft, plan = FedRTPlus._draft, FedRTJoint.plan

    def remembering(self, seen, *given):
        if seen.backhaul is not None:
            settled[-1].append(self.settled)
        return draft(self, seen, *given)

    def planned(self, seen, books, *memory):
        settled.append([])
        try:
            return plan(self, seen, books, *memory)
        finally:
            assert self.settled is None

    monkeypatch.setattr(FedRTPlus, "_draft", remembering)
    monkeypatch.setattr(FedRTJoint, "plan", planned)
    fleet = (
        f"fleet.num_edges={edges}",
        f"fleet.num_devices={2 * edges}",
        "fleet.cluster_sizes=even",
        "rounds={global_rounds=3,edge_rounds=1,local_steps=10,gossip_steps=3}",
        "base_graph={kind='ring'}",
    )
    for _ in simulate_rounds(SimulatedWorld(tiny(*fleet), 0), make_policy("fedrt-joint")):
        pass
    return settled


def test_among_few_servers_links_are_chosen_for_each_draft(monkeypatch):
    assert drafts_of(monkeypatch, 4) == [[None, None]] * 3


def test_among_many_servers_the_second_draft_takes_the_gossip_of_the_first(monkeypatch):
    """And the next edge round's first draft does not."""
    rounds = drafts_of(monkeypatch, MOST_EXACT + 1)
    assert len(rounds) == 3
    for first, second in rounds:
        assert first is None
        assert second is not None


@pytest.mark.parametrize("ends_s", [(5.0, 4.0), (4.0, 5.0)])
def test_of_codecs_for_two_choices_of_links_those_that_end_earlier_are_taken(ends_s, monkeypatch):
    """Links for clusters that end as they do, and for clusters that end together."""
    world = SimulatedWorld(tiny("rounds.edge_rounds=1"), 0)
    turn = next(iter(simulate_rounds(world, make_policy("fedrt-joint")))).last
    answers = [(np.full(7, place), end_s) for place, end_s in enumerate(ends_s)]
    offsets_s = []

    def earliest(self, offset_s):
        offsets_s.append(offset_s)
        return answers[len(offsets_s) - 1]

    monkeypatch.setattr(Coding, "earliest", earliest)
    policy = make_policy("fedrt-joint")
    coding = Coding(turn.seen, np.full(7, np.inf))
    one = SimpleNamespace(plan=turn.plan, nominal_s=None)
    books = SimpleNamespace(elapsed_s=np.zeros(3))
    codec = policy._codecs(coding, one, books, np.zeros((1, 3)), None)
    assert len(offsets_s) == 2
    assert codec.tolist() == [int(np.argmin(ends_s))] * 7
