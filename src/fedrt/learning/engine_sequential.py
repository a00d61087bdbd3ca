"""The obvious engine: one device after the other. All other engines are held equal to it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.learning.batches import Batches
from fedrt.learning.engine import Trained, TrainingOrder, own_randomness, trained
from fedrt.learning.flat import FlatModel
from fedrt.learning.method import Method
from fedrt.learning.models import model_code
from fedrt.learning.plain import PlainSteps
from fedrt.learning.samples import Samples
from fedrt.learning.screening import train_screened

FloatArray = NDArray[np.float64]


class SequentialEngine:
    """Trains the devices of an order by the module itself, each from its edge's model."""

    name = "sequential"

    def __init__(
        self,
        model: FlatModel,
        samples: Samples,
        batches: Batches,
        method: Method,
        *,
        augment: bool,
        half: bool = False,
    ) -> None:
        self.model, self.batches, self.augment = model, batches, augment
        self.steps = PlainSteps(model, samples, method, half)

    def train(self, models: Tensor, order: TrainingOrder) -> Trained:
        with model_code(self.model.module):
            return self._train(models, order)

    def _train(self, models: Tensor, order: TrainingOrder) -> Trained:
        total = torch.zeros(models.shape, dtype=torch.float64, device=models.device)
        if order.screening is not None:
            size = self.model.num_parameters
            found = train_screened(
                self.train_rows, models, order, total, group=1, num_parameters=size
            )
            return trained(models, total, order, *found)
        loss_sum, greatest = np.zeros(len(order.devices)), np.zeros(len(order.devices))
        for n, state, loss in self._trained(models, order):
            loss_sum[n], greatest[n] = loss, float(state.abs().max())
            total[order.edge_of_device[n]] += float(order.weight[n]) * state.double()
        return trained(models, total, order, loss_sum, greatest)

    def train_rows(self, models: Tensor, order: TrainingOrder) -> tuple[Tensor, FloatArray]:
        """Every device's model, a row each, and the loss sums."""
        found = [(state, loss) for _, state, loss in self._trained(models, order)]
        return torch.stack([state for state, _ in found]), np.array([loss for _, loss in found])

    def _trained(self, models: Tensor, order: TrainingOrder) -> Iterator[tuple[int, Tensor, float]]:
        """Each device's place in the order, its model, and the sum of its losses."""
        device = models.device
        steps = int(order.local_steps.max(initial=0))
        draw = (order.t, order.r, steps, order.devices)
        chosen = torch.as_tensor(self.batches.draw(*draw), device=device)
        augmentation = None
        if self.augment:
            augmentation = torch.as_tensor(self.batches.draw_augmentation(*draw), device=device)
        seeds = self.batches.draw_seeds(order.t, order.r, order.devices).tolist()
        with own_randomness(device) as generator:
            for n, edge in enumerate(order.edge_of_device.tolist()):
                self.model.load(models[edge])
                generator.manual_seed(seeds[n])
                count = int(order.local_steps[n])
                shifts = None if augmentation is None else augmentation[:count, n]
                loss = float(self.steps.train_device(chosen[:count, n], shifts))
                yield n, self.model.state(), loss
