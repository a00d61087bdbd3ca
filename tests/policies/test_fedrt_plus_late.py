"""fedrt-plus where a round ends late: how it is noticed, what is planned then, and by when."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.tiny import tiny

from fedrt.control.allocation.priced import PricedFleet
from fedrt.control.allocation.shares import allocate_evenly
from fedrt.control.mixing.gossip import RatedGossip, choose_gossip
from fedrt.control.pacing.energy_prices import Prices, least_price_s_per_j
from fedrt.control.pacing.slowness import Slowness, quickest_expected
from fedrt.control.topology.consensus import see_backhaul
from fedrt.cost.backhaul import link_time_s
from fedrt.cost.outcome import Deadline
from fedrt.cost.round import price
from fedrt.ledger import PartOfBooks
from fedrt.plan import Gossip
from fedrt.policies import fedrt_plus
from fedrt.policies.fedrt_plus import FedRTPlus, Memory
from fedrt.runs.executor import SimulatedExecutor
from fedrt.runs.loop import make_world, run_rounds, simulate_rounds
from fedrt.runs.reference import Reference
from fedrt.runs.state import open_ledger

pytestmark = pytest.mark.numerical

ELAPSED_S = np.array([3.0, 0.0, 1.2])


def last_observation(rho=0.3):
    """What is seen before the last edge round of the tiny world's first global round."""
    world = make_world(tiny(), 0)
    backhaul = see_backhaul(world.scenario, world.backhaul_bps(0), world.stand_in_distance(0))
    return replace(world.observe(0, 1), backhaul=replace(backhaul, contraction_limit=rho))


def hop_s(seen):
    return link_time_s(seen.model_bits, 1, seen.backhaul.bps)


def cost_of(seen, allocation, gossip):
    return price(fedrt_plus._plan(seen, allocation, "feasible", gossip), seen)


@pytest.mark.parametrize(
    ("r", "time_s", "elapsed_s", "late"),
    [
        # Within a global round each server is held against its own plan: 10 s and 12 s.
        (1, 0.0, [10.0, 12.0], False),
        (1, 0.0, [10.5, 11.0], True),
        (1, 0.0, [9.0, 12.5], True),
        (1, 4.0, [6.0, 8.0], False),
        (1, 4.0, [6.5, 8.0], True),
        # After a global round all waited for the slowest, 12 s.
        (0, 12.0, [0.0, 0.0], False),
        (0, 11.0, [0.0, 0.0], False),
        (0, 12.5, [0.0, 0.0], True),
        # A billionth of 12 s is rounding, for every server.
        (1, 0.0, [10.0 + 1.1e-8, 12.0], False),
        (1, 0.0, [10.0 + 1.3e-8, 12.0], True),
    ],
)
def test_a_server_is_late_that_is_through_after_its_plan(r, time_s, elapsed_s, late):
    pace = SimpleNamespace(r=r, time_s=time_s, is_measured=False)
    memory = Memory(Prices.unknown(2), planned_s=np.array([10.0, 12.0]))
    assert memory.is_late(pace, np.array(elapsed_s)) == late
    # Before the first plan nothing can be late.
    assert not Memory(Prices.unknown(2)).is_late(pace, np.array(elapsed_s))


@pytest.mark.parametrize(("end_s", "late"), [(12.2, False), (12.39, False), (12.41, True)])
def test_on_real_devices_a_tenth_of_a_rounds_time_is_noise(end_s, late):
    """A round of 4 s that was to end after 12 s."""
    pace = SimpleNamespace(r=0, time_s=end_s, is_measured=True)
    memory = Memory(Prices.unknown(2), planned_s=np.array([10.0, 12.0]), planned_for_s=4.0)
    assert memory.is_late(pace, np.zeros(2)) == late


class Measured(SimulatedExecutor):
    """As on real devices: what is measured differs from the plan by some part."""

    def __init__(self, world, part):
        super().__init__(world)
        self.draw, self.part = np.random.default_rng(0), part

    def run(self, seen, plan):
        outcome = super().run(seen, plan)
        ratio = 1 + self.part * self.draw.uniform(0.5, 1, seen.num_edges)
        cost = replace(outcome.cost, edge_time_s=outcome.cost.edge_time_s * ratio)
        return replace(outcome, cost=cost, clock_s=float(cost.edge_time_s.max()))


