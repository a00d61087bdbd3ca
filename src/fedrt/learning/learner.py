"""The training side of a run: the edge models, what is known of their distances, and accuracy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedrt.control.consensus import DistanceEstimate
from fedrt.control.mixing import mixing_of
from fedrt.learning.aggregate import average, distance_to_average, pairwise_distance
from fedrt.learning.aggregators import averaging_weights
from fedrt.learning.codecs import first_states
from fedrt.learning.engine import ACCEPTED, Screening, Trained, TrainingOrder
from fedrt.learning.gossip import mix
from fedrt.learning.setup import Setup
from fedrt.turns import (
    Distances,
    EdgeRound,
    digest,
    key_after_mixing,
    key_after_training,
    none_refused,
)
from fedrt.world.world import World

FloatArray = NDArray[np.float64]


class Trainer:
    """Algorithm 1 over the plans of a run. Implements the loop's `Learner`.

    `shared` lets several trainers of one setup do equal work once: every state of the edge models
    has a key made from all that led to it, so equal keys are equal models.
    """

    def __init__(self, setup: Setup, shared: dict[bytes, Any] | None = None) -> None:
        self.setup, self.shared = setup, shared
        edges = setup.world.fleet.num_edges
        self.models = setup.first_model.repeat(edges, 1)
        self.key = b"start"
        self.estimate = DistanceEstimate.unknown(edges)
        self.linked = setup.world.base_graph
        self.before_mixing = np.zeros((edges, edges))
        self.last_true = self.before_mixing
        sizes = (setup.world.fleet.num_devices, setup.model.num_parameters)
        self.codec_state = first_states(setup.method.codec, *sizes)
        self.loss_sum, self.steps = 0.0, 0
        self.refusals: list[NDArray[np.int64]] = []
        self.began = time.monotonic()

    def distances(self, t: int) -> Distances:
        """What linked pairs measure and the estimate for the others.

        Of the models that the servers hold as the last edge round starts; with one edge round, of
        those just before the previous mixing.
        """
        if self.setup.world.scenario.rounds.edge_rounds > 1:
            true = pairwise_distance(self._parameters())
        else:
            true = self.before_mixing
        # Servers that cannot reach each other now cannot compare their models.
        self.linked = self.linked & self.setup.world.links_up(t)
        if true.any():
            self.estimate = self.estimate.update(true, self.linked)
        self.last_true = true
        return Distances(self.estimate.distance, true)

    def train(self, turn: EdgeRound) -> None:
        """Train every device whose update arrives from its edge's model, and average per edge."""
        order = self._order(turn)
        self.key = key_after_training(self.key, turn)
        if not len(order.devices):
            return
        trained = self._once(self.key, lambda: self.setup.engine.train(self.models, order))
        self.models = trained.models
        if self.codec_state is not None:
            self.codec_state[order.devices] = trained.devices.codec_state
        counted = self._counted(turn, order, trained)
        self.loss_sum += float(trained.loss_sum[counted].sum())
        self.steps += int(order.local_steps[counted].sum())

    def _counted(
        self, turn: EdgeRound, order: TrainingOrder, trained: Trained
    ) -> NDArray[np.bool_]:
        """Whose update was not refused; the others are written down."""
        bad = trained.refused != ACCEPTED
        r = np.full(int(bad.sum()), turn.r)
        self.refusals.append(np.column_stack([r, order.devices[bad], trained.refused[bad]]))
        return ~bad

    def refused(self, t: int) -> NDArray[np.int64]:
        """The updates refused since last asked, a row each (`turns.Learner`)."""
        found, self.refusals = self.refusals, []
        return np.concatenate([none_refused(), *found])

    def mix(self, turn: EdgeRound) -> Mapping[str, float]:
        """Mix the edge models over the turn's links; loss, accuracies and distances."""
        scenario, topology = self.setup.world.scenario, turn.plan.topology
        assert topology is not None
        if scenario.rounds.edge_rounds == 1:
            self.before_mixing = pairwise_distance(self._parameters())
        mixing = mixing_of(turn.plan, scenario.control.mixing)
        psi = turn.plan.gossip_steps
        self.key = key_after_mixing(self.key, turn)
        self.models = self._once(self.key, lambda: mix(self.models, mixing, psi))
        unmeasured = ~self.linked & ~np.eye(len(topology), dtype=bool)
        gap = self.estimate.distance - self.last_true
        metrics = {
            "loss": self.loss_sum / self.steps if self.steps else np.nan,
            "consensus": distance_to_average(self._parameters()),
            "distance_error": float(gap[unmeasured].mean()) if unmeasured.any() else np.nan,
        }
        metrics |= self._accuracies(turn.t)
        self.linked = topology
        self.loss_sum, self.steps = 0.0, 0
        now = time.monotonic()
        metrics["wall_s"], self.began = now - self.began, now
        return metrics

    def _accuracies(self, t: int) -> dict[str, float]:
        """Of the average model and, mean, least and greatest, of the edges'; NaN between times."""
        rounds, learning = self.setup.world.scenario.rounds, self.setup.world.scenario.learning
        names = ("accuracy", "edge_accuracy_mean", "edge_accuracy_min", "edge_accuracy_max")
        if (t + 1) % learning.evaluate_every and t + 1 < rounds.global_rounds:
            return dict.fromkeys(names, np.nan)

        def measure() -> list[float]:
            states = torch.cat([average(self.models)[None], self.models])
            of_average, *of_edges = self.setup.accuracies(states)
            return [of_average, float(np.mean(of_edges)), min(of_edges), max(of_edges)]

        return dict(zip(names, self._once(digest(self.key, "accuracy"), measure), strict=True))

    def _order(self, turn: EdgeRound) -> TrainingOrder:
        came = turn.delivered
        who, edge_of_device = turn.who[came], turn.seen.edge_of_device[came]
        world, samples = self.setup.world, self.setup.batches.sizes[who]
        weight = averaging_weights(edge_of_device, self.setup.method.aggregator, samples)
        return TrainingOrder(
            t=turn.t,
            r=turn.r,
            devices=who,
            edge_of_device=edge_of_device,
            local_steps=turn.plan.local_steps[came],
            weight=weight,
            then=self._next(turn),
            screening=screening_of(world),
            attackers=None if world.faults is None else world.faults.attackers[who],
            codec_state=None if self.codec_state is None else self.codec_state[who],
        )

    def _next(self, turn: EdgeRound) -> tuple[int, int] | None:
        """The edge round after this one."""
        rounds = self.setup.world.scenario.rounds
        if turn.r + 1 < rounds.edge_rounds:
            return turn.t, turn.r + 1
        return (turn.t + 1, 0) if turn.t + 1 < rounds.global_rounds else None

    def _parameters(self) -> torch.Tensor:
        return self.models[:, : self.setup.model.num_parameters]

    def _once(self, key: bytes, work: Any) -> Any:
        if self.shared is None:
            return work()
        if key not in self.shared:
            self.shared[key] = work()
        return self.shared[key]

    def state(self) -> dict[str, NDArray[Any]]:
        """All that the rest of a run depends on, after a mixing."""
        remembered = {} if self.codec_state is None else {"codec_state": self.codec_state}
        return {
            **remembered,
            "models": self.models.cpu().numpy(),
            "distance": self.estimate.distance,
            "measured_once": self.estimate.measured_once,
            "linked": self.linked,
            "before_mixing": self.before_mixing,
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over a saved state."""
        models = torch.from_numpy(np.array(state["models"]))
        self.models = models.to(device=self.models.device, dtype=self.models.dtype)
        self.estimate = DistanceEstimate(
            np.array(state["distance"]), np.array(state["measured_once"])
        )
        self.linked = np.array(state["linked"])
        self.before_mixing = np.array(state["before_mixing"])
        # What led here is not known any more, but the models themselves are as good a key.
        remembered = []
        if self.codec_state is not None:
            self.codec_state = np.array(state["codec_state"])
            remembered = [self.codec_state]
        self.key = digest(b"restored", np.ascontiguousarray(state["models"]), *remembered)
        self.began = time.monotonic()


def screening_of(world: World) -> Screening | None:
    """How the scenario has updates looked at; None where all of them count."""
    faults = world.scenario.faults
    if faults is None or (not faults.refuse and faults.attack is None):
        return None
    most_norm = faults.refuse_norm if faults.refuse else None
    return Screening(most_norm=most_norm, attack=faults.attack, seed=world.seed)
