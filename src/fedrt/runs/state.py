"""The state of a run, which one edge round hands to the next, and where a policy decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from fedrt.control.coding.menu import menu_of
from fedrt.control.topology.consensus import see_backhaul
from fedrt.ledger import Horizon, Ledger, PartOfBooks
from fedrt.plan import Plan
from fedrt.policies.base import (
    CONTRACTION_LIMIT,
    MENU,
    Needs,
    Policy,
    first_memory,
    needs_of,
)
from fedrt.rounds import ModelDistances, Outcome
from fedrt.runs.belief import Belief
from fedrt.runs.least_codecs import LeastCodecs
from fedrt.runs.reference import Reference, reference_for
from fedrt.runs.suspensions import Suspensions
from fedrt.scenario import Scenario
from fedrt.world.observation import Menu, Observation
from fedrt.world.world import World


class Surroundings(Protocol):
    """What a run observes: a world, or the clients of one server."""

    @property
    def scenario(self) -> Scenario: ...

    @property
    def gossip_latency_s(self) -> float: ...

    def observe(self, t: int, r: int) -> Observation:
        """The devices that are there, their channels and bandwidths before edge round (t, r)."""
        ...

    def backhaul_bps(self, t: int) -> NDArray[np.float64]:
        """The link speeds in global round t in bit/s, C x C."""
        ...


@dataclass(frozen=True)
class RunState:
    """All that a run carries from one edge round to the next."""

    ledger: Ledger
    belief: Belief
    """What the coordinator believes about the distances between the edge models."""
    least: LeastCodecs
    suspended: Suspensions
    reference: Reference | None = None
    """The policy `fedrt` in the same world; None for policies that do not need it."""
    menu: Menu | None = None
    """The codecs to choose from; None for policies that choose none."""
    contraction_limit: float | str | None = None
    """The scenario's, which may be `fedrt`; None for policies that do not need it."""
    memory: Any = None
    """What the policy remembers, as plain data (`policies.base.Policy`)."""

    @staticmethod
    def begin(world: World, needs: Needs, start: ModelDistances, memory: Any = None) -> RunState:
        """The state before the first edge round, with what the policy needs.

        `start`: the distances between the edge models before it.
        """
        ledger, limit = open_ledger(world), world.scenario.control.contraction_limit
        return RunState(
            ledger,
            Belief.first(world.base_graph, start),
            LeastCodecs.first(world),
            Suspensions.first(world),
            reference_for(needs, world.scenario, ledger),
            menu_of(world.scenario) if MENU in needs else None,
            limit if CONTRACTION_LIMIT in needs else None,
            memory,
        )

    @staticmethod
    def of_policy(world: World, policy: Policy, start: ModelDistances) -> RunState:
        """The state before the first edge round of a run of a policy."""
        memory = first_memory(policy, world.fleet.num_devices)
        return RunState.begin(world, needs_of(policy), start, memory)

    def carried_over(self, world: World, policy: Policy) -> RunState:
        """The state with which the run goes on in another world, or with what another policy needs.

        Budgets and rounds are those of the other world; the policy remembers nothing.
        """
        new = RunState.of_policy(world, policy, self.belief.newest)
        ledger, reference = new.ledger.going_on(self.ledger), new.reference
        if reference is not None:
            its = self.reference or replace(reference, ledger=self.ledger)
            its_ledger = new.ledger.going_on(its.ledger)
            reference = replace(its, scenario=world.scenario, ledger=its_ledger)
        carried = replace(self, menu=new.menu, contraction_limit=new.contraction_limit)
        return replace(carried, ledger=ledger, reference=reference, memory=new.memory)

    @property
    def ended(self) -> bool:
        """Whether the last edge round of the run is over."""
        return self.ledger.t >= self.ledger.global_rounds

    def observe(self, world: Surroundings) -> DecisionPoint:
        """The coming edge round as it is observed; with the backhaul if it is the last one."""
        t, r = self.ledger.t, self.ledger.r
        seen = self.suspended.seen(world.observe(t, r))
        if not self.ledger.in_last_edge_round:
            return self._point(self.least.seen(seen))
        bps = world.backhaul_bps(t)
        belief = self.belief.update(bps > 0)
        believed = belief.distances.believed
        backhaul = see_backhaul(world.scenario, bps, believed, world.gossip_latency_s)
        seen = self.least.seen(replace(seen, backhaul=backhaul))
        return replace(self, belief=belief)._point(seen)

    def recall(self, seen: Observation, *, replans: bool) -> DecisionPoint:
        """The same for an edge round that has ended, with what was observed then.

        Where it is not planned again, what was needed for planning is not made again either.
        """
        state = self
        if seen.backhaul is not None:
            state = replace(self, belief=self.belief.update(seen.backhaul.bps > 0))
        books = PartOfBooks(self.ledger, seen.device)
        return state._point(seen) if replans else DecisionPoint(state, seen, books)

    @property
    def saved(self) -> dict[str, Any]:
        """What cannot be made of records of rounds without planning them again, as plain data."""
        its = self.reference
        return {
            "memory": self.memory,
            "reference": None
            if its is None
            else {
                "ledger": its.ledger,
                "slowness": its.slowness,
                "contraction": its.contraction,
            },
        }

    def restored(self, saved: Mapping[str, Any]) -> RunState:
        """The state with what was saved."""
        reference = self.reference
        if reference is not None:
            reference = replace(reference, **saved["reference"])
        return replace(self, memory=saved["memory"], reference=reference)

    def _point(self, seen: Observation) -> DecisionPoint:
        if self.menu is not None:
            seen = replace(seen, menu=self.menu)
        reference, its_round = self.reference, None
        if reference is not None:
            reference, its_round = reference.plan(seen)
        rho, backhaul = self.contraction_limit, seen.backhaul
        if rho is not None and backhaul is not None and backhaul.contraction_limit is None:
            if isinstance(rho, str):
                assert reference is not None
                rho = reference.contraction
            seen = replace(seen, backhaul=replace(backhaul, contraction_limit=rho))
        books = PartOfBooks(self.ledger, seen.device, its_round)
        return DecisionPoint(replace(self, reference=reference), seen, books)


@dataclass(frozen=True)
class DecisionPoint:
    """A run before an edge round: its state, and what a policy decides by."""

    state: RunState
    seen: Observation
    books: PartOfBooks

    def after(self, plan: Plan, outcome: Outcome, memory: Any = None) -> RunState:
        """The state after the edge round: the plan that was carried out, and its outcome.

        `memory` is what the policy remembers now.
        """
        state = self.state
        belief, reference = state.belief.after(outcome), state.reference
        if plan.gossip is not None:
            belief = belief.after_gossip(plan.gossip.links)
        if reference is not None:
            reference = reference.after(self.seen, outcome.failures)
        ledger, least = state.ledger.charge(outcome), state.least.after(outcome)
        suspended = state.suspended.after(self.seen, outcome)
        return RunState(
            ledger,
            belief,
            least,
            suspended,
            reference,
            state.menu,
            state.contraction_limit,
            memory,
        )


def open_ledger(world: World) -> Ledger:
    """The ledger of a run before its first round."""
    rounds, horizon = world.scenario.rounds, world.scenario.control.energy_horizon
    return Ledger.open(
        world.fleet.energy_budget_j,
        world.fleet.num_edges,
        rounds.global_rounds,
        rounds.edge_rounds,
        None if horizon == "policy" else cast(Horizon, horizon),
        world.participation,
    )
