"""The obvious engine: one device after the other. All other engines are held equal to it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as fn

from fedrt.learning.batches import Batches
from fedrt.learning.engine import Trained, TrainingOrder, averaged, check_finite, own_randomness
from fedrt.learning.flat import FlatModel
from fedrt.learning.samples import Samples


class SequentialEngine:
    """Mini-batch SGD with momentum; momentum starts anew for every device and edge round."""

    name = "sequential"

    def __init__(
        self,
        model: FlatModel,
        samples: Samples,
        batches: Batches,
        *,
        learning_rate: float,
        momentum: float,
        augment: bool,
        half: bool = False,
    ) -> None:
        self.model, self.samples, self.batches = model, samples, batches
        self.learning_rate, self.momentum, self.augment = learning_rate, momentum, augment
        self.half = half

    def train(self, models: Tensor, order: TrainingOrder) -> Trained:
        device = models.device
        steps = int(order.local_steps.max(initial=0))
        draw = (order.t, order.r, steps, order.devices)
        chosen = torch.as_tensor(self.batches.draw(*draw), device=device)
        augmentation = None
        if self.augment:
            augmentation = torch.as_tensor(self.batches.draw_augmentation(*draw), device=device)
        loss_sum, greatest = np.zeros(len(order.devices)), np.zeros(len(order.devices))
        average = torch.zeros(models.shape, dtype=torch.float64, device=device)
        seeds = self.batches.draw_seeds(order.t, order.r, order.devices).tolist()
        with own_randomness(device) as generator:
            for n, edge in enumerate(order.edge_of_device.tolist()):
                self.model.load(models[edge])
                generator.manual_seed(seeds[n])
                count = int(order.local_steps[n])
                shifts = None if augmentation is None else augmentation[:count, n]
                loss_sum[n] = self._train_device(chosen[:count, n], shifts)
                state = self.model.state()
                greatest[n] = float(state.abs().max())
                average[edge] += float(order.weight[n]) * state.double()
        check_finite(loss_sum, greatest, order)
        return Trained(averaged(models, average, order), loss_sum)

    def _train_device(self, chosen: Tensor, augmentation: Tensor | None) -> float:
        """Run the steps of one device from the model as loaded; the sum of its losses."""
        self.model.module.train()
        velocity = torch.zeros_like(self.model.gradient)
        total = torch.zeros((), dtype=torch.float64, device=velocity.device)
        for step in range(len(chosen)):
            shifts = None if augmentation is None else augmentation[step]
            inputs, labels = self.samples.batch(chosen[step], shifts)
            self.model.gradient.zero_()
            with torch.autocast(inputs.device.type, torch.bfloat16, enabled=self.half):
                scores = self.model.module(inputs)
            loss = fn.cross_entropy(scores.to(self.model.held.dtype), labels)
            torch.autograd.backward(loss)
            with torch.no_grad():
                velocity.mul_(self.momentum).add_(self.model.gradient)
                self.model.parameters.add_(velocity, alpha=-self.learning_rate)
                total += loss.detach()
        return float(total)
