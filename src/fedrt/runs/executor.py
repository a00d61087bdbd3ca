"""Who carries out a plan: the simulated executor, and what it needs of the models it trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.outcome import failure_rules, simulate
from fedrt.plan import Gossip, Plan
from fedrt.rounds import ModelDistances, Outcome, Updates
from fedrt.world.observation import Observation
from fedrt.world.simulated import SimulatedWorld

FloatArray = NDArray[np.float64]


class Executor(Protocol):
    """Carries out plans, and tells what happened."""

    @property
    def start(self) -> ModelDistances:
        """How far the edge models are apart before the first round."""
        ...

    def run(self, seen: Observation, plan: Plan) -> Outcome:
        """Carry out the plan of one edge round, with the gossip if it has one."""
        ...


class Models(Protocol):
    """The edge servers' models: really trained ones, or what stands in for them."""

    @property
    def start(self) -> ModelDistances:
        """How far they are apart before the first round."""
        ...

    def train(self, seen: Observation, plan: Plan, outcome: Outcome) -> Updates | None:
        """Train the devices whose updates arrive, and average them; None where nothing trains."""
        ...

    def distances(self, t: int) -> ModelDistances:
        """How far they are apart now, for the choice of links in global round t."""
        ...

    def mix(self, t: int, gossip: Gossip) -> Mapping[str, float]:
        """Carry out the gossip that ends global round t; what is to be recorded of the round."""
        ...


class StandIn:
    """No training: distances are drawn, and every pair of servers knows them."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world

    @property
    def start(self) -> ModelDistances:
        return self.distances(0)

    def train(self, seen: Observation, plan: Plan, outcome: Outcome) -> None:
        return None

    def distances(self, t: int) -> ModelDistances:
        return known_to_all(self.world.stand_in_distance(t))

    def mix(self, t: int, gossip: Gossip) -> Mapping[str, float]:
        return {}


@dataclass(frozen=True)
class Recorded:
    """No training: the distances of every global round are given, and perhaps its metrics."""

    by_round: Sequence[FloatArray]
    metrics: Sequence[Mapping[str, float]] = ()

    @property
    def start(self) -> ModelDistances:
        return self.distances(0)

    def train(self, seen: Observation, plan: Plan, outcome: Outcome) -> None:
        return None

    def distances(self, t: int) -> ModelDistances:
        return known_to_all(self.by_round[min(t, len(self.by_round) - 1)])

    def mix(self, t: int, gossip: Gossip) -> Mapping[str, float]:
        return self.metrics[t] if self.metrics else {}


def known_to_all(distance: FloatArray) -> ModelDistances:
    """Distances that every pair of servers can tell."""
    return ModelDistances(distance, np.ones(distance.shape, dtype=bool))


class SimulatedExecutor:
    """Carries out plans in a simulated world: the cost model tells times and energies."""

    def __init__(self, world: SimulatedWorld, models: Models | None = None) -> None:
        self.world, self.models = world, models or StandIn(world)
        self.rules = failure_rules(world.scenario)
        self.edge_rounds = world.scenario.rounds.edge_rounds

    @property
    def start(self) -> ModelDistances:
        return self.models.start

    def run(self, seen: Observation, plan: Plan) -> Outcome:
        outcome = simulate(plan, seen, self.world.failures(seen), self.rules)
        updates = self.models.train(seen, plan, outcome)
        if updates is not None:
            outcome = outcome_with(outcome, updates)
        # Links are chosen before the last edge round, by what the servers hold as it begins; with
        # one edge round, by what they held before the gossip of the global round before.
        if self.edge_rounds > 1 and seen.r == self.edge_rounds - 2:
            outcome = replace(outcome, distances=self.models.distances(seen.t))
        if self.edge_rounds == 1:
            outcome = replace(outcome, distances=self.models.distances(seen.t + 1))
        if plan.gossip is not None:
            outcome = replace(outcome, metrics=self.models.mix(seen.t, plan.gossip))
        return outcome


def outcome_with(outcome: Outcome, updates: Updates) -> Outcome:
    """The outcome with what training says of the updates."""
    cost = outcome.cost
    if updates.upload_bytes is not None:
        cost = replace(cost, upload_bytes=updates.upload_bytes)
    return replace(outcome, refused=updates.refused, cost=cost)
