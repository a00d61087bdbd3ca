"""The loop of a run: observe, plan, carry out, charge. docs/architecture.md draws it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.limits import broken_limits
from fedrt.cost.round import price
from fedrt.errors import InfeasibleError
from fedrt.ledger import Ledger
from fedrt.plan import Plan
from fedrt.policies import Policy
from fedrt.policies.base import ask, is_pure
from fedrt.rounds import Outcome, as_planned
from fedrt.runs.executor import Executor, Models, SimulatedExecutor
from fedrt.runs.rounds import EdgeRound, GlobalRound, PastEdgeRound
from fedrt.runs.state import DecisionPoint, RunState
from fedrt.scenario import Scenario
from fedrt.system.extras import need
from fedrt.world.observation import Observation
from fedrt.world.simulated import SimulatedWorld
from fedrt.world.world import World

FloatArray = NDArray[np.float64]

Past = Sequence[Sequence[PastEdgeRound]]
"""The edge rounds of all global rounds that have ended."""
Restore = Callable[[RunState], RunState]
"""Gives a state what was saved of it."""


def make_world(scenario: Scenario, seed: int, data_dir: Path | None = None) -> SimulatedWorld:
    """The simulated world of a scenario, after measuring the settings given as "measured"."""
    if scenario.needs_measuring:
        need('"measured" settings', "torch")
        from fedrt.learning.material import measure

        scenario = measure(scenario, data_dir)
    return SimulatedWorld(scenario, seed)


def simulate_rounds(
    world: SimulatedWorld, policy: Policy, models: Models | None = None
) -> Iterator[GlobalRound]:
    """Yield every global round of a run in a simulated world; without models nothing is trained."""
    return run_rounds(world, policy, SimulatedExecutor(world, models))


def run_rounds(
    world: World,
    policy: Policy,
    executor: Executor,
    *,
    past: Past = (),
    state: RunState | None = None,
    restore: Restore | None = None,
) -> Iterator[GlobalRound]:
    """Yield every global round of a run, one after the other.

    Rounds in `past` have ended and are taken from there; `restore` then gives the state what was
    saved of it. Without `restore` the policy plans them again, and so does a user's own that may
    remember rounds in itself. With a state of earlier rounds the run continues after those.
    """
    if world.scenario.control.budgets == "strict":
        _refuse_hopeless_budgets(world)
    if state is None:
        state = RunState.of_policy(world, policy, executor.start)
    run = _Run(world, policy, executor, past, restore is None or not is_pure(policy))
    while not state.ended:
        before, done = state.ledger, []
        while True:
            point, turn, state = run.edge_round(state)
            done.append(turn)
            if state.ledger.t > before.t:
                break
        if restore is not None and state.ledger.t == len(past):
            state = restore(state)
        metrics = dict(turn.outcome.metrics)
        if metrics:
            metrics["distance_error"] = point.state.belief.mean_error
        ends_at_s = state.ledger.time_s
        distances = point.state.belief.distances
        time_s = ends_at_s - before.time_s
        yield GlobalRound(tuple(done), time_s, ends_at_s, distances, metrics, state)


@dataclass(frozen=True)
class _Run:
    """The parts of a run that all its edge rounds share."""

    world: World
    policy: Policy
    executor: Executor
    past: Past
    replans: bool
    """Whether the policy plans the rounds of the past again."""

    def edge_round(self, state: RunState) -> tuple[DecisionPoint, EdgeRound, RunState]:
        """Observe, plan, carry out and charge one edge round, or take it from the past."""
        t, r = state.ledger.t, state.ledger.r
        if t < len(self.past):
            over = self.past[t][r]
            point = state.recall(over.seen, replans=self.replans)
            memory = self._ask(point)[1] if self.replans else state.memory
            return self._ended(point, over.plan, over.outcome, memory)
        point = state.observe(self.world)
        plan, memory = self._ask(point)
        allowance_j = point.books.allowance_j(self.policy.energy_horizon)
        outcome = self._run(point.seen, plan, allowance_j, state.ledger)
        return self._ended(point, plan, outcome, memory)

    def _ask(self, point: DecisionPoint) -> tuple[Plan, Any]:
        when = f", global round {point.seen.t}, edge round {point.seen.r}"
        return ask(self.policy, point.seen, point.books, point.state.memory, when)

    def _ended(
        self, point: DecisionPoint, plan: Plan, outcome: Outcome, memory: Any
    ) -> tuple[DecisionPoint, EdgeRound, RunState]:
        allowance_j = point.books.allowance_j(self.policy.energy_horizon)
        after = point.after(plan, outcome, memory)
        return point, EdgeRound(point.seen, plan, outcome, allowance_j, after.ledger), after

    def _run(
        self, seen: Observation, plan: Plan, allowance_j: FloatArray, ledger: Ledger
    ) -> Outcome:
        """Carry out a plan; raise an error if it breaks a limit and the budgets are strict.

        A user's policy may call a plan feasible that is not, and real devices may spend more than
        planned: the ledger decides, before and after.
        """
        if self.world.scenario.control.budgets != "strict":
            return self.executor.run(seen, plan)
        planned = ledger.charge(as_planned(plan, seen, price(plan, seen)))
        if plan.status == "best-effort" or bool(planned.overspent_j.any()):
            _refuse_plan(seen, plan, allowance_j, planned, self.policy)
        outcome = self.executor.run(seen, plan)
        after = ledger.charge(outcome)
        if bool(after.overspent_j.any()):
            _refuse_plan(seen, plan, allowance_j, after, self.policy)
        return outcome


def _refuse_plan(
    seen: Observation, plan: Plan, allowance_j: FloatArray, books: Ledger, policy: Policy
) -> None:
    where = f"global round {seen.t}, edge round {seen.r}"
    first = seen.first_device
    lines = broken_limits(
        seen,
        allowance_j,
        plan,
        lambda c, i: f"{where}: energy allowance of edge {c}, device {seen.device[first[c] + i]}",
        f"{where}: consensus limit",
        f"{where}: contraction limit",
    ) or [
        f"{where}: device {n}: its budget is {books.budget_j[n]:.6g} J, but policy {policy.name}"
        f" has spent {books.spent_j[n]:.6g} J"
        for n in np.flatnonzero(books.overspent_j).tolist()
    ]
    raise InfeasibleError(lines or f"{where}: policy {policy.name} calls its plan best-effort")


def _refuse_hopeless_budgets(world: World) -> None:
    """Raise an error about budgets too small for a whole run at the lowest CPU frequency."""
    rounds, fleet = world.scenario.rounds, world.fleet
    edge_rounds = rounds.global_rounds * rounds.edge_rounds * world.participation
    need_j = edge_rounds * fleet.capacitance / 2 * world.cycles * fleet.cpu_min_hz**2
    if fleet.cpu is not None:
        need_j = fleet.cpu.energy_j(edge_rounds * world.cycles, fleet.cpu_min_hz, need_j)
    short = np.flatnonzero(fleet.energy_budget_j < need_j).tolist()
    if short:
        raise InfeasibleError(
            f"device {n}: its budget is {fleet.energy_budget_j[n]:.6g} J, but computing at"
            f" cpu_min_hz alone takes {need_j[n]:.6g} J in {edge_rounds[n]:.6g} edge rounds; give"
            " more, lower cpu_min_hz, or set control.budgets = best-effort"
            for n in short
        )
