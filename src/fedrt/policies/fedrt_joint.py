"""The policy `fedrt-joint`: `fedrt-plus`, which also chooses each device's codec (docs/joint.md).

Devices that hold the round up send fewer bits and others more, so that the mean distortion stays
within the limit. In every edge round the plan with these codecs is held against that of
`fedrt-plus` with one codec for all, and the better one is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.shares import Allocation
from fedrt.control.coding.choice import Coding
from fedrt.control.coding.menu import gossip_codec
from fedrt.control.mixing.fastest import MOST_EXACT
from fedrt.control.mixing.gossip import RatedGossip
from fedrt.control.pacing.energy_prices import Spending
from fedrt.control.pacing.expected_finish import FEWEST, SOFT
from fedrt.control.pacing.slowness import expected_end
from fedrt.cost.round import global_round_time_s, price
from fedrt.ledger import Books, Pace, ReferenceRound
from fedrt.plan import Plan, coded_gossip_bits, upload_bits
from fedrt.policies.base import MENU, Needs, with_memory
from fedrt.policies.fedrt_plus import Draft, FedRTPlus, Memory, out_of_reach, step_seconds
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

EVENED = 0.75
"""How far the ends of clusters are moved towards their mean before links are chosen for them."""
TURNS = 3
"""How often codecs and links are chosen in turn for a single decision."""


@dataclass(frozen=True)
class FedRTJoint(FedRTPlus):
    """The policy `fedrt-joint`. Its switches turn off single parts of it."""

    name: str = "fedrt-joint"
    bits: Literal["each", "one"] = "each"
    """`each`: a codec for each device; `one`: one codec for all."""
    settled: RatedGossip | None = field(default=None, repr=False)
    """The gossip of the first of two drafts, if the second has to keep it."""

    @property
    def needs(self) -> Needs:
        return super().needs | {MENU}

    @with_memory
    def plan(self, seen: Observation, books: Books, memory: Memory) -> tuple[Plan, Memory]:
        # What `fedrt-plus` decides is decided for one codec for all first. The reference beside
        # it is FedRT as the scenario has it.
        if seen.menu is None:
            return super().plan(seen, books, memory)
        menu = seen.menu
        bits = np.full(seen.num_devices, menu.bits[menu.uniform])
        codec = gossip_codec(menu, seen.gossip_codec, seen.model_bits, seen.buffer_bits)
        if codec == seen.gossip_codec:
            return super().plan(replace(seen, upload_bits=bits), books, memory)
        message = coded_gossip_bits(codec, seen)
        coded = replace(seen, upload_bits=bits, gossip_codec=codec, gossip_bits=message)
        plan, memory = super().plan(coded, books, memory)
        if plan.gossip is not None:
            plan = replace(plan, gossip=replace(plan.gossip, codec=codec))
        return plan, memory

    def _at_once(self, seen: Observation, books: Books) -> Plan:
        """The plan of a single decision, codecs and links chosen in turn while the end improves."""
        best = super()._at_once(seen, books)
        if seen.menu is None:
            return best
        coding = Coding(seen, books.allowance_j(self.energy_horizon))
        best = replace(best, codec=coding.uniform)
        if self.bits == "one":
            return best
        best = replace(best, status=_status(best))
        end_s = _end_s(best, seen, books)
        for _ in range(TURNS):
            offset_s = books.elapsed_s + price(best, seen).backhaul_s
            codec, _ = coding.earliest(offset_s)
            found = super()._at_once(coding.coded(codec), books)
            found = replace(found, codec=codec, status=_status(found))
            found_s = _end_s(found, seen, books)
            if not found_s < end_s * (1 - 1e-12):
                break
            best, end_s = found, found_s
        return best

    def _draft(
        self,
        seen: Observation,
        books: Books,
        pace: Pace,
        reference: ReferenceRound,
        now: Spending,
        memory: Memory,
    ) -> Draft:
        """The better of two drafts: one codec for all, or codecs for the devices one by one."""
        one = super()._draft(seen, books, pace, reference, now, memory)
        if seen.menu is None:
            return one
        # With stragglers these clusters get FedRT's bandwidths and frequencies, made for its bits.
        held = None if reference.slowness is None else out_of_reach(seen, reference)
        coding = Coding(seen, now.cap_j, held=held)
        one = replace(one, plan=replace(one.plan, codec=coding.uniform))
        if self.bits == "one" or not seen.num_devices:
            return one
        if _guesses_most(pace, memory):
            return one
        nominal_s = coding.uniform_s if one.nominal_s is None else one.nominal_s
        later_s = memory.samples_s(pace, nominal_s)
        codec = self._codecs(coding, one, books, later_s, reference)
        # Among many servers another search for links takes longer than it can gain.
        settled = replace(self, settled=one.gossip if seen.num_edges > MOST_EXACT else None)
        coded = coding.coded(codec)
        each = FedRTPlus._draft(settled, coded, books, pace, reference, now, memory)
        each = replace(each, plan=replace(each.plan, codec=codec))
        given = (seen, books, later_s, reference, now)
        return each if _worth_s(each.plan, *given) < _worth_s(one.plan, *given) else one

    def _gossip(
        self, seen: Observation, finish_s: FloatArray, reference: ReferenceRound | None = None
    ) -> RatedGossip:
        if self.settled is not None:
            return self.settled
        return super()._gossip(seen, finish_s, reference)

    def _codecs(
        self,
        coding: Coding,
        one: Draft,
        books: Books,
        later_s: FloatArray,
        reference: ReferenceRound,
    ) -> IntArray:
        """The codecs with which the global round is expected to end earliest."""
        seen, begin_s = coding.seen, books.elapsed_s
        if seen.backhaul is None:
            nominal_s = coding.uniform_s if one.nominal_s is None else one.nominal_s
            width_s = SOFT * max(float(nominal_s.mean()), 1e-300)
            return coding.expected(begin_s, later_s, width_s)
        found = coding.earliest(begin_s + price(one.plan, seen).backhaul_s)
        if seen.num_edges <= MOST_EXACT:
            # Links for clusters that end at different times are not the best ones for clusters that
            # end together, as the codecs will have them do.
            finish_s = begin_s + coding.uniform_s
            together_s = finish_s + EVENED * (finish_s.mean() - finish_s)
            gossip = self._gossip(seen, together_s, reference)
            other = coding.earliest(begin_s + gossip.slowest_s(step_seconds(seen)))
            found = min(found, other, key=itemgetter(1))
        return found[0]


def _guesses_most(pace: Pace, memory: Memory) -> bool:
    """Whether most of what follows in the global round is still a guess.

    Then it cannot be told which clusters will be last, and who may send fewer bits.
    """
    return len(memory.later_s) < FEWEST and pace.edge_rounds - 1 - pace.r > 1


def _worth_s(
    plan: Plan,
    seen: Observation,
    books: Books,
    later_s: FloatArray,
    reference: ReferenceRound,
    now: Spending,
) -> float:
    """The expected end of the global round plus what the energy is worth, in seconds."""
    cost = price(plan, seen)
    energy_s = float(np.dot(now.price_s_per_j, cost.energy_j))
    if reference.slowness is not None:
        coded = replace(seen, upload_bits=upload_bits(plan, seen))
        nobody = np.zeros(seen.num_edges, dtype=bool)
        allocation = Allocation(plan.bandwidth_hz, plan.cpu_hz, nobody, plan.tx_power_w)
        # Before the last edge round a cluster's end counts with what follows it.
        begins_s = books.elapsed_s + (cost.backhaul_s[None] if seen.backhaul else later_s)
        ends_s = [expected_end(coded, allocation, reference.slowness, each)[0] for each in begins_s]
        return energy_s + float(np.mean(ends_s))
    if seen.backhaul is not None:
        return energy_s + global_round_time_s(books.elapsed_s, cost)
    end_s = books.elapsed_s + cost.edge_time_s + later_s
    return energy_s + float(end_s.max(axis=1).mean())


def _status(plan: Plan) -> Literal["feasible", "best-effort"]:
    """The status of a plan whose codecs and links were chosen in turn: nothing is proven."""
    return "best-effort" if plan.status == "best-effort" else "feasible"


def _end_s(plan: Plan, seen: Observation, books: Books) -> float:
    return global_round_time_s(books.elapsed_s, price(plan, seen))
