"""Executors, which carry out plans, and the interface of the models that they train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.outcome import failure_rules, simulate
from fedrt.plan import Gossip, Plan
from fedrt.rounds import NOT_STEPPED, ModelDistances, Outcome, Updates
from fedrt.world.observation import Observation
from fedrt.world.simulated import SimulatedWorld

FloatArray = NDArray[np.float64]


class Executor(Protocol):
    """Carries out plans and returns what happened."""

    @property
    def start(self) -> ModelDistances:
        """The distances between the edge models before the first round."""
        ...

    def run(self, seen: Observation, plan: Plan) -> Outcome:
        """Carry out the plan of one edge round, with the gossip if it has one."""
        ...


class Models(Protocol):
    """The edge servers' models: trained ones, or a stand-in without training."""

    @property
    def start(self) -> ModelDistances:
        """The distances between the models before the first round."""
        ...

    def train(self, seen: Observation, plan: Plan, outcome: Outcome) -> Updates | None:
        """Train the devices whose updates arrive and aggregate them; None if nothing is trained."""
        ...

    def distances(self, t: int) -> ModelDistances:
        """The present distances between the models, for the choice of links in global round t."""
        ...

    def mix(self, t: int, gossip: Gossip) -> Mapping[str, float]:
        """Carry out the gossip that ends global round t; return the metrics to record."""
        ...


class StandIn:
    """A stand-in for models in runs without training: distances are drawn and known to all."""

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
    """A stand-in for models whose distances in every global round are given.

    Metrics of the rounds may be given too.
    """

    by_round: Sequence[FloatArray]
    metrics: Sequence[Mapping[str, float]] = ()
    stepped_up: NDArray[np.int64] | None = None
    """One row for each device that was stepped up: global round, edge round, device, and codec."""

    @property
    def start(self) -> ModelDistances:
        return self.distances(0)

    def train(self, seen: Observation, plan: Plan, outcome: Outcome) -> Updates | None:
        if self.stepped_up is None:
            return None
        now = self.stepped_up[(self.stepped_up[:, :2] == (seen.t, seen.r)).all(axis=1)]
        found = np.full(seen.num_devices, NOT_STEPPED)
        for device, step in now[:, 2:].tolist():
            found[seen.device == device] = step
        return Updates(stepped_up=found) if len(now) else None

    def distances(self, t: int) -> ModelDistances:
        return known_to_all(self.by_round[min(t, len(self.by_round) - 1)])

    def mix(self, t: int, gossip: Gossip) -> Mapping[str, float]:
        return self.metrics[t] if self.metrics else {}


def known_to_all(distance: FloatArray) -> ModelDistances:
    """Distances that every pair of servers has measured."""
    return ModelDistances(distance, np.ones(distance.shape, dtype=bool))


class SimulatedExecutor:
    """Carries out plans in a simulated world, with times and energies of the cost model."""

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
            outcome = outcome_with(outcome, updates, seen.laws.header_factor)
        # Links are chosen before the last edge round, by what the servers hold as it begins; with
        # one edge round, by what they held before the gossip of the global round before.
        if self.edge_rounds > 1 and seen.r == self.edge_rounds - 2:
            outcome = replace(outcome, distances=self.models.distances(seen.t))
        if self.edge_rounds == 1:
            outcome = replace(outcome, distances=self.models.distances(seen.t + 1))
        if plan.gossip is not None:
            outcome = replace(outcome, metrics=self.models.mix(seen.t, plan.gossip))
        return outcome


def outcome_with(outcome: Outcome, updates: Updates, header_factor: float = 1.0) -> Outcome:
    """The outcome with the results of training: refused updates, bytes sent, and codecs.

    `header_factor`: bytes on the air over those of messages.
    """
    cost = outcome.cost
    if updates.upload_bytes is not None:
        cost = replace(cost, upload_bytes=updates.upload_bytes * header_factor)
    stepped_up = updates.stepped_up
    return replace(outcome, refused=updates.refused, cost=cost, stepped_up=stepped_up)
