"""The loop: observe, plan, price, charge. docs/architecture.md shows it in one picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fedrt.control.consensus import consensus_limit
from fedrt.control.limits import broken_limits
from fedrt.errors import InfeasibleError
from fedrt.extras import need
from fedrt.ledger import Horizon, Ledger, PartOfBooks
from fedrt.policies import Policy
from fedrt.policies.base import ask, uses_contraction_limit
from fedrt.runs.reference import (
    Reference,
    carry_out_plan,
    charge,
    contraction_limit,
    reference_for,
)
from fedrt.scenario import Scenario
from fedrt.turns import Distances, EdgeRound, GlobalRound, Learner, none_refused
from fedrt.world.observation import Backhaul
from fedrt.world.world import World

FloatArray = NDArray[np.float64]


class StandIn:
    """No training: distances are the world's stand-in."""

    def __init__(self, world: World) -> None:
        self.world = world

    def distances(self, t: int) -> Distances:
        distance = self.world.stand_in_distance(t)
        return Distances(distance, distance)

    def train(self, turn: EdgeRound) -> None:
        pass

    def mix(self, turn: EdgeRound) -> Mapping[str, float]:
        return {}

    def refused(self, t: int) -> NDArray[np.int64]:
        return none_refused()


def make_world(scenario: Scenario, seed: int, data_dir: Path | None = None) -> World:
    """The world of a scenario; what the scenario leaves to be measured is measured first."""
    if scenario.needs_measuring:
        need('"measured" settings', "torch")
        from fedrt.learning.measure import measure

        scenario = measure(scenario, data_dir)
    return World(scenario, seed)


def open_ledger(world: World) -> Ledger:
    """The books of a run before its first round."""
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
    world: World, policy: Policy, learner: Learner | None = None, books: Ledger | None = None
) -> Iterator[GlobalRound]:
    """Every global round of a run, one after the other; with books, those after them."""
    scenario, ledger = world.scenario, open_ledger(world) if books is None else books
    learner = learner or StandIn(world)
    if scenario.control.budgets == "strict":
        _refuse_hopeless_budgets(world)
    reference = reference_for(policy, world, ledger)
    for t in range(ledger.t, scenario.rounds.global_rounds):
        began_at_s, done = ledger.time_s, []
        for r in range(scenario.rounds.edge_rounds - 1):
            done.append(take_turn(world, t, r, ledger, policy, reference))
            ledger = done[-1].after
            learner.train(done[-1])
        distances = learner.distances(t)
        last = scenario.rounds.edge_rounds - 1
        done.append(take_turn(world, t, last, ledger, policy, reference, distances.believed))
        ledger = done[-1].after
        learner.train(done[-1])
        metrics = learner.mix(done[-1])
        time_s, refused = ledger.time_s - began_at_s, learner.refused(t)
        yield GlobalRound(tuple(done), time_s, ledger.time_s, distances, metrics, refused)


def take_turn(
    world: World,
    t: int,
    r: int,
    ledger: Ledger,
    policy: Policy,
    reference: Reference | None = None,
    distance: FloatArray | None = None,
) -> EdgeRound:
    """Observe, plan, price and charge one edge round; with distances, the last of a global one."""
    expected = world.taking_part(t, r)
    failures = world.failures(t, r, expected)
    who = expected if failures is None else failures.who
    seen = world.observe(t, r, who)
    if distance is not None:
        seen = replace(seen, backhaul=see_backhaul(world, t, distance))
    beside = None if reference is None else reference.take_turn(world, who, seen, failures)
    if seen.backhaul is not None and uses_contraction_limit(policy):
        rho = contraction_limit(world.scenario, reference)
        seen = replace(seen, backhaul=replace(seen.backhaul, contraction_limit=rho))
    books = PartOfBooks(ledger, who, beside)
    plan = ask(policy, seen, books, f", global round {t}, edge round {r}")
    allowance_j = books.allowance_j(policy.energy_horizon)
    cost, outcome = carry_out_plan(world, plan, seen, failures)
    after = charge(ledger, who, cost)
    turn = EdgeRound(t, r, who, seen, plan, cost, allowance_j, after, failures, outcome)
    # A user's policy may call a plan feasible that is not: the books decide.
    broken = plan.status == "best-effort" or bool(after.overspent_j.any())
    if broken and world.scenario.control.budgets == "strict":
        _refuse_plan(turn, policy)
    return turn


def _refuse_plan(turn: EdgeRound, policy: Policy) -> None:
    where, books = f"global round {turn.t}, edge round {turn.r}", turn.after
    first = turn.seen.first_device
    lines = broken_limits(
        turn.seen,
        turn.allowance_j,
        turn.plan,
        lambda c, i: f"{where}: energy allowance of edge {c}, device {turn.who[first[c] + i]}",
        f"{where}: consensus limit",
        f"{where}: contraction limit",
    ) or [
        f"{where}: device {n}: its budget is {books.budget_j[n]:.6g} J, but policy {policy.name}"
        f" has spent {books.spent_j[n]:.6g} J"
        for n in np.flatnonzero(books.overspent_j).tolist()
    ]
    raise InfeasibleError(lines or f"{where}: policy {policy.name} calls its plan best-effort")


def see_backhaul(world: World, t: int, distance: FloatArray) -> Backhaul:
    """The links of global round t with the limit that the scenario's kappa sets.

    Where all distances are zero nothing is known about the pairs and nothing may be pruned: every
    link then counts the same and the limit is what the base graph leaves.
    """
    kappa = world.scenario.control.kappa
    if not distance.any():
        distance, kappa = 1.0 - np.eye(len(distance)), 0.0
    limit = consensus_limit(world.links_up(t), distance, kappa)
    return Backhaul(world.backhaul_bps(t), distance, limit)


def _refuse_hopeless_budgets(world: World) -> None:
    """Budgets below what computing at f_min alone takes over the run, before it starts."""
    rounds, fleet = world.scenario.rounds, world.fleet
    edge_rounds = rounds.global_rounds * rounds.edge_rounds * world.participation
    need_j = edge_rounds * fleet.capacitance / 2 * world.cycles * fleet.cpu_min_hz**2
    short = np.flatnonzero(fleet.energy_budget_j < need_j).tolist()
    if short:
        raise InfeasibleError(
            f"device {n}: its budget is {fleet.energy_budget_j[n]:.6g} J, but computing at"
            f" cpu_min_hz alone takes {need_j[n]:.6g} J in {edge_rounds[n]:.6g} edge rounds; give"
            " more, lower cpu_min_hz, or set control.budgets = best-effort"
            for n in short
        )
