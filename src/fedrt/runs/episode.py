"""A run without training that is carried out step by step, for whoever brings the plans."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrt.errors import InputError
from fedrt.ledger import Ledger, PartOfBooks
from fedrt.plan import Plan, plan_problems
from fedrt.policies import Policy
from fedrt.policies.base import Needs, ask, first_memory, needs_of
from fedrt.rounds import Outcome
from fedrt.runs.executor import SimulatedExecutor
from fedrt.runs.state import RunState
from fedrt.world.observation import Observation
from fedrt.world.simulated import SimulatedWorld


class Episode:
    """One run in a simulated world: what is observed now, and the books up to now."""

    def __init__(self, world: SimulatedWorld, needs: Needs = frozenset()) -> None:
        self.world, self._executor = world, SimulatedExecutor(world)
        self._begin(needs)

    def _begin(self, needs: Needs) -> None:
        self.needs, self.state = needs, RunState.begin(self.world, needs, self._executor.start)
        self.point = self.state.observe(self.world)
        self._memories: dict[int, tuple[Policy, Any]] = {}
        """What policies remember, by their identity, before and after the coming edge round."""
        self._next: dict[int, tuple[Policy, Any]] = {}

    @property
    def ended(self) -> bool:
        """Whether the last edge round of the run is over."""
        return self.state.ended

    @property
    def seen(self) -> Observation:
        """What is observed of the coming edge round."""
        return self.point.seen

    @property
    def books(self) -> PartOfBooks:
        """What a policy may know of the past."""
        return self.point.books

    @property
    def ledger(self) -> Ledger:
        """What has been spent up to now."""
        return self.state.ledger

    @property
    def time_s(self) -> float:
        """The seconds until the slowest cluster has finished what has been carried out."""
        return self.ledger.time_s + float(self.ledger.elapsed_s.max())

    @property
    def overspent_j(self) -> float:
        """The joules that devices have spent beyond their budgets."""
        return float(np.sum(self.ledger.overspent_j))

    def plan_of(self, policy: Policy) -> Plan:
        """What a policy plans for the coming edge round.

        One that needs more than others (`policy.needs`) has to be asked in the first edge round, as
        some of it is made from all rounds of a run.
        """
        more = needs_of(policy) - self.needs
        if more:
            if (self.ledger.t, self.ledger.r) != (0, 0):
                words = ", ".join(sorted(more))
                raise InputError(
                    f"policy {policy.name}: needs {words}: ask it for plans from the first edge"
                    " round of the episode on"
                )
            self._begin(self.needs | more)
        first = (policy, first_memory(policy, self.world.fleet.num_devices))
        _, memory = self._memories.get(id(policy), first)
        plan, memory = ask(policy, self.seen, self.books, memory)
        self._next[id(policy)] = (policy, memory)
        return plan

    def step(self, plan: Plan) -> Outcome:
        """Carry out the plan of the observed edge round, charge it and go on to the next."""
        if self.ended:
            raise InputError("the run has ended: start another")
        problems = plan_problems(plan, self.seen)
        if problems:
            raise InputError(problems)
        outcome = self._executor.run(self.seen, plan)
        self.state = self.point.after(plan, outcome)
        self._memories |= self._next
        if not self.ended:
            self.point = self.state.observe(self.world)
        return outcome
