"""A run without training that is carried out step by step, for whoever brings the plans.

The loop of `runs.loop` asks a policy; here the caller looks, decides and hands in a plan.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedrt.control.topology.consensus import see_backhaul
from fedrt.errors import InputError
from fedrt.ledger import PartOfBooks
from fedrt.plan import Plan, plan_problems
from fedrt.rounds import Outcome
from fedrt.runs.belief import Belief
from fedrt.runs.executor import SimulatedExecutor
from fedrt.runs.loop import open_ledger
from fedrt.world.observation import Observation
from fedrt.world.simulated import SimulatedWorld


class Episode:
    """One run in a simulated world: what is observed now, and the books up to now."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world, self._executor = world, SimulatedExecutor(world)
        self.ledger = open_ledger(world)
        self._belief = Belief.first(world.base_graph, self._executor.start)
        self.seen = self._look()

    @property
    def ended(self) -> bool:
        """Whether the last edge round of the run is over."""
        return self.ledger.t >= self.ledger.global_rounds

    @property
    def time_s(self) -> float:
        """The seconds until the slowest cluster has finished what has been carried out."""
        return self.ledger.time_s + float(self.ledger.elapsed_s.max())

    @property
    def books(self) -> PartOfBooks:
        """What a policy may know of the past."""
        return PartOfBooks(self.ledger, self.seen.device)

    def _look(self) -> Observation:
        ledger = self.ledger
        seen = self.world.observe(ledger.t, ledger.r)
        if ledger.r < ledger.edge_rounds - 1:
            return seen
        bps = self.world.backhaul_bps(ledger.t)
        self._belief = self._belief.update(bps > 0)
        believed = self._belief.distances.believed
        return replace(seen, backhaul=see_backhaul(self.world.scenario, bps, believed))

    def step(self, plan: Plan) -> Outcome:
        """Carry out the plan of the observed edge round, charge it and go on to the next."""
        if self.ended:
            raise InputError("the run has ended: start another")
        problems = plan_problems(plan, self.seen)
        if problems:
            raise InputError(problems)
        outcome = self._executor.run(self.seen, plan)
        self.ledger = self.ledger.charge(outcome)
        self._belief = self._belief.after(outcome)
        if plan.gossip is not None:
            self._belief = self._belief.after_gossip(plan.gossip.links)
        if not self.ended:
            self.seen = self._look()
        return outcome

    @property
    def overspent_j(self) -> float:
        """The joules that devices have spent beyond their budgets."""
        return float(np.sum(self.ledger.overspent_j))