@pytest.mark.parametrize(("part", "late"), [(0.02, False), (-0.02, False), (0.5, True)])
def test_noise_of_real_devices_leaves_energy_paced(part, late):
    """Devices spend their energy unevenly over the rounds as long as nothing unusual happens."""
    world, policy = make_world(tiny("rounds.global_rounds=10"), 0), FedRTPlus()
    rounds = list(run_rounds(world, policy, Measured(world, part)))
    assert rounds[-1].state.memory.late is late
    assert rounds[-1].last.after.is_measured
    assert not list(simulate_rounds(world, FedRTPlus()))[-1].last.after.is_measured


def test_the_end_of_each_edge_round_is_planned_to_the_second(monkeypatch):
    """Where nothing fails the books agree with what the policy planned, and nobody is late."""
    world = make_world(tiny("rounds.edge_rounds=3"), 0)
    ends_s, plan = [], FedRTPlus.plan

    def planned(self, seen, books, memory):
        found, after = plan(self, seen, books, memory)
        ends_s.append(after.planned_s)
        return found, after

    monkeypatch.setattr(FedRTPlus, "plan", planned)
    rounds = list(simulate_rounds(world, FedRTPlus()))
    turns = [turn for done in rounds for turn in done.edge_rounds]
    for turn, planned_s in zip(turns, ends_s, strict=True):
        after = turn.after
        if turn.r < 2:
            assert_allclose(after.time_s + after.elapsed_s, planned_s, rtol=1e-12)
        else:
            assert after.time_s == pytest.approx(planned_s.max(), rel=1e-12)
    assert not rounds[-1].state.memory.late


def speeds_of(monkeypatch):
    """Whether each plan to come is one at full speed."""
    full = []
    for name, fast in (("_at_full_speed", True), ("_priced", False)):
        true = getattr(FedRTPlus, name)

        def spy(*args, true=true, fast=fast):
            full.append(fast)
            return true(*args)

        monkeypatch.setattr(FedRTPlus, name, spy)
    return full


def test_once_late_it_goes_at_full_speed_to_the_end_of_the_run(monkeypatch):
    policy, world = FedRTPlus(), make_world(tiny(), 0)
    full, plan, rest = speeds_of(monkeypatch), FedRTPlus.plan, []
    true = fedrt_plus.spending

    def spending(*args, may_use_rest):
        rest.append(may_use_rest)
        return true(*args, may_use_rest=may_use_rest)

    def planned(self, seen, books, memory):
        found, after = plan(self, seen, books, memory)
        if len(full) == 3:
            after = replace(after, planned_s=after.planned_s - 1e-3)
        return found, after

    monkeypatch.setattr(fedrt_plus, "spending", spending)
    monkeypatch.setattr(FedRTPlus, "plan", planned)
    for _ in range(2):
        # A run starts with nothing known, whatever the last one has shown.
        full.clear()
        rest.clear()
        list(simulate_rounds(world, policy))
        assert full == [False] * 3 + [True] * 5
        # Nor is anything left for the last edge round's hurry.
        assert rest == [True] * 3 + [False] * 5


@pytest.mark.parametrize(
    ("settings", "fast"),
    [
        ((), False),
        (("faults.silent={kind='random',probability=0.5}",), False),
        (("faults.straggler={kind='random',probability=1e-9}",), True),
    ],
)
def test_with_stragglers_it_goes_at_full_speed_from_the_start(settings, fast, monkeypatch):
    """Also where none has come yet; a silent device is awaited no longer than planned."""
    policy = FedRTPlus()
    full = speeds_of(monkeypatch)
    list(simulate_rounds(make_world(tiny(*settings), 0), policy))
    assert full == [fast] * 8


