"""The books of a run in which devices are drawn: what each may spend, and who is charged."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.tiny import tiny

from fedrt.errors import InfeasibleError
from fedrt.policies import make_policy
from fedrt.runs.loop import simulate_rounds
from fedrt.runs.state import open_ledger
from fedrt.world.simulated import SimulatedWorld

HALF = "learning.participation=0.5"
# Half of 2, 3 and 2 devices, rounded half up: 1, 2 and 1.
SHARE = np.array([1 / 2, 1 / 2, 2 / 3, 2 / 3, 2 / 3, 1 / 2, 1 / 2])


def test_the_books_open_with_every_devices_share_of_the_rounds():
    books = open_ledger(SimulatedWorld(tiny(HALF), 0))
    assert_allclose(books.participation, SHARE)
    # T R = 8 edge rounds with 1 J each; who is drawn for half of them may spend more in each.
    assert_array_equal(books.budget_j, 8.0)
    assert_allclose(books.rounds_left("exact"), 1 + 7 * SHARE)
    assert (books.global_rounds, books.edge_rounds, len(books.elapsed_s)) == (4, 2, 3)
    assert books.forced_horizon is None
    exact = SimulatedWorld(tiny("control.energy_horizon=exact"), 0)
    assert open_ledger(exact).forced_horizon == "exact"


@pytest.mark.parametrize(("policy", "more"), [("ce-fedavg", 2), ("fedrt-plus", 0)])
def test_an_allowance_is_a_part_of_what_is_left_for_those_that_are_drawn(policy, more):
    """The paper counts R = 2 edge rounds more than there are, fedrt-plus none."""
    world = SimulatedWorld(tiny(HALF), 0)
    spent_j, done_rounds = np.zeros(7), 0
    for done in simulate_rounds(world, make_policy(policy)):
        for turn in done.edge_rounds:
            left = 1 + (8 + more - done_rounds - 1) * SHARE
            by_hand = (8 - spent_j) / left
            assert_array_equal(turn.seen.device, world.taking_part(turn.t, turn.r))
            assert_allclose(turn.allowance_j, by_hand[turn.seen.device], rtol=1e-12)
            spent_j[turn.seen.device] += turn.cost.energy_j
            assert_allclose(turn.after.spent_j, spent_j, rtol=1e-12)
            done_rounds += 1


def test_strict_counts_only_the_rounds_that_a_device_is_drawn_for():
    """Computing at f_min in 4 of 8 edge rounds fits in a budget that 8 would break."""
    world = SimulatedWorld(tiny(), 0)
    once_j = world.fleet.capacitance / 2 * 3.0144e10 * 4e18
    strict = 'control={budgets="strict"}'
    whole, half = (
        f"fleet.energy_budget_j={(share * once_j * 8).tolist()}" for share in (0.99, SHARE * 0.99)
    )
    for settings in ((strict, whole), (strict, half, HALF)):
        with pytest.raises(InfeasibleError) as caught:
            list(simulate_rounds(SimulatedWorld(tiny(*settings), 0), make_policy("fedrt")))
        assert len(caught.value.lines) == 7
    # A little more than that, and it is no longer hopeless at the start.
    enough = f"fleet.energy_budget_j={(SHARE * once_j * 8 * 1.01).tolist()}"
    with pytest.raises(InfeasibleError, match="global round 0, edge round 0"):
        list(simulate_rounds(SimulatedWorld(tiny(strict, enough, HALF), 0), make_policy("fedrt")))
