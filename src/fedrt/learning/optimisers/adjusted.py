"""Gradients that are changed before an optimiser sees them: FedProx and clipping."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedrt.learning.optimisers.base import Optimiser, Step, Tensors, spread, take_step, updated

SMALL = 1e-6
"""Added to a norm before dividing by it, as torch's `clip_grad_norm_` does."""


@dataclass(frozen=True)
class Adjusted:
    """An optimiser that gets each device's gradient with FedProx's term, shortened to a norm.

    The term is `proximal` times the distance of the parameters from those that the device started
    the edge round with. It belongs to the loss, so it is added before the norm is taken.
    """

    inner: Optimiser
    proximal: float | None = None
    clip_norm: float | None = None

    def init(self, parameters: Tensors) -> Tensors:
        """What the optimiser remembers, then the parameters at the start where they are needed."""
        starts = [held.clone() for held in parameters] if self.proximal else []
        return [*self.inner.init(parameters), *starts]

    def update(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: Step
    ) -> tuple[Tensors, Tensors]:
        """What the optimiser makes of the adjusted gradients."""
        own, starts = self._split(parameters, state)
        found = self._adjusted(parameters, gradients, starts)
        after, remembered = updated(self.inner, parameters, found, own, step)
        return after, [*remembered, *starts]

    def update_in_place(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: int
    ) -> None:
        """The update in place."""
        own, starts = self._split(parameters, state)
        take_step(self.inner, parameters, self._adjusted(parameters, gradients, starts), own, step)

    def update_fused(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: int
    ) -> None:
        """The update in place, by the optimiser's quickest way on processors."""
        own, starts = self._split(parameters, state)
        found = self._adjusted(parameters, gradients, starts)
        take_step(self.inner, parameters, found, own, step, fused=True)

    def _split(self, parameters: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
        first = len(state) - (len(parameters) if self.proximal else 0)
        return state[:first], state[first:]

    def _adjusted(self, parameters: Tensors, gradients: Tensors, starts: Tensors) -> Tensors:
        if self.proximal:
            each = zip(gradients, parameters, starts, strict=True)
            gradients = [g + self.proximal * (held - start) for g, held, start in each]
        if self.clip_norm is not None:
            shorten = (self.clip_norm / (device_norms(gradients) + SMALL)).clamp(max=1.0)
            gradients = [g * spread(shorten, g) for g in gradients]
        return gradients


def device_norms(gradients: Tensors) -> Tensor:
    """The norm of each device's whole gradient; devices are on the tensors' first axis."""
    squares = [gradient.flatten(1).square().sum(1) for gradient in gradients]
    return torch.stack(squares).sum(0).sqrt()
