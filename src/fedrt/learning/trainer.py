"""The trainer: the edge models of a run, their training, gossip, distances and accuracy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedrt.control.mixing.weights import mixing_of
from fedrt.errors import InputError
from fedrt.learning.aggregators import averaging_weights
from fedrt.learning.codecs import Codec, ErrorFeedback
from fedrt.learning.coded_gossip import KnownModels, mix_coded
from fedrt.learning.devices import devices_of
from fedrt.learning.distances import distance_to_average, pairwise_distance
from fedrt.learning.engines.attacks import claimed_samples
from fedrt.learning.engines.edge_servers import EdgeServers, screening_of
from fedrt.learning.engines.engine import HoldsStates, Trained, TrainingOrder
from fedrt.learning.evaluate import is_evaluated, measure_models, measure_names
from fedrt.learning.gossip import mix
from fedrt.learning.setup import Setup
from fedrt.plan import Gossip, Plan
from fedrt.rounds import (
    ACCEPTED,
    NOT_STEPPED,
    ModelDistances,
    Outcome,
    Updates,
    digest,
    key_after_gossip,
    key_after_training,
)
from fedrt.scenario.sizes import variate_bits
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]


class Trainer(EdgeServers):
    """Trains the edge models of a run as its plans say (Algorithm 1 of the paper).

    `shared` lets several trainers of one setup do equal work once: every state of the edge models
    has a key made from all that led to it, so equal keys are equal models.
    """

    def __init__(self, setup: Setup, shared: dict[bytes, Any] | None = None) -> None:
        self.setup, self.shared = setup, shared
        fleet, scaffold = setup.world.fleet, bool(setup.world.scenario.learning.scaffold)
        size, clusters = setup.model.num_parameters, (fleet.edge_of_device, fleet.num_edges)
        super().__init__(setup.method, setup.first_model, size, *clusters, scaffold=scaffold)
        self.screening = screening_of(setup.world.scenario, setup.world.seed)
        self.screen(self.screening)
        self.key = b"start"
        self.codec_state: torch.Tensor | None = None
        self._remember(setup.method.codec)
        self.copies = KnownModels.none(self._first())
        """What the edge servers know of each other's models, where their gossip is coded."""
        self.devices = devices_of(setup)
        self.began = time.monotonic()

    def _remember(self, codec: Codec | None) -> None:
        """Set up what devices remember of their messages; nothing without a codec."""
        given = (self.num_devices, self.num_parameters, self.models)
        self.codec_state = self.setup.method.chain.first_states(codec, *given)
        if self.codec_state is not None and isinstance(self.setup.engine, HoldsStates):
            self.codec_state = self.setup.engine.hold_states(self.codec_state)

    @property
    def start(self) -> ModelDistances:
        """The distances at the start: all zero, since all edge servers have the same model."""
        edges = self.setup.world.fleet.num_edges
        return ModelDistances(np.zeros((edges, edges)))

    def distances(self, t: int) -> ModelDistances:
        """The distances between the models that the edge servers hold now."""
        return ModelDistances(pairwise_distance(self._parameters()))

    def train(self, seen: Observation, plan: Plan, outcome: Outcome) -> Updates:
        """Train the devices whose updates arrive, each from its edge model, and aggregate them."""
        order = self._order(seen, plan, outcome)
        self.key = key_after_training(self.key, seen, plan, outcome)
        refused, upload_bytes, stepped_up = None, None, None
        if order.screening is not None:
            refused = np.full(seen.num_devices, ACCEPTED)
        if len(order.devices):
            trained, self.codec_state = self._once(self.key, lambda: self._carry_out(order))
            found = self.take(order, trained)
            if found is not None:
                stepped_up = np.full(seen.num_devices, NOT_STEPPED)
                stepped_up[outcome.delivered] = found
            if self.setup.method.codec is not None or order.codec is not None:
                upload_bytes = outcome.cost.upload_bytes.copy()
                learning, bits = self.setup.world.scenario.learning, self.setup.world.model_bits
                variate = variate_bits(learning, bits) / 8
                upload_bytes[outcome.delivered] = trained.devices.sent_bytes + variate
            if refused is not None:
                refused[outcome.delivered] = trained.refused
        return Updates(refused, upload_bytes, stepped_up)

    def _carry_out(self, order: TrainingOrder) -> tuple[Trained, torch.Tensor | None]:
        """The results of training, and what devices then remember."""
        if self.shared is not None and order.codec_state is not None:
            # Others may take what is remembered now, after this trainer has gone on.
            order = replace(order, codec_state=order.codec_state.clone())
        return self.setup.engine.train(self.models, order), order.codec_state

    def mix(self, t: int, gossip: Gossip) -> Mapping[str, float]:
        """Mix the edge models by gossip; return loss, accuracies and distances."""
        mixing = mixing_of(gossip, self.setup.world.scenario.control.mixing)
        self.key = key_after_gossip(self.key, gossip)
        codec = gossip.codec or self.setup.world.scenario.learning.gossip or "none"
        self.models, self.copies = self._once(
            self.key, lambda: self._mixed(mixing, gossip.steps, codec)
        )
        metrics = {
            "loss": self.loss_sum / self.steps if self.steps else np.nan,
            "consensus": distance_to_average(self._parameters()),
        }
        metrics |= self._measures(t)
        self.loss_sum, self.steps = 0.0, 0
        now = time.monotonic()
        metrics["wall_s"], self.began = now - self.began, now
        return metrics

    def _mixed(
        self, mixing: FloatArray, steps: int, codec: str
    ) -> tuple[torch.Tensor, KnownModels]:
        """The edge models after gossip, and what servers then know of each other's."""
        if codec == "none":
            return mix(self.models, mixing, steps), self.copies
        return mix_coded(self.models, self.copies, self._first(), mixing, steps, codec)

    def _first(self) -> torch.Tensor:
        """The parameters that all edge servers started from."""
        return self.setup.first_model[: self.setup.model.num_parameters]

    def _measures(self, t: int) -> dict[str, float]:
        """The measures of the models after a gossip; NaN in rounds without evaluation."""
        names = measure_names(self.setup.method.task)
        if self.devices is not None:
            names += self.devices.names
        if not is_evaluated(self.setup.world.scenario, t):
            return dict.fromkeys(names, np.nan)

        def evaluate() -> list[float]:
            of_devices = [] if self.devices is None else self.devices.evaluate(t, self.models)
            return [*measure_models(self.setup.evaluate, self.models), *of_devices]

        return dict(zip(names, self._once(digest(self.key, "accuracy"), evaluate), strict=True))

    def _order(self, seen: Observation, plan: Plan, outcome: Outcome) -> TrainingOrder:
        came, world = outcome.delivered, self.setup.world
        who, edge_of_device = seen.device[came], seen.edge_of_device[came]
        attackers = None if world.faults is None else world.faults.attackers[who]
        samples = claimed_samples(self.setup.batches.sizes[who], self.screening, attackers, seen.t)
        if plan.codec is not None and self.let_plans_choose():
            self._remember(ErrorFeedback("float32"))
        order = TrainingOrder(
            t=seen.t,
            r=seen.r,
            devices=who,
            edge_of_device=edge_of_device,
            local_steps=plan.local_steps[came],
            weight=averaging_weights(
                edge_of_device,
                self.setup.method.aggregator,
                samples,
                capped=self.past is not None,
            ),
            then=self._next(seen),
            screening=self.screening,
            attackers=attackers,
            codec_state=self.codec_state,
            state_row=who,
            codec=None if plan.codec is None else plan.codec[came],
            menu=() if seen.menu is None else seen.menu.names,
            seed=world.seed,
        )
        return self.completed(order)

    def _next(self, seen: Observation) -> tuple[int, int] | None:
        """The numbers of the edge round after this one; None after the last."""
        rounds = self.setup.world.scenario.rounds
        if seen.r + 1 < rounds.edge_rounds:
            return seen.t, seen.r + 1
        return (seen.t + 1, 0) if seen.t + 1 < rounds.global_rounds else None

    def _parameters(self) -> torch.Tensor:
        return self.models[:, : self.setup.model.num_parameters]

    def _once(self, key: bytes, work: Any) -> Any:
        if self.shared is None:
            return work()
        if key not in self.shared:
            self.shared[key] = work()
        return self.shared[key]

    def state(self) -> dict[str, NDArray[Any]]:
        """The state of training after a gossip, on which the rest of a run depends."""
        found = super().state()
        if self.codec_state is not None:
            # A copy: training goes on in the tensor itself.
            found["codec_state"] = self.codec_state.cpu().numpy().copy()
        if len(self.copies.pairs):
            found["copies"], found["pairs"] = self.copies.held.cpu().numpy(), self.copies.pairs
        return found

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state."""
        if "guard" in state and self.let_plans_choose():
            self._remember(ErrorFeedback("float32"))
        super().restore(state)
        # What led here is not known any more, but the models themselves are as good a key.
        held = super().state()
        remembered = [held[name] for name in sorted(held)]
        if self.codec_state is not None:
            states = np.array(state["codec_state"])
            if states.shape != self.codec_state.shape:
                raise InputError(f"the checkpoint's codec states are {states.shape}")
            remembered.append(states)
            self.codec_state.copy_(torch.from_numpy(states))
        self.copies = KnownModels.none(self._first())
        if "copies" in state:
            self.copies = self._restored(state)
            remembered += [self.copies.pairs, np.ascontiguousarray(state["copies"])]
        self.key = digest(b"restored", *remembered)
        self.began = time.monotonic()

    def _restored(self, state: Mapping[str, NDArray[Any]]) -> KnownModels:
        """The copies in a saved state; an error if they are not those of these edge servers."""
        held = np.array(state["copies"], dtype=np.float32)
        pairs = np.array(state.get("pairs", np.zeros((0, 2))), dtype=np.int64)
        shape = (len(pairs), self.setup.model.num_parameters)
        whole = pairs.ndim == 2 and pairs.shape[1] == 2 and held.shape == shape
        if not whole or not ((pairs >= 0) & (pairs < len(self.models))).all():
            raise InputError(f"the checkpoint's copies are {held.shape}, of {pairs.shape} servers")
        return KnownModels(pairs, torch.from_numpy(held).to(self.models.device))
