"""The policy `fedrt-plus`, which goes beyond the paper (docs/fedrt-plus.md).

Links, gossip steps and mixing weights are chosen together, mixing each round at least as well as
the contraction limit asks. Energy is spent where it buys time: over a run a joule of each device
has a price; a single decision, which knows one allowance only, keeps it, and lets clusters that
would wait take the least energy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.priced import PricedFleet
from fedrt.control.allocation.shares import Allocation, slowest_energy_j
from fedrt.control.mixing.fastest import MOST_EXACT
from fedrt.control.mixing.gossip import RatedGossip, choose_gossip_apart, gossip_on
from fedrt.control.pacing.energy_prices import Prices, Spending, adjust, spending
from fedrt.control.pacing.expected_finish import (
    FEWEST,
    MOST,
    allocate_with_foresight,
    guessed_later_s,
)
from fedrt.control.pacing.slowness import no_later_than, quickest_expected
from fedrt.control.topology.components import links_by_part
from fedrt.control.topology.consensus import meets_limit
from fedrt.control.topology.links import best_links, prune_greedily
from fedrt.cost.backhaul import link_time_s
from fedrt.cost.round import price
from fedrt.graph import is_connected
from fedrt.ledger import Books, Horizon, Pace, ReferenceRound, overspend_j
from fedrt.plan import ROUNDING, Plan, Status
from fedrt.policies.base import CONTRACTION_LIMIT, REFERENCE, Needs, with_memory
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]


# A server that is later than planned by this part of the time so far is late, not rounded.
LATE = 1e-9
# On real devices no round takes exactly what was planned: this part of its planned time is noise.
NOISE = 0.1


@dataclass(frozen=True)
class Memory:
    """What the policy remembers of a run."""

    prices: Prices
    nominal_s: tuple[FloatArray, ...] = ()
    """Per edge round of this global round: the clusters' times at equal worth."""
    later_s: tuple[FloatArray, ...] = ()
    """For each global round, R x C seconds that followed each of its edge rounds."""
    planned_s: FloatArray | None = None
    """For each server, the planned end of the last edge round, in seconds from the run's start."""
    planned_for_s: float = 0.0
    """The planned seconds of the last edge round, of the slowest server."""
    late: bool = False
    """Whether any server ever took longer than planned, or is expected to."""

    def is_late(self, pace: Pace, elapsed_s: FloatArray) -> bool:
        """Whether the last edge round took longer than planned."""
        if self.planned_s is None:
            return False
        planned_s = self.planned_s if pace.r else np.max(self.planned_s)
        late_s = pace.time_s + elapsed_s - planned_s
        usual_s = NOISE * self.planned_for_s if pace.is_measured else LATE * np.max(self.planned_s)
        return bool((late_s > usual_s).any())

    def samples_s(self, pace: Pace, nominal_s: FloatArray) -> FloatArray:
        """Samples of the time that follows this edge round, one per row, for each cluster."""
        if len(self.later_s) < FEWEST:
            return guessed_later_s(nominal_s, pace.edge_rounds - 1 - pace.r)
        return np.array([rest_s[pace.r] for rest_s in self.later_s])

    def with_times(self, pace: Pace, draft: Draft, seen: Observation) -> Memory:
        """The memory with the times of a plan that is going to be carried out."""
        if draft.nominal_s is None:
            return self
        nominal_s = (*self.nominal_s[: pace.r], draft.nominal_s)
        if draft.gossip is None:
            return replace(self, nominal_s=nominal_s)
        mixing_s = draft.gossip.slowest_s(step_seconds(seen))
        rest_s = np.cumsum([mixing_s, *nominal_s[:0:-1]], axis=0)[::-1]
        return replace(self, nominal_s=nominal_s, later_s=(*self.later_s, rest_s)[-MOST:])


@dataclass(frozen=True)
class Draft:
    """A plan for an edge round within a run, and what the policy remembers of it."""

    plan: Plan
    gossip: RatedGossip | None
    relaxed: NDArray[np.bool_]
    """Per cluster: no allocation keeps every cap."""
    nominal_s: FloatArray | None
    """The clusters' times at equal worth; None if they are of no use."""


