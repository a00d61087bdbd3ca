"""The sequential engine: one device after the other. All other engines must agree with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fedrt.data.batches import Batches
from fedrt.learning.engines.engine import (
    DeviceResults,
    Trained,
    TrainingOrder,
    own_randomness,
)
from fedrt.learning.engines.local_steps import PlainSteps
from fedrt.learning.engines.method import Method
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.engines.screening import EdgeServer, average_in_turn, rows_in_turn
from fedrt.learning.engines.sending import Uplink
from fedrt.learning.models.architectures import model_code
from fedrt.learning.models.flat import FlatModel


class SequentialEngine:
    """Trains the devices of an order one after the other, each from its edge server's model."""

    name = "sequential"

    def __init__(
        self,
        model: FlatModel,
        samples: TensorSamples,
        batches: Batches,
        method: Method,
        *,
        augment: bool,
        half: bool = False,
    ) -> None:
        self.model, self.batches, self.augment = model, batches, augment
        self.method = method
        self.steps = PlainSteps(model, samples, method, half)
        self.after_step: Callable[[], None] | None = None
        """Called after every local step of every device."""

    def train(self, models: Tensor, order: TrainingOrder) -> Trained:
        server = EdgeServer(self.method.aggregator, self.model.num_parameters)
        with model_code(self.model.module):
            return average_in_turn(self._trained, models, order, server)

    def train_rows(self, models: Tensor, order: TrainingOrder) -> tuple[Tensor, DeviceResults]:
        """The model that every device sends, one per row, and the device results."""
        return rows_in_turn(self._trained, models, order)

    def _trained(
        self, models: Tensor, order: TrainingOrder, results: DeviceResults
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield each device's place in the order and its model; fill in the results."""
        device = models.device
        steps = int(order.local_steps.max(initial=0))
        draw = (order.t, order.r, steps, order.devices)
        chosen = torch.as_tensor(self.batches.draw(*draw), device=device)
        augmentation = None
        if self.augment:
            augmentation = torch.as_tensor(self.batches.draw_augmentation(*draw), device=device)
        seeds = self.batches.draw_seeds(order.t, order.r, order.devices).tolist()
        own, uplink = self.method.inputs_at(order.t), None
        if order.correction is not None:
            own = own._replace(corrections=torch.as_tensor(order.correction, device=device))
        if self.method.sends_updates(order.codec):
            chain, size = self.method.chain, self.model.num_parameters
            uplink = Uplink(self.method.codec, size, order, results, chain=chain)
        with own_randomness(device) as generator:
            for n, edge in enumerate(order.edge_of_device.tolist()):
                self.model.load(models[edge])
                generator.manual_seed(seeds[n])
                count = int(order.local_steps[n])
                shifts = None if augmentation is None else augmentation[:count, n]
                given = (chosen[:count, n], shifts, own.of(n))
                losses = self.steps.train_device(*given, self.after_step)
                results.loss_sum[n] = float(losses)
                state = self.model.state()
                results.largest[n], results.sent_bytes[n] = float(state.abs().max()), state.nbytes
                if own.corrections is not None and results.variate is not None:
                    rows = (models[edge][None], state[None], own.corrections[n : n + 1])
                    found = self.method.mean_gradients(order.t, *rows, order.local_steps[n : n + 1])
                    results.variate[n] = found[0]
                if uplink is not None:
                    uplink.send_one(n, models, edge, state)
                yield n, state