def test_at_full_speed_slow_devices_are_allowed_for_where_they_are_expected():
    """Links follow from the times of the allocation that is taken."""
    seen, policy = last_observation(), FedRTPlus()
    fleet = PricedFleet(seen, np.ones(7), np.full(7, 2.0))
    books = SimpleNamespace(elapsed_s=ELAPSED_S)
    limits = (seen.backhaul.consensus_distance, seen.backhaul.consensus_limit, 0.3, 10)

    def take(slowness, seen=seen, energy_j=1.0, left_j=0.0):
        pace = SimpleNamespace(left_j=np.full(7, left_j), most_rounds_left=4, edge_rounds=2)
        told = SimpleNamespace(
            slowness=slowness,
            energy_j=np.where(seen.edge_of_device == 0, energy_j, 1.0),
            allowance_j=np.full(7, 1.0),
            links=None,
            contraction=1.0,
        )
        return policy._at_full_speed(seen, books, pace, told, fleet)

    often = Slowness(np.full(7, 0.6), 3.0, Deadline())
    kept = np.zeros(3, dtype=bool)
    expected = quickest_expected(seen, fleet.cap_j, often, ELAPSED_S, fleet.fastest, kept)
    assert not np.allclose(expected.bandwidth_hz, fleet.fastest.bandwidth_hz, rtol=1e-3)
    for slowness, by_hand in (
        (None, fleet.fastest),
        (Slowness(np.full(7, 0.6), 1.0, Deadline()), fleet.fastest),
        (often, expected),
    ):
        found, gossip = take(slowness)
        assert_array_equal(found.bandwidth_hz, by_hand.bandwidth_hz)
        assert_array_equal(found.cpu_hz, by_hand.cpu_hz)
        time_s = cost_of(seen, by_hand, None).edge_time_s
        links = choose_gossip(ELAPSED_S + time_s, hop_s(seen), *limits)
        assert_array_equal(gossip.gossip.links, links.gossip.links)
        assert gossip.gossip.steps == links.gossip.steps
    # Before the last edge round there are no links.
    assert take(often, replace(seen, backhaul=None))[1] is None
    # A sixth of what is left, two edge rounds being kept in reserve, may be spent in any case.
    for left_j, cap_j in ((11.9, 2.0), (15.0, 2.5), (np.inf, np.inf)):
        caps_j = np.full(7, cap_j)
        by_hand = quickest_expected(seen, caps_j, often, ELAPSED_S, fleet.fastest, kept)
        assert_array_equal(take(often, left_j=left_j)[0].cpu_hz, by_hand.cpu_hz)
        assert (cap_j == 2.0) == np.array_equal(by_hand.cpu_hz, expected.cpu_hz)
    # A cluster that FedRT cannot keep within its allowance has FedRT's allocation.
    fedrt = allocate_evenly(seen, np.full(7, 1.5))
    fleet = PricedFleet(seen, np.ones(7), np.full(7, 2.0), fedrt)
    first = seen.edge_of_device == 0
    kept[0] = True
    usual = fleet.fastest.with_clusters(fedrt, kept, seen)
    by_hand = quickest_expected(seen, fleet.cap_j, often, ELAPSED_S, usual, kept)
    for slowness, other in ((often, by_hand), (Slowness(np.zeros(7), 1.0, Deadline()), usual)):
        found, _ = take(slowness, energy_j=1.1)
        assert_array_equal(found.bandwidth_hz[first], fedrt.bandwidth_hz[first])
        assert_array_equal(found.cpu_hz[first], fedrt.cpu_hz[first])
        assert_array_equal(found.bandwidth_hz, other.bandwidth_hz)


def test_the_last_edge_round_weighs_time_against_energy_but_ends_no_later_than_it_may():
    seen, policy = last_observation(), FedRTPlus()
    dear = 1e4 * least_price_s_per_j(seen)
    fleet = PricedFleet(seen, dear, np.full(7, np.inf))
    nominal_s = fleet.at_price(np.full(3, 1 / 3))

    def end_by(latest_s):
        allocation, gossip = policy._last_edge_round(
            seen, fleet, ELAPSED_S, nominal_s, None, latest_s
        )
        cost = cost_of(seen, allocation, gossip)
        return np.max(ELAPSED_S + cost.edge_time_s + cost.backhaul_s), cost, gossip

    free_s, cost, gossip = end_by(np.inf)
    worth_s = free_s + dear @ cost.energy_j
    # No other end is worth more than it costs, whatever lies within the links chosen.
    offset_s = ELAPSED_S + gossip.slowest_s(hop_s(seen))
    for factor in (0.97, 0.99, 1.01, 1.03):
        other, _ = fleet.in_time(factor * free_s - offset_s)
        paid = cost_of(seen, other, None)
        assert np.max(offset_s + paid.edge_time_s) + dear @ paid.energy_j > worth_s
    # The earliest: every cluster at its least time, then the quickest gossip.
    limits = (seen.backhaul.consensus_distance, seen.backhaul.consensus_limit, 0.3, 10)
    quickest = choose_gossip(ELAPSED_S + fleet.least_s, hop_s(seen), *limits)
    least_s = np.max(ELAPSED_S + fleet.least_s + quickest.slowest_s(hop_s(seen)))
    assert least_s < 0.99 * free_s
    assert end_by(0.0)[0] == pytest.approx(least_s, rel=1e-6)
    # In between: just in time, and for less energy than the earliest takes.
    between_s = 0.5 * (least_s + free_s)
    held_s, held, _ = end_by(between_s)
    assert between_s * (1 - 1e-6) < held_s <= between_s
    assert cost.energy_j.sum() < held.energy_j.sum() < end_by(0.0)[1].energy_j.sum()
    assert end_by(free_s * (1 + 1e-9))[0] == pytest.approx(free_s, rel=1e-12)


