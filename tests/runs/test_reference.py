"""FedRT beside another policy: it is FedRT alone, and no more is told of it than was seen."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.tiny import tiny

from fedrt.control.pacing.slowness import SlownessSeen
from fedrt.cost.outcome import Deadline
from fedrt.cost.round import price
from fedrt.policies.base import needs_of
from fedrt.policies.ce_fedavg import CEFedAvg
from fedrt.policies.fedrt import FedRT
from fedrt.policies.fedrt_plus import FedRTPlus
from fedrt.runs.executor import SimulatedExecutor
from fedrt.runs.loop import simulate_rounds
from fedrt.runs.reference import reference_for
from fedrt.runs.state import RunState, open_ledger
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

RING = "base_graph={kind='ring'}"
HALF = "learning.participation=0.5"
SILENT = "faults.silent={kind='random',probability=0.3}"
SLOW = "faults.straggler={kind='random',probability=0.4}"
WORLDS = {
    "nothing fails": (RING,),
    "half take part": (HALF,),
    "some fall silent": (SILENT, "faults.silent_spends=all"),
    "some are slow": (SLOW, SILENT, "faults.deadline_factor=3"),
    "links are down": ("faults.link_down={kind='random',probability=0.5}",),
}


@dataclass
class Asks:
    """A policy that keeps what it is told of FedRT, and does something else."""

    name: str = "asks"
    energy_horizon: str = "exact"
    uses_reference: bool = True
    told: list = field(default_factory=list)

    def plan(self, seen, books):
        self.told.append(books.reference)
        return CEFedAvg().plan(seen, books)


@pytest.fixture(scope="module", params=WORLDS)
def story(request):
    """A world; FedRT alone in it; what a policy is told there, and who tells it."""
    world, asks = SimulatedWorld(tiny(*WORLDS[request.param]), 0), Asks()
    *_, last = simulate_rounds(world, asks)
    return world, list(simulate_rounds(world, FedRT())), asks.told, last.state.reference


def turns_of(world, rounds):
    """Every edge round, with the books before it."""
    before = open_ledger(world)
    for done in rounds:
        for turn in done.edge_rounds:
            yield turn, before
            before = turn.after


def left_by_hand(topology, steps):
    """What Metropolis weights leave of the distances after so many steps, part by part."""
    links = topology.sum(axis=0)
    weights = np.where(topology, 1 / (1 + np.maximum(links[:, None], links[None])), 0.0)
    weights += np.diag(1 - weights.sum(axis=1))
    reached = np.linalg.matrix_power(topology + np.eye(3), 3) > 0
    average = reached / reached.sum(axis=1, keepdims=True)
    return np.linalg.norm(np.linalg.matrix_power(weights, steps) - average, 2)


def test_what_is_told_of_fedrt_is_fedrt_alone(story):
    world, alone, told, _ = story
    assert len(told) == sum(len(done.edge_rounds) for done in alone)
    for beside, (turn, before) in zip(told, turns_of(world, alone), strict=True):
        who, planned = turn.seen.device, price(turn.plan, turn.seen)
        assert_array_equal(beside.spent_j, before.spent_j[who])
        assert_array_equal(beside.bandwidth_hz, turn.plan.bandwidth_hz)
        assert_array_equal(beside.cpu_hz, turn.plan.cpu_hz)
        # As planned: that somebody falls silent or is slow is not known yet.
        assert_array_equal(beside.energy_j, planned.energy_j)
        assert_allclose(beside.elapsed_s, before.elapsed_s + planned.edge_time_s, rtol=1e-15)
        assert beside.time_s == before.time_s
        # The paper counts R = 2 edge rounds more than are left.
        left = world.scenario.rounds.global_rounds * 2 - (2 * turn.t + turn.r) + 2
        rounds_left = 1 + (left - 1) * world.participation[who]
        allowance_j = (world.fleet.energy_budget_j - before.spent_j)[who] / rounds_left
        assert_allclose(beside.allowance_j, allowance_j, rtol=1e-12)


def test_its_links_end_and_contraction_are_those_of_the_last_edge_round(story):
    world, alone, told, reference = story
    for beside, (turn, before) in zip(told, turns_of(world, alone), strict=True):
        if turn.r == 0:
            assert beside.links is None
            assert (beside.end_s, beside.contraction) == (np.inf, 1.0)
            continue
        planned = price(turn.plan, turn.seen)
        end_s = np.max(before.elapsed_s + planned.edge_time_s + planned.backhaul_s)
        assert beside.end_s == pytest.approx(end_s, rel=1e-15)
        assert_array_equal(beside.links, turn.plan.gossip.links)
        by_hand = left_by_hand(turn.plan.gossip.links, turn.plan.gossip.steps)
        assert beside.contraction == pytest.approx(max(by_hand, 1e-9), rel=1e-6)
    assert reference.contraction == told[-1].contraction < 1


def test_its_books_are_those_of_fedrt_alone(story):
    _, alone, _, reference = story
    after = alone[-1].last.after
    assert_array_equal(reference.ledger.spent_j, after.spent_j)
    assert (reference.ledger.time_s, reference.ledger.t) == (after.time_s, len(alone))


def test_what_is_told_of_slow_devices_was_reported_before(story):
    """Whoever is not silent reports how long computing took, also when it is through too late."""
    world, alone, told, _ = story
    faults, reported = world.scenario.faults, SlownessSeen.nothing(7)
    for beside, (turn, _) in zip(told, turns_of(world, alone), strict=True):
        if faults is None or faults.straggler is None:
            assert beside.slowness is None
            continue
        expected = reported.expected(turn.seen.device, Deadline(factor=3.0))
        assert_array_equal(beside.slowness.chance, expected.chance)
        assert beside.slowness.slowdown == expected.slowdown
        assert beside.slowness.deadline == Deadline(None, 3.0)
        heard = ~turn.outcome.failures.silent
        slowdown = 1 / turn.outcome.failures.cpu_fraction[heard]
        reported = reported.add(turn.seen.device[heard], slowdown)
    if faults is not None and faults.straggler is not None:
        assert beside.slowness.slowdown > 1
        assert any(turn.outcome.failures.silent.any() for turn, _ in turns_of(world, alone))


def test_fedrt_runs_beside_those_that_ask_for_it_or_for_its_contraction():
    given, none = "control.contraction_limit=0.25", ()
    books = open_ledger(SimulatedWorld(tiny(), 0))

    def beside(policy, *settings):
        return reference_for(needs_of(policy), tiny(*settings), books)

    # By itself, by the limit that the scenario leaves to FedRT, by neither.
    assert beside(FedRTPlus(), given) is not None
    assert beside(FedRTPlus(energy="slack"), *none) is not None
    assert beside(FedRTPlus(energy="slack"), given) is None
    assert beside(FedRTPlus(links="exact", energy="slack"), *none) is None
    assert beside(FedRT(), *none) is None
    reference = beside(FedRTPlus())
    assert (reference.ledger, reference.contraction) == (books, 1.0)
    assert_array_equal(reference.slowness.last, np.zeros(7))


@pytest.mark.parametrize("given", [None, 0.25])
def test_the_contraction_limit_is_the_scenarios_or_that_of_fedrt(given):
    settings = () if given is None else (f"control.contraction_limit={given}",)
    world = SimulatedWorld(tiny("rounds.edge_rounds=1", *settings), 0)
    start = SimulatedExecutor(world).start
    point = RunState.begin(world, needs_of(FedRTPlus()), start).observe(world)
    limit = point.seen.backhaul.contraction_limit
    assert limit == (point.books.reference.contraction if given is None else given)
    assert 0 < point.books.reference.contraction < 1
    without = RunState.begin(world, needs_of(FedRT()), start).observe(world)
    assert without.seen.backhaul.contraction_limit is None
    assert without.books.reference is None