@dataclass(frozen=True)
class FedRTPlus:
    """The policy `fedrt-plus`. Its switches turn off single parts of it."""

    name: str = "fedrt-plus"
    energy_horizon: Horizon = "exact"
    links: Literal["joint", "exact", "greedy"] = "joint"
    """`joint`: with gossip steps and weights; `exact`: links alone; `greedy`: as FedRT does."""
    energy: Literal["paced", "slack", "allowance"] = "paced"
    """`slack`: an equal allowance each round, less where a cluster would wait; `allowance`: all."""

    @property
    def needs(self) -> Needs:
        """The contraction limit for joint gossip, the reference for pacing."""
        parts = {CONTRACTION_LIMIT: self.links == "joint", REFERENCE: self.energy == "paced"}
        return frozenset(need for need, is_needed in parts.items() if is_needed)

    def begin(self, devices: int) -> Memory:
        """What the policy remembers before the first round."""
        return Memory(Prices.unknown(devices))

    @with_memory
    def plan(self, seen: Observation, books: Books, memory: Memory) -> tuple[Plan, Memory]:
        pace = books.pace(self.energy_horizon) if self.energy == "paced" else None
        if pace is None or books.reference is None:
            return self._at_once(seen, books), memory
        return self._paced(seen, books, pace, books.reference, memory)

    def _at_once(self, seen: Observation, books: Books) -> Plan:
        """The plan of a single decision: least round time in the allowances, then least energy."""
        fleet = PricedFleet(seen, np.ones(seen.num_devices), books.allowance_j(self.energy_horizon))
        relaxed = bool(fleet.fastest.relaxed.any())
        if seen.backhaul is None:
            # What is still to come may make any cluster the slowest: all go as fast as they may.
            proven = fleet.fastest.proven
            return _plan(seen, fleet.fastest, _status(relaxed=relaxed, proven=proven))
        gossip = self._gossip(seen, books.elapsed_s + fleet.least_s)
        offset_s = books.elapsed_s + gossip.slowest_s(step_seconds(seen))
        allocation = fleet.fastest
        if self.energy != "allowance":
            # A little less than there is, so that rounding never makes a waiting cluster the last.
            spare_s = float(np.max(offset_s + fleet.least_s)) - offset_s
            allocation, _ = fleet.in_time(spare_s * (1 - ROUNDING))
        relaxed |= not _keeps_limits(seen, gossip)
        proven = self.links != "greedy" and seen.num_edges <= MOST_EXACT and fleet.fastest.proven
        return _plan(seen, allocation, _status(relaxed=relaxed, proven=proven), gossip)

    def _paced(
        self,
        seen: Observation,
        books: Books,
        pace: Pace,
        reference: ReferenceRound,
        memory: Memory,
    ) -> tuple[Plan, Memory]:
        """The plan within a run: least time plus the worth of energy, at prices set by the budgets.

        No device has spent more than under FedRT, and no cluster falls further behind FedRT than
        the run is ahead of it.
        """
        late = reference.slowness is not None or memory.is_late(pace, books.elapsed_s)
        memory = replace(memory, late=memory.late or late)
        prices, now = spending(memory.prices, seen, pace, reference, may_use_rest=not memory.late)
        draft = self._draft(seen, books, pace, reference, now, memory)
        broken = bool((out_of_reach(seen, reference) & draft.relaxed).any())
        broken |= draft.gossip is not None and not _keeps_limits(seen, draft.gossip)
        plan, cost = draft.plan, price(draft.plan, seen)
        planned_for_s = cost.edge_time_s + cost.backhaul_s
        memory = replace(
            memory.with_times(pace, draft, seen),
            planned_s=pace.time_s + books.elapsed_s + planned_for_s,
            planned_for_s=float(planned_for_s.max()),
            prices=adjust(prices, pace, now, cost.energy_j),
        )
        # No later plan can mend it if less is left than computing at f_min takes.
        need_j = (pace.rounds_left - 1.0) * slowest_energy_j(seen)
        left_j = pace.left_j - cost.energy_j
        broken |= bool((left_j < need_j - 1e-9 * np.abs(pace.left_j)).any())
        return replace(plan, status="best-effort") if broken else plan, memory

    def _draft(
        self,
        seen: Observation,
        books: Books,
        pace: Pace,
        reference: ReferenceRound,
        now: Spending,
        memory: Memory,
    ) -> Draft:
        """The plan for the coming edge round, at given prices of energy and within given caps."""
        # Where nothing less will do, as after a failure that cost more than FedRT: FedRT's plan.
        relaxed = np.zeros(seen.num_edges, dtype=bool)
        otherwise = Allocation(
            reference.bandwidth_hz, reference.cpu_hz, relaxed, reference.tx_power_w
        )
        fleet = PricedFleet(seen, now.price_s_per_j, now.cap_j, otherwise)
        nominal_s = None
        if memory.late:
            allocation, gossip = self._at_full_speed(seen, books, pace, reference, fleet)
        else:
            nominal_s = fleet.at_price(np.full(seen.num_edges, 1.0 / seen.num_edges))
            allocation, gossip = self._priced(
                seen, books, pace, reference, fleet, nominal_s, memory
            )
            if reference.deadline is not None:
                # A device that a deadline cuts short saves joules: where FedRT overspends, a plan
                # that waits for it would overspend more.
                kept = out_of_reach(seen, reference)
                allocation = allocation.with_clusters(otherwise, kept, seen)
                given = (seen, now.cap_j, reference.deadline)
                allocation = no_later_than(otherwise, allocation, *given)
        plan = _plan(seen, allocation, "feasible", gossip)
        return Draft(plan, gossip, fleet.fastest.relaxed, nominal_s)

    def _priced(
        self,
        seen: Observation,
        books: Books,
        pace: Pace,
        reference: ReferenceRound,
        fleet: PricedFleet,
        nominal_s: FloatArray,
        memory: Memory,
    ) -> tuple[Allocation, RatedGossip | None]:
        """The allocation that trades time against the worth of energy, near the reference."""
        ahead_s = max(reference.time_s - pace.time_s, 0.0)
        if seen.backhaul is None:
            later_s = memory.samples_s(pace, nominal_s)
            most_s = reference.elapsed_s + ahead_s - books.elapsed_s
            return (
                allocate_with_foresight(fleet, books.elapsed_s, nominal_s, later_s, most_s),
                None,
            )
        return self._last_edge_round(
            seen, fleet, books.elapsed_s, nominal_s, reference, reference.end_s + ahead_s
        )

    def _at_full_speed(
        self,
        seen: Observation,
        books: Books,
        pace: Pace,
        reference: ReferenceRound,
        fleet: PricedFleet,
    ) -> tuple[Allocation, RatedGossip | None]:
        """The fastest allocation, for stragglers: a cluster that saves energy would delay all.

        An allocation in which all devices end at once is held up by every one of them, so one that
        allows for them, or the even split, takes its place where it lets expect an earlier end.
        """
        allocation, slowness = fleet.fastest, reference.slowness
        kept = out_of_reach(seen, reference)
        if slowness is not None and fleet.otherwise is not None:
            # Where FedRT cannot keep an allowance, nothing makes up for a failure that costs more.
            allocation = allocation.with_clusters(fleet.otherwise, kept, seen)
        if slowness is not None and slowness.slowdown > 1 and seen.num_devices:
            # An equal part of what is left, with a global round in reserve, is there in any case.
            equal_j = pace.left_j / (pace.most_rounds_left + pace.edge_rounds)
            cap_j = np.maximum(fleet.cap_j, equal_j)
            allocation = quickest_expected(seen, cap_j, slowness, books.elapsed_s, allocation, kept)
        if seen.backhaul is None:
            return allocation, None
        time_s = price(_plan(seen, allocation, "feasible"), seen).edge_time_s
        return allocation, self._gossip(seen, books.elapsed_s + time_s, reference)

    def _last_edge_round(
        self,
        seen: Observation,
        fleet: PricedFleet,
        elapsed_s: FloatArray,
        nominal_s: FloatArray,
        reference: ReferenceRound,
        latest_s: float,
    ) -> tuple[Allocation, RatedGossip]:
        """The allocation whose end makes the prices of time add up to one, within a limit."""
        gossip = self._gossip(seen, elapsed_s + nominal_s, reference)
        offset_s = elapsed_s + gossip.slowest_s(step_seconds(seen))
        allocation, end_s = fleet.by_deadline(offset_s)
        if end_s <= latest_s:
            return allocation, gossip
        gossip = self._gossip(seen, elapsed_s + fleet.least_s, reference)
        offset_s = elapsed_s + gossip.slowest_s(step_seconds(seen))
        end_s = max(latest_s, float(np.max(offset_s + fleet.least_s)))
        allocation, _ = fleet.in_time((end_s - offset_s) * (1 - ROUNDING))
        return allocation, gossip

    def _gossip(
        self, seen: Observation, finish_s: FloatArray, reference: ReferenceRound | None = None
    ) -> RatedGossip:
        """The fastest gossip that keeps the limits, or that of the reference if it is faster."""
        chosen = self._choose_gossip(seen, finish_s)
        if reference is None or reference.links is None or self.links != "joint":
            return chosen
        assert seen.backhaul is not None
        rho = seen.backhaul.contraction_limit
        if rho is not None and reference.contraction > rho:
            return chosen
        given = gossip_on(reference.links, seen.gossip_steps, fastest=False)
        hop_s = step_seconds(seen)
        ends_s = [float(np.max(finish_s + each.slowest_s(hop_s))) for each in (chosen, given)]
        return chosen if ends_s[0] <= ends_s[1] else given

    def _choose_gossip(self, seen: Observation, finish_s: FloatArray) -> RatedGossip:
        backhaul, psi = seen.backhaul, seen.gossip_steps
        assert backhaul is not None
        limits = (backhaul.consensus_distance, backhaul.consensus_limit)
        hop_s = step_seconds(seen)
        whole = is_connected(backhaul.base_graph)
        if self.links == "joint" and backhaul.contraction_limit is not None:
            rho = backhaul.contraction_limit
            found = choose_gossip_apart(finish_s, hop_s, *limits, rho, psi)
            if found is not None:
                return found
        search = prune_greedily if self.links == "greedy" else best_links
        topology = links_by_part(search, finish_s, psi * hop_s, *limits)
        # Several parts with links near no common average: all steps, under the scenario's rule.
        return gossip_on(topology, psi, fastest=self.links == "joint" and whole)


