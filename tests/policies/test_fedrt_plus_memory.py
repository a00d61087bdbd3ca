"""What fedrt-plus remembers of a run: what came after each edge round, and the limit of mixing."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.tiny import tiny

from fedrt.control.mixing.gossip import RatedGossip
from fedrt.control.pacing import expected_finish as foresight
from fedrt.control.pacing.energy_prices import Prices
from fedrt.control.pacing.expected_finish import FEWEST
from fedrt.control.topology.consensus import see_backhaul
from fedrt.cost.backhaul import link_time_s
from fedrt.plan import Gossip
from fedrt.policies.fedrt_plus import FedRTPlus, Memory, _keeps_limits
from fedrt.runs.loop import make_world, simulate_rounds

# Long enough for rounds of the run itself to take the place of the first guess.
LONG = f"rounds.global_rounds={FEWEST + 3}"


@pytest.mark.parametrize("edge_rounds", [1, 3, 4])
def test_what_came_after_each_edge_round_is_added_up_from_the_end(edge_rounds):
    """After the last: mixing. Before that: one edge round and mixing, two and mixing, and so on."""
    policy = FedRTPlus()
    world = make_world(tiny(LONG, f"rounds.edge_rounds={edge_rounds}"), 0)
    for t, done in enumerate(simulate_rounds(world, policy)):
        memory, last = done.state.memory, done.last
        assert len(memory.later_s) == t + 1
        assert len(memory.nominal_s) == edge_rounds
        step_s = link_time_s(last.seen.model_bits, 1, last.seen.backhaul.bps)
        kept_s = np.where(last.plan.gossip.links, last.plan.gossip.steps * step_s, 0.0).max(axis=1)
        for r in range(edge_rounds):
            by_hand = kept_s + sum(memory.nominal_s[r + 1 :])
            np.testing.assert_allclose(memory.later_s[-1][r], by_hand, rtol=1e-12)
        # Edge rounds differ: their order matters.
        if edge_rounds > 1:
            assert np.ptp(memory.nominal_s, axis=0).min() > 0


def test_the_time_so_far_counts_when_the_last_cluster_is_foreseen(monkeypatch):
    """An edge round's first guess: elapsed, the clusters' own times, and what is still to come."""
    ends_s: list[np.ndarray] = []
    true = foresight.soft_share_last

    def spy(end_s: np.ndarray, width_s: float) -> np.ndarray:
        ends_s.append(end_s)
        return true(end_s, width_s)

    monkeypatch.setattr(foresight, "soft_share_last", spy)
    policy, plans = FedRTPlus(), []
    plan = FedRTPlus.plan

    def planned(self, seen, books, memory):
        ends_s.clear()
        found = plan(self, seen, books, memory)
        plans.append((np.array(books.elapsed_s), [end_s.copy() for end_s in ends_s[:1]]))
        return found

    monkeypatch.setattr(FedRTPlus, "plan", planned)
    for done in simulate_rounds(make_world(tiny("rounds.edge_rounds=3"), 0), policy):
        assert len(plans) == 3
        for r, (elapsed_s, first) in enumerate(plans):
            before = done.edge_rounds[r - 1].after.elapsed_s if r else np.zeros(3)
            np.testing.assert_array_equal(elapsed_s, before)
            assert len(first) == (r < 2)
            if first:
                nominal_s = done.state.memory.nominal_s[r]
                by_hand = before + nominal_s + (2 - r) * nominal_s.mean()
                np.testing.assert_allclose(first[0], by_hand[None], rtol=1e-12)
        plans.clear()


def test_samples_of_what_may_come_are_those_of_the_same_edge_round():
    memory = Memory(Prices.unknown(2))
    nominal_s = np.array([4.0, 8.0])
    for r, to_come in ((0, 2), (1, 1), (2, 0)):
        # Too few rounds yet: every edge round to come takes the mean of the clusters, 6 s.
        pace = SimpleNamespace(r=r, edge_rounds=3)
        np.testing.assert_array_equal(memory.samples_s(pace, nominal_s), [[6.0 * to_come] * 2])
    rows = np.random.default_rng(0).uniform(1, 9, (FEWEST, 3, 2))
    memory = replace(memory, later_s=tuple(rows[:-1]))
    pace = SimpleNamespace(r=1, edge_rounds=3)
    np.testing.assert_array_equal(memory.samples_s(pace, nominal_s), [[6.0, 6.0]])
    memory = replace(memory, later_s=tuple(rows))
    for r in range(3):
        pace = SimpleNamespace(r=r, edge_rounds=3)
        np.testing.assert_array_equal(memory.samples_s(pace, nominal_s), rows[:, r])


def test_a_plan_that_mixes_worse_than_the_limit_says_so():
    """0.5^2 = 0.25 keeps a limit of 0.25 and 0.26, and breaks one of 0.24."""
    world = make_world(tiny(), 0)
    backhaul = see_backhaul(world.scenario, world.backhaul_bps(0), world.stand_in_distance(0))
    everyone = ~np.eye(3, dtype=bool)
    gossip = Gossip(everyone, 2, np.full((3, 3), 1 / 3))

    def keeps(rho: float | None, gossip: Gossip = gossip) -> bool:
        seen = replace(world.observe(0, 1), backhaul=replace(backhaul, contraction_limit=rho))
        return _keeps_limits(seen, RatedGossip(gossip, 0.5))

    assert [keeps(rho) for rho in (0.24, 0.25, 0.26)] == [False, True, True]
    # Nothing is asked without a limit, and nothing is known under the scenario's rule.
    assert keeps(None)
    assert keeps(0.24, replace(gossip, weights=None))
    # The consensus limit counts as well: without links nothing bridges a distance.
    assert not keeps(0.26, replace(gossip, links=np.zeros((3, 3), dtype=bool)))


def test_a_run_whose_budgets_just_last_at_the_lowest_frequency_keeps_them():
    """Uploads take no energy: 3.0144e10 cycles at 2 GHz and 1e-29 F take 0.60288 J a round.

    After every edge round there is just enough for those that are still to come.
    """
    need_j = 1e-29 * 94.2e6 * 32 * 10 / 2 * 2e9**2
    settings = (
        "fleet.capacitance=1e-29",
        "fleet.tx_power_w=0",
        f"fleet.energy_j_per_edge_round={need_j * (1 + 1e-7)!r}",
    )
    world = make_world(tiny(*settings), 0)
    for done in simulate_rounds(world, FedRTPlus()):
        for turn in done.edge_rounds:
            assert turn.plan.status == "feasible"
            np.testing.assert_allclose(turn.plan.cpu_hz, 2e9, rtol=1e-3)
    assert done.last.after.overspent_j.sum() == 0
