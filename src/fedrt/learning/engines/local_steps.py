"""Local steps of one device after the other, by calling the module itself.

What the sequential engine does, and what the stacked engine falls back to where nothing is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedrt.learning.engines.method import Method, StepInputs
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.optimisers import take_step
from fedrt.learning.tasks import batch_loss


@dataclass(frozen=True)
class PlainSteps:
    """Local steps on mini-batches; the optimiser restarts for every device and edge round."""

    model: FlatModel
    samples: TensorSamples
    method: Method
    half: bool = False
    """Whether layers compute in bfloat16; parameters, their changes and losses never do."""
    channels_last: bool = False
    """Whether images lie in memory with their channels innermost."""

    def __call__(
        self,
        rows: Tensor,
        chosen: Tensor,
        shifts: Tensor | None,
        counts: Tensor | None,
        given: StepInputs,
    ) -> tuple[Tensor, Tensor]:
        """The state of every device after its steps, one per row, and the sums of its losses."""
        states, losses = [], []
        for n, row in enumerate(rows):
            count = len(chosen) if counts is None else int(counts[n])
            self.model.load(row)
            moves = None if shifts is None else shifts[:count, n]
            losses.append(self.train_device(chosen[:count, n], moves, given.of(n)))
            states.append(self.model.state())
        return torch.stack(states), torch.stack(losses)

    def train_device(
        self,
        chosen: Tensor,
        augmentation: Tensor | None,
        given: StepInputs,
        after_step: Callable[[], None] | None = None,
    ) -> Tensor:
        """Run the local steps of one device from the loaded model; return the sum of its losses.

        `after_step` is called after each of them.
        """
        self.model.module.train()
        optimiser, task = self.method.optimiser_for(given), self.method.task
        # One device on the first axis.
        parameters, gradients = [self.model.parameters[None]], [self.model.gradient[None]]
        state = optimiser.init(parameters)
        if given.corrections is not None:
            state[-1].copy_(given.corrections)
        total = torch.zeros((), dtype=torch.float64, device=gradients[0].device)
        for step in range(len(chosen)):
            shifts = None if augmentation is None else augmentation[step]
            inputs, labels = self.samples.batch(chosen[step], shifts)
            if self.channels_last and inputs.dim() == 4:
                inputs = inputs.contiguous(memory_format=torch.channels_last)
            self.model.gradient.zero_()
            with torch.autocast(inputs.device.type, torch.bfloat16, enabled=self.half):
                scores = self.model.module(inputs)
            loss = batch_loss(task, scores.to(self.model.held.dtype), labels)
            torch.autograd.backward(loss)
            take_step(optimiser, parameters, gradients, state, step + 1)
            total += loss.detach()
            if after_step is not None:
                after_step()
        return total