def test_no_cluster_falls_further_behind_fedrt_than_the_run_is_ahead_of_it(monkeypatch):
    """Ahead by 5 s a cluster may take that much longer; behind, it gets nothing back."""
    world, policy = make_world(tiny("rounds.edge_rounds=2"), 0), FedRTPlus()
    limits = []
    true_early, true_last = fedrt_plus.allocate_with_foresight, FedRTPlus._last_edge_round

    def early(fleet, elapsed_s, nominal_s, later_s, most_s):
        limits.append(most_s)
        return true_early(fleet, elapsed_s, nominal_s, later_s, most_s)

    def last(*args):
        limits.append(args[-1])
        return true_last(*args)

    monkeypatch.setattr(fedrt_plus, "allocate_with_foresight", early)
    monkeypatch.setattr(FedRTPlus, "_last_edge_round", last)
    told = []
    plan_beside = Reference.plan

    def plan(self, seen):
        reference, its_round = plan_beside(self, seen)
        told.append(its_round)
        return reference, its_round

    monkeypatch.setattr(Reference, "plan", plan)
    before = open_ledger(world)
    turns = [turn for done in simulate_rounds(world, policy) for turn in done.edge_rounds]
    for turn, most_s, beside in zip(turns, limits, told, strict=True):
        ahead_s = max(beside.time_s - before.time_s, 0.0)
        by_hand = beside.elapsed_s - before.elapsed_s if turn.r == 0 else beside.end_s
        assert_allclose(most_s, by_hand + ahead_s, rtol=1e-12)
        before = turn.after
    assert turns[-1].after.time_s < told[-1].time_s + told[-1].end_s
    # With 5 s more or less on FedRT's clock.
    memory_at = PartOfBooks(open_ledger(world), np.arange(7), told[0])
    for fedrt_s, more_s in ((5.0, 5.0), (-5.0, 0.0)):
        limits.clear()
        policy.plan(turns[0].seen, replace(memory_at, reference=replace(told[0], time_s=fedrt_s)))
        assert_allclose(limits, [told[0].elapsed_s + more_s])


def test_fedrts_own_links_are_taken_where_they_are_quicker_and_mix_well_enough(monkeypatch):
    """Here a search that finds only the slowest: all links and all ten steps."""
    seen, policy = last_observation(0.3), FedRTPlus()
    everyone = ~np.eye(3, dtype=bool)
    slow = RatedGossip(Gossip(everyone, 10, np.full((3, 3), 1 / 3)), 0.0)
    monkeypatch.setattr(FedRTPlus, "_choose_gossip", lambda *_: slow)
    path = everyone.copy()
    a, b = np.unravel_index(np.argmax(np.where(everyone, hop_s(seen), 0)), (3, 3))
    path[a, b] = path[b, a] = False
    finish_s = np.zeros(3)

    def takes(rho=0.3, policy=policy, **told):
        told = SimpleNamespace(**({"links": path, "contraction": 0.2} | told))
        backhaul = replace(seen.backhaul, contraction_limit=rho)
        return policy._gossip(replace(seen, backhaul=backhaul), finish_s, told)

    own = takes()
    assert_array_equal(own.gossip.links, path)
    assert (own.gossip.steps, own.gossip.weights) == (seen.gossip_steps, None)
    # As far as it mixes as well as the limit asks, where there is one.
    assert takes(contraction=0.3).gossip.links is path
    assert takes(contraction=0.31) is slow
    assert takes(rho=None, contraction=0.9).gossip.links is path
    # Not where it is no quicker, where there is none, or where links are chosen alone.
    assert takes(links=everyone) is slow
    assert takes(links=None, contraction=0.2) is slow
    assert takes(policy=FedRTPlus(links="exact")) is slow
    assert policy._gossip(seen, finish_s) is slow
