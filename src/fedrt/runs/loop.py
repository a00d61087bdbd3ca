"""The loop of a run: observe, plan, carry out, charge. docs/architecture.md draws it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.limits import broken_limits
from fedrt.control.coding.menu import menu_of
from fedrt.control.topology.consensus import see_backhaul
from fedrt.cost.round import price
from fedrt.errors import InfeasibleError
from fedrt.ledger import Horizon, Ledger, PartOfBooks
from fedrt.plan import Plan
from fedrt.policies import Policy
from fedrt.policies.base import ask, chooses_codecs, uses_contraction_limit
from fedrt.rounds import Outcome, as_planned
from fedrt.runs.belief import Belief
from fedrt.runs.executor import Executor, Models, SimulatedExecutor
from fedrt.runs.least_codecs import LeastCodecs
from fedrt.runs.reference import Reference, contraction_limit, reference_for
from fedrt.runs.rounds import EdgeRound, GlobalRound, PastEdgeRound
from fedrt.runs.suspensions import Suspensions
from fedrt.scenario import Scenario
from fedrt.system.extras import need
from fedrt.world.observation import Backhaul, Menu, Observation
from fedrt.world.simulated import SimulatedWorld
from fedrt.world.world import World

FloatArray = NDArray[np.float64]

Past = Sequence[Sequence[PastEdgeRound]]
"""The edge rounds of all global rounds that have ended."""


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


def run_rounds(
    world: World,
    policy: Policy,
    executor: Executor,
    *,
    past: Past = (),
    ledger: Ledger | None = None,
    belief: Belief | None = None,
    least: LeastCodecs | None = None,
    suspended: Suspensions | None = None,
) -> Iterator[GlobalRound]:
    """Yield every global round of a run, one after the other.

    Rounds in `past` have ended: the policy plans them again, which restores whatever it remembers,
    and everything else is taken from there. With a ledger, a belief, least codecs and suspensions
    of earlier rounds the run continues after those.
    """
    ledger = open_ledger(world) if ledger is None else ledger
    belief = Belief.first(world.base_graph, executor.start) if belief is None else belief
    least = LeastCodecs.first(world) if least is None else least
    suspended = Suspensions.first(world) if suspended is None else suspended
    if world.scenario.control.budgets == "strict":
        _refuse_hopeless_budgets(world)
    menu = menu_of(world.scenario) if chooses_codecs(policy) else None
    run = _Run(world, policy, executor, reference_for(policy, world, ledger), past, menu)
    for t in range(ledger.t, world.scenario.rounds.global_rounds):
        began_at_s, done = ledger.time_s, []
        for r in range(world.scenario.rounds.edge_rounds - 1):
            done.append(run.edge_round(t, r, ledger, least, suspended))
            ledger, belief = done[-1].after, belief.after(done[-1].outcome)
            least = least.after(done[-1].outcome)
            suspended = suspended.after(done[-1].seen, done[-1].outcome)
        bps = run.backhaul_bps(t)
        belief = belief.update(bps > 0)
        distances, error = belief.distances, belief.mean_error
        backhaul = see_backhaul(world.scenario, bps, distances.believed, world.gossip_latency_s)
        last_r = world.scenario.rounds.edge_rounds - 1
        done.append(run.edge_round(t, last_r, ledger, least, suspended, backhaul))
        last = done[-1]
        least = least.after(last.outcome)
        suspended = suspended.after(last.seen, last.outcome)
        ledger, belief = last.after, belief.after(last.outcome).after_gossip(last.gossip.links)
        metrics = dict(last.outcome.metrics)
        if metrics:
            metrics["distance_error"] = error
        time_s = ledger.time_s - began_at_s
        states = (distances, metrics, belief, least, suspended)
        yield GlobalRound(tuple(done), time_s, ledger.time_s, *states)


@dataclass(frozen=True)
class _Run:
    """The parts of a run that all its edge rounds share."""

    world: World
    policy: Policy
    executor: Executor
    reference: Reference | None
    past: Past
    menu: Menu | None

    def edge_round(
        self,
        t: int,
        r: int,
        ledger: Ledger,
        least: LeastCodecs,
        suspended: Suspensions,
        backhaul: Backhaul | None = None,
    ) -> EdgeRound:
        """Observe, plan, carry out and charge one edge round; a backhaul marks the last one."""
        over = self.past[t][r] if t < len(self.past) else None
        if over is None:
            seen = suspended.seen(self.world.observe(t, r))
            seen = least.seen(replace(seen, backhaul=backhaul))
        else:
            seen = over.seen
        seen = self._with_menu(seen)
        beside = None if self.reference is None else self.reference.plan(seen)
        if over is None:
            seen = self._with_contraction_limit(seen)
        books = PartOfBooks(ledger, seen.device, beside)
        plan = ask(self.policy, seen, books, f", global round {t}, edge round {r}")
        allowance_j = books.allowance_j(self.policy.energy_horizon)
        if over is None:
            outcome = self._run(seen, plan, allowance_j, ledger)
        else:
            plan, outcome = over.plan, over.outcome
        if self.reference is not None:
            self.reference.charge(seen, outcome.failures)
        return EdgeRound(seen, plan, outcome, allowance_j, ledger.charge(outcome))

    def backhaul_bps(self, t: int) -> FloatArray:
        """The link speeds in global round t, from the records or from the world."""
        if t < len(self.past):
            backhaul = self.past[t][-1].seen.backhaul
            assert backhaul is not None
            return backhaul.bps
        return self.world.backhaul_bps(t)

    def _with_menu(self, seen: Observation) -> Observation:
        """What is observed, with the menu of codecs for a policy that chooses them."""
        return seen if self.menu is None else replace(seen, menu=self.menu)

    def _with_contraction_limit(self, seen: Observation) -> Observation:
        if seen.backhaul is None or not uses_contraction_limit(self.policy):
            return seen
        rho = contraction_limit(self.world.scenario, self.reference)
        return replace(seen, backhaul=replace(seen.backhaul, contraction_limit=rho))

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