def _status(*, relaxed: bool, proven: bool) -> Status:
    if relaxed:
        return "best-effort"
    return "optimal" if proven else "feasible"


def out_of_reach(seen: Observation, reference: ReferenceRound) -> NDArray[np.bool_]:
    """For each cluster, whether the reference cannot keep the allowance of one of its devices."""
    over = overspend_j(reference.energy_j, reference.allowance_j) > 0
    return np.asarray(seen.sum_by_edge(over.astype(np.float64)) > 0)


def step_seconds(seen: Observation) -> FloatArray:
    """The seconds of one gossip step over each link."""
    assert seen.backhaul is not None
    return link_time_s(seen.gossip_bits, 1, seen.backhaul.bps, seen.backhaul.latency_s)


def _keeps_limits(seen: Observation, gossip: RatedGossip) -> bool:
    backhaul = seen.backhaul
    assert backhaul is not None
    if not meets_limit(gossip.gossip.links, backhaul.consensus_distance, backhaul.consensus_limit):
        return False
    rho = backhaul.contraction_limit
    return rho is None or gossip.gossip.weights is None or gossip.contraction <= rho


def _plan(
    seen: Observation, allocation: Allocation, status: Status, gossip: RatedGossip | None = None
) -> Plan:
    return Plan(
        status=status,
        bandwidth_hz=allocation.bandwidth_hz,
        cpu_hz=allocation.cpu_hz,
        local_steps=np.full(seen.num_devices, seen.local_steps, dtype=np.int64),
        gossip=None if gossip is None else gossip.gossip,
        tx_power_w=allocation.tx_power_w,
    )


# What each part brings alone, by import path: fedrt.policies.fedrt_plus:exact_links and the like.


def exact_links() -> FedRTPlus:
    """FedRT with the exact horizon and the best links for its gossip steps and weights."""
    return FedRTPlus("fedrt-plus-exact-links", links="exact", energy="allowance")


def joint_gossip() -> FedRTPlus:
    """FedRT with the exact horizon, and links, gossip steps and weights chosen together."""
    return FedRTPlus("fedrt-plus-joint-gossip", energy="allowance")


def slack() -> FedRTPlus:
    """FedRT with the exact horizon, and the least energy in clusters that would wait."""
    return FedRTPlus("fedrt-plus-slack", links="greedy", energy="slack")


def pacing() -> FedRTPlus:
    """FedRT with the exact horizon and prices of energy."""
    return FedRTPlus("fedrt-plus-pacing", links="greedy")


def gossip_and_slack() -> FedRTPlus:
    """All parts of `fedrt-plus` except pacing."""
    return FedRTPlus("fedrt-plus-gossip-and-slack", energy="slack")
