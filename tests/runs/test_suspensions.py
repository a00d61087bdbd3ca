"""Devices whose updates are refused round after round are left out of plans, and come back."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from support.tiny import tiny

from fedrt.rounds import ACCEPTED
from fedrt.runs.suspensions import EDGE_ROUNDS, IN_A_ROW, Suspensions
from fedrt.world.simulated import SimulatedWorld


def test_who_is_left_out_and_for_how_long():
    world = SimulatedWorld(tiny(), 0)
    state, edge_rounds = Suspensions.first(world), world.scenario.rounds.edge_rounds
    trained, count = [], world.fleet.num_devices
    for step in range(IN_A_ROW + 3 * EDGE_ROUNDS + 4):
        t, r = divmod(step, edge_rounds)
        seen = state.seen(world.observe(t, r))
        there = bool((seen.device == 1).any())
        trained.append(there)
        refused = np.where(seen.device == 1, 2, ACCEPTED)
        outcome = SimpleNamespace(
            device=seen.device,
            delivered=np.ones(seen.num_devices, dtype=bool),
            refused=refused,
            is_refused=refused != ACCEPTED,
        )
        assert seen.num_devices == count - (not there)
        state = state.after(seen, outcome)
    absent = [False] * EDGE_ROUNDS
    wanted = [True] * IN_A_ROW + absent + [True] + 2 * absent + [True]
    assert trained[: len(wanted)] == wanted


def test_an_accepted_update_begins_the_count_anew_and_somebody_always_trains():
    world = SimulatedWorld(tiny(), 0)
    state, seen = Suspensions.first(world), world.observe(0, 0)
    everyone = np.ones(seen.num_devices, dtype=bool)

    def after(state, bad):
        refused = np.where(bad, 2, ACCEPTED)
        outcome = SimpleNamespace(
            device=seen.device, delivered=everyone, refused=refused, is_refused=bad
        )
        return state.after(seen, outcome)

    for _ in range(2 * IN_A_ROW):
        state = after(after(state, everyone), ~everyone)
    assert not state.until.any()
    for _ in range(IN_A_ROW):
        state = after(state, everyone)
    assert state.until.all()
    assert state.seen(seen) is seen
