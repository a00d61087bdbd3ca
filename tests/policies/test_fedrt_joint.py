"""The policy `fedrt-joint`: what it chooses, when it does not, and by what it decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.tiny import tiny

from fedrt.control.pacing.energy_prices import Spending
from fedrt.control.pacing.expected_finish import FEWEST
from fedrt.control.pacing.slowness import Slowness
from fedrt.cost.outcome import Deadline
from fedrt.policies import fedrt_joint, make_policy
from fedrt.policies.fedrt_joint import FedRTJoint
from fedrt.policies.fedrt_plus import out_of_reach
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

MANY = ("fleet.num_devices=30", "fleet.cluster_sizes=even", "fleet.cycles_per_sample=1e7")
"""Ten devices on each of three servers, which send longer than they compute."""


def turns_of(scenario, policy) -> list:
    return [
        turn
        for done in simulate_rounds(SimulatedWorld(scenario, 0), policy)
        for turn in done.edge_rounds
    ]


def test_it_keeps_the_limit_and_is_quicker_than_one_codec_for_all():
    scenario = tiny("rounds.global_rounds=12", *MANY)
    turns = turns_of(scenario, make_policy("fedrt-joint"))
    for turn in turns:
        menu = turn.seen.menu
        assert menu.distortion[turn.plan.codec].mean() <= menu.limit * (1 + 1e-9)
    ours = turns[-1].after
    one = turns_of(scenario, FedRTJoint(bits="one"))[-1].after
    plain = turns_of(scenario, make_policy("fedrt"))[-1].after
    assert ours.time_s < 0.99 * one.time_s
    assert ours.overspent_j.sum() <= plain.overspent_j.sum() + 1e-6


def test_nothing_is_chosen_upon_a_guess_of_most_of_a_round():
    """Of three edge rounds the first has two after it, of which nothing has been seen at first."""
    scenario = tiny(f"rounds.global_rounds={FEWEST + 6}", "rounds.edge_rounds=3")
    turns = turns_of(scenario, make_policy("fedrt-joint"))
    chosen = np.array([(turn.plan.codec != turn.seen.menu.uniform).any() for turn in turns])
    chosen = chosen.reshape(-1, 3)
    assert not chosen[:FEWEST, 0].any()
    assert chosen[:FEWEST, 1:].any(axis=0).all()
    assert chosen[FEWEST:, 0].any()


def test_stragglers_that_are_never_slow_change_no_worth(monkeypatch):
    """What follows an edge round counts in the same way, in first and in last edge rounds."""
    asked = []
    worth_s = fedrt_joint._worth_s

    def remembering(*given):
        asked.append(given)
        return worth_s(*given)

    monkeypatch.setattr(fedrt_joint, "_worth_s", remembering)
    turns_of(tiny(f"rounds.global_rounds={FEWEST + 2}"), make_policy("fedrt-joint"))
    assert len(asked) == 2 * 2 * (FEWEST + 2)
    for plan, seen, books, later_s, reference, now in asked:
        never = Slowness(np.zeros(seen.num_devices), 2.0, Deadline(None, 10.0))
        slow = replace(reference, slowness=never)
        plain = worth_s(plan, seen, books, later_s, reference, now)
        assert worth_s(plan, seen, books, later_s, slow, now) == pytest.approx(plain, rel=1e-12)


def test_clusters_that_fedrt_cannot_keep_send_with_one_codec_if_there_are_stragglers(monkeypatch):
    """They get its bandwidths and frequencies, with which more bits would cost more energy."""
    budgets = [0.05] * 10 + [10.0] * 20
    settings = (
        *MANY,
        "rounds.global_rounds=6",
        f"fleet.energy_j_per_edge_round={budgets}",
        'faults.straggler={kind="random",probability=0.3}',
        "faults.straggler_speed=0.5",
    )
    held = []
    draft = FedRTJoint._draft

    def remembering(self, seen, books, pace, reference, now: Spending, memory):
        found = draft(self, seen, books, pace, reference, now, memory)
        beyond = out_of_reach(seen, reference)[seen.edge_of_device]
        held.append((beyond, found.plan.codec == seen.menu.uniform, reference.slowness))
        return found

    monkeypatch.setattr(FedRTJoint, "_draft", remembering)
    turns_of(tiny(*settings), make_policy("fedrt-joint"))
    assert all(slowness is not None for _, _, slowness in held)
    assert all(beyond[:10].all() and not beyond[10:].any() for beyond, _, _ in held)
    assert all(same[beyond].all() for beyond, same, _ in held)
