"""The loop: observe, plan, price, charge. docs/architecture.md shows it in one picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fedrt.control.consensus import consensus_limit
from fedrt.control.limits import broken_limits
from fedrt.control.mixing import mixing_of, slowest_contraction
from fedrt.cost.outcome import Deadline, Outcome, carry_out
from fedrt.cost.round import price
from fedrt.errors import InfeasibleError
from fedrt.extras import need
from fedrt.ledger import Horizon, Ledger, PartOfBooks
from fedrt.plan import Plan
from fedrt.policies import Policy
from fedrt.policies.base import ask, uses_contraction_limit
from fedrt.policies.fedrt import FedRT
from fedrt.scenario import Scenario
from fedrt.turns import Distances, EdgeRound, GlobalRound, Learner, none_refused
from fedrt.world.faults import Failures
from fedrt.world.observation import Backhaul, Observation
from fedrt.world.world import World

FloatArray = NDArray[np.float64]

LEAST_RHO = 1e-9

_FOUND: WeakKeyDictionary[World, float] = WeakKeyDictionary()


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
    rho = contraction_limit(world) if uses_contraction_limit(policy) else None
    for t in range(ledger.t, scenario.rounds.global_rounds):
        began_at_s, done = ledger.time_s, []
        for r in range(scenario.rounds.edge_rounds - 1):
            done.append(take_turn(world, t, r, ledger, policy))
            ledger = done[-1].after
            learner.train(done[-1])
        distances = learner.distances(t)
        last = scenario.rounds.edge_rounds - 1
        done.append(take_turn(world, t, last, ledger, policy, distances.believed, rho))
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
    distance: FloatArray | None = None,
    rho: float | None = None,
) -> EdgeRound:
    """Observe, plan, price and charge one edge round; with distances, the last of a global one."""
    expected = world.taking_part(t, r)
    failures = world.failures(t, r, expected)
    who = expected if failures is None else failures.who
    seen = world.observe(t, r, who)
    if distance is not None:
        seen = replace(seen, backhaul=see_backhaul(world, t, distance, rho))
    books = PartOfBooks(ledger, who)
    plan = ask(policy, seen, books, f", global round {t}, edge round {r}")
    allowance_j = books.allowance_j(policy.energy_horizon)
    outcome = _outcome(world, plan, seen, failures)
    cost = price(plan, seen) if outcome is None else outcome.cost
    energy_j = np.zeros_like(ledger.spent_j)
    energy_j[who] = cost.energy_j
    after = ledger.charge(energy_j, cost.edge_time_s, cost.backhaul_s)
    turn = EdgeRound(t, r, who, seen, plan, cost, allowance_j, after, failures, outcome)
    # A user's policy may call a plan feasible that is not: the books decide.
    broken = plan.status == "best-effort" or bool(after.overspent_j.any())
    if broken and world.scenario.control.budgets == "strict":
        _refuse_plan(turn, policy)
    return turn


def _outcome(
    world: World, plan: Plan, seen: Observation, failures: Failures | None
) -> Outcome | None:
    """What becomes of the plan in a world where devices fail."""
    faults = world.scenario.faults
    if faults is None or failures is None:
        return None
    deadline = Deadline(faults.deadline_s, faults.deadline_factor)
    late = (failures.silent, failures.cpu_fraction, deadline)
    return carry_out(plan, seen, *late, faults.silent_spends)


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


def contraction_limit(world: World) -> float:
    """Rho of a world: as the scenario gives it, or the median zeta^psi of FedRT's own rounds.

    FedRT's are planned without training, so rho depends on scenario and seed alone. Found once for
    each world.
    """
    given = world.scenario.control.contraction_limit
    if not isinstance(given, str):
        return given
    if world not in _FOUND:
        control = replace(world.scenario.control, budgets="best-effort")
        relaxed = replace(world.scenario, control=control)
        plans = [
            done.last.plan for done in run_rounds(World(relaxed, world.seed, world.fleet), FedRT())
        ]
        left = []
        for plan in plans:
            assert plan.topology is not None
            zeta = slowest_contraction(mixing_of(plan, control.mixing), plan.topology)
            left.append(zeta**plan.gossip_steps)
        # A graph that averages exactly leaves nothing; rho has to stay above what rounding leaves.
        _FOUND[world] = min(1.0, max(float(np.median(left)), LEAST_RHO))
    return _FOUND[world]


def see_backhaul(world: World, t: int, distance: FloatArray, rho: float | None = None) -> Backhaul:
    """The links of global round t with the limit that the scenario's kappa sets.

    Where all distances are zero nothing is known about the pairs and nothing may be pruned: every
    link then counts the same and the limit is what the base graph leaves.
    """
    kappa = world.scenario.control.kappa
    if not distance.any():
        distance, kappa = 1.0 - np.eye(len(distance)), 0.0
    limit = consensus_limit(world.links_up(t), distance, kappa)
    return Backhaul(world.backhaul_bps(t), distance, limit, rho)


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
