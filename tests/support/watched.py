"""A trainer whose models are kept at every moment, and an engine whose orders are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from fedrt.control.topology.consensus import DistanceEstimate
from fedrt.learning.setup import Setup, make_setup
from fedrt.learning.trainer import Trainer
from fedrt.plan import Gossip, Plan
from fedrt.policies import make_policy
from fedrt.rounds import ModelDistances, Outcome, Updates
from fedrt.runs.belief import Belief
from fedrt.runs.loop import simulate_rounds
from fedrt.runs.rounds import GlobalRound
from fedrt.scenario import Scenario
from fedrt.world.observation import Observation
from fedrt.world.simulated import SimulatedWorld
from support.learning_cases import small

UNEVEN = (
    "rounds={global_rounds=2,edge_rounds=2,local_steps=10,gossip_steps=1}",
    "fleet.energy_j_per_edge_round=0.2",
)


class SpyEngine:
    """An engine that writes down the orders it gets."""

    def __init__(self, engine) -> None:
        self.engine, self.name, self.orders = engine, engine.name, []

    def train(self, models, order):
        self.orders.append(order)
        return self.engine.train(models, order)


class Watched(Trainer):
    """A trainer that keeps the models of every moment."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.moments: dict[tuple[str, int, int], torch.Tensor] = {("start", 0, 0): self.models}

    def train(self, seen: Observation, plan: Plan, outcome: Outcome) -> Updates:
        updates = super().train(seen, plan, outcome)
        self.moments["trained", seen.t, seen.r] = self.models
        return updates

    def mix(self, t: int, gossip: Gossip) -> Mapping[str, float]:
        metrics = super().mix(t, gossip)
        self.moments["mixed", t, self.setup.world.scenario.rounds.edge_rounds - 1] = self.models
        return metrics


def spied(scenario: Scenario, seed: int = 0) -> tuple[Setup, SpyEngine]:
    setup = make_setup(SimulatedWorld(scenario, seed))
    spy = SpyEngine(setup.engine)
    return replace(setup, engine=spy), spy


def run(scenario: Scenario, policy: str = "fedrt") -> tuple[Watched, list[GlobalRound]]:
    trainer = Watched(make_setup(SimulatedWorld(scenario, 0)))
    return trainer, list(simulate_rounds(trainer.setup.world, make_policy(policy), trainer))


def replay(trainer: Trainer, rounds: list[GlobalRound]) -> list[tuple[list[np.ndarray], dict]]:
    """The same turns carried out by another trainer: distances after each, and the metrics."""
    said = []
    for done in rounds:
        true = []
        for turn in done.edge_rounds:
            trainer.train(turn.seen, turn.plan, turn.outcome)
            true.append(trainer.distances(turn.t).true)
        said.append((true, dict(trainer.mix(done.last.t, done.last.gossip))))
    return said


def distances_by_hand(trainer: Watched, models: torch.Tensor) -> np.ndarray:
    """The L2 norm between parameters, buffers left out."""
    rows = models[:, : trainer.setup.model.num_parameters].double().numpy()
    return np.array([[np.linalg.norm(one - two) for two in rows] for one in rows])


def placed(places: list[float]) -> Trainer:
    """A trainer whose edge models differ in one parameter only."""
    trainer = Trainer(make_setup(SimulatedWorld(small(), 0)))
    trainer.models[:, 5] = trainer.setup.first_model[5] + torch.tensor(places)
    trainer.steps = 1
    return trainer


LINE = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)


def belief_of(trainer: Trainer, estimate: DistanceEstimate | None = None) -> Belief:
    """The belief after a gossip over 0 - 1 - 2, with the models that the trainer holds."""
    unknown = DistanceEstimate.unknown(3)
    return Belief(estimate or unknown, LINE, ModelDistances(trainer.distances(0).true))
