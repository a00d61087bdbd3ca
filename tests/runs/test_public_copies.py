"""Who holds whose public copy: by hand, and as the loop charges it on the links."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.tiny import tiny

from fedrt.messages import message_bytes
from fedrt.plan import Gossip
from fedrt.policies import make_policy
from fedrt.policies.ce_fedavg import CEFedAvg
from fedrt.runs.executor import SimulatedExecutor
from fedrt.runs.loop import run_rounds, simulate_rounds
from fedrt.runs.public_copies import PublicCopies
from fedrt.world.simulated import SimulatedWorld

PATH = np.array([[False, True, False], [True, False, True], [False, True, False]])
STAR = np.array([[False, True, True], [True, False, False], [True, False, False]])
FIVE = ("fleet.num_edges=5", "fleet.num_devices=10", "fleet.cluster_sizes=even")
MANY = (*FIVE, "rounds.global_rounds=12", "control.kappa=0.8")


def seen_of(*settings):
    return SimulatedWorld(tiny(*settings), 0).observe(0, 0)


def test_what_is_missed_by_hand():
    # 8e6 bits are 250,000 numbers: a message of int4 has 16 + 2 * 977 + 125,000 = 126,970 bytes.
    seen, message = seen_of("learning.gossip=int4", "learning.model_buffers=1000"), 8 * 126_970
    assert seen.gossip_bits == message + 32_000
    first = PublicCopies.first(3)
    assert_array_equal(first.behind_bits, np.zeros((3, 3)))
    once = first.after(Gossip(PATH, 3), seen)
    # 0 and 2 miss three messages of each other; their buffers would be of no use any more.
    assert_array_equal(once.behind_bits, 3 * message * np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]]))
    twice = once.after(Gossip(PATH, 2), seen)
    assert twice.behind_bits[0, 2] == 5 * message
    # The copy itself, 16 + 4 * 250,000 bytes, is shorter than eight messages.
    assert once.after(Gossip(PATH, 5), seen).behind_bits[0, 2] == 8 * 1_000_016
    # Linked again, 0 and 2 are up to date, and 1 and 2 miss what went over 0.
    star = twice.after(Gossip(STAR, 1), seen)
    assert_array_equal(star.behind_bits, message * np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0]]))


def test_models_sent_as_they_are_change_no_copy():
    once = PublicCopies.first(3).after(Gossip(PATH, 3), seen_of("learning.gossip=int8"))
    assert once.after(Gossip(STAR, 9), seen_of()) is once


@dataclass
class Hops:
    """A policy with links of its own: those of the ring in even rounds, the others in odd ones."""

    name: str = "hops"
    energy_horizon: str = "exact"
    codec: str | None = None

    def plan(self, seen, books):
        plan = CEFedAvg().plan(seen, books)
        if plan.gossip is None:
            return plan
        ring = np.roll(np.eye(5, dtype=bool), 1, axis=1)
        ring |= ring.T
        links = ring if seen.t % 2 == 0 else ~ring & ~np.eye(5, dtype=bool)
        return replace(plan, gossip=Gossip(links, 4, codec=self.codec))


@pytest.mark.parametrize("setting", ["learning.gossip=int4", "learning.gossip=float32"])
def test_a_link_that_was_not_used_pays_for_what_it_missed(setting):
    world = SimulatedWorld(tiny(*MANY, setting), 0)
    bits = 8 * message_bytes(setting.partition("=")[2], 250_000)
    copy = 8 * message_bytes("float32", 250_000)
    for done in simulate_rounds(world, Hops()):
        last, bps = done.last, done.last.backhaul.bps
        behind = 0 if done.last.t == 0 else min(4 * bits, copy)
        assert_array_equal(last.backhaul.behind_bits[last.gossip.links], behind)
        by_hand = np.where(last.gossip.links, (4 * bits + behind) / np.where(bps > 0, bps, 1), 0)
        assert_allclose(last.cost.backhaul_s, by_hand.max(axis=1), rtol=1e-12)


def test_a_plan_may_choose_the_codec_of_its_gossip():
    own = list(simulate_rounds(SimulatedWorld(tiny(*MANY), 0), Hops(codec="int4")))
    as_set = list(simulate_rounds(SimulatedWorld(tiny(*MANY, "learning.gossip=int4"), 0), Hops()))
    for one, other in zip(own, as_set, strict=True):
        assert_array_equal(one.last.cost.backhaul_s, other.last.cost.backhaul_s)
        assert_array_equal(one.copies.behind_bits, other.copies.behind_bits)
    assert own[-1].copies.behind_bits.any()


@pytest.mark.parametrize("policy", ["fedrt", "fedrt-plus", "static-t"])
def test_without_a_codec_nobody_is_ever_behind(policy):
    for done in simulate_rounds(SimulatedWorld(tiny(*MANY), 0), make_policy(policy)):
        assert not done.copies.behind_bits.any()
        assert not done.last.backhaul.behind_bits.any()
        assert done.last.seen.gossip_bits == done.last.seen.model_bits


@pytest.mark.parametrize("down", [(), ("faults.link_down={kind='random',probability=0.3}",)])
@pytest.mark.parametrize("policy", ["fedrt", "fedrt-plus", "static-r"])
def test_the_loop_keeps_count_as_the_links_say(policy, down):
    """Every server's copies counted message by message, as two ends of a link would."""
    world = SimulatedWorld(tiny(*MANY, *down, "learning.gossip=int8"), 3)
    missed = np.zeros((5, 5))
    message = 8 * message_bytes("int8", 250_000)
    for done in simulate_rounds(world, make_policy(policy)):
        copy = 8 * message_bytes("float32", 250_000)
        assert_array_equal(done.last.backhaul.behind_bits, np.minimum(missed * message, copy))
        for c in range(5):
            for j in range(5):
                linked = done.last.gossip.links[c, j] or c == j
                missed[c, j] = 0 if linked else missed[c, j] + done.last.gossip.steps
    assert missed.any()


def test_fedrt_beside_a_policy_pays_for_its_own_links_alone():
    """What is told of FedRT is FedRT by itself, whatever links the policy beside it uses."""
    world = SimulatedWorld(tiny(*MANY, "learning.gossip=int8", "control.contraction_limit=1"), 1)
    told = []

    class Asks(Hops):
        uses_reference = True

        def plan(self, seen, books):
            told.append(books.reference)
            return super().plan(seen, books)

    asked = list(simulate_rounds(world, Asks()))
    alone = list(simulate_rounds(world, make_policy("fedrt")))
    ends_s = [each.end_s for each in told if np.isfinite(each.end_s)]
    assert_allclose(ends_s, [done.time_s for done in alone], rtol=1e-12)
    assert any(done.last.backhaul.behind_bits.any() for done in alone)
    assert any(
        (one.last.backhaul.behind_bits != other.last.backhaul.behind_bits).any()
        for one, other in zip(asked, alone, strict=True)
    )


@pytest.mark.parametrize("policy", ["fedrt", "fedrt-plus"])
def test_a_run_that_goes_on_from_its_records_is_the_same(policy):
    world = SimulatedWorld(tiny(*MANY, "learning.gossip=int8"), 2)
    whole = list(simulate_rounds(world, make_policy(policy)))
    past = [done.edge_rounds for done in whole[:7]]
    again = run_rounds(world, make_policy(policy), SimulatedExecutor(world), past=past)
    for one, other in zip(whole, again, strict=True):
        assert one.ends_at_s == other.ends_at_s
        assert_array_equal(one.copies.behind_bits, other.copies.behind_bits)
        assert_array_equal(one.last.gossip.links, other.last.gossip.links)
