"""Gradients that are changed before an optimiser sees them: FedProx, clipping and SCAFFOLD."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedrt.learning.optimisers.base import (
    Optimiser,
    Rate,
    Step,
    Tensors,
    spread,
    take_step,
    updated,
)
from fedrt.registry import OPTIMISERS, make_part
from fedrt.scenario.entries import make_own
from fedrt.scenario.model import Custom, Learning

SMALL = 1e-6
"""Added to a norm before dividing by it, as torch's `clip_grad_norm_` does."""


@dataclass(frozen=True)
class Adjusted:
    """An optimiser that gets each device's gradient with FedProx's term, shortened to a norm.

    The term is `proximal` times the distance of the parameters from those that the device started
    the edge round with. It belongs to the loss, so it is added before the norm is taken. What
    SCAFFOLD adds to a gradient comes after that.
    """

    inner: Optimiser
    proximal: float | None = None
    clip_norm: float | None = None
    corrected: bool = False
    """Whether a correction is added to the gradients; engines put it where `init` has zeros."""

    def init(self, parameters: Tensors) -> Tensors:
        """What the optimiser remembers, then starts and corrections where they are needed."""
        starts = [held.clone() for held in parameters] if self.proximal else []
        zeros = [torch.zeros_like(held) for held in parameters] if self.corrected else []
        return [*self.inner.init(parameters), *starts, *zeros]

    def update(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: Step
    ) -> tuple[Tensors, Tensors]:
        """What the optimiser makes of the adjusted gradients."""
        own, fixed = self._split(parameters, state)
        found = self._adjusted(parameters, gradients, fixed)
        after, remembered = updated(self.inner, parameters, found, own, step)
        return after, [*remembered, *fixed]

    def update_in_place(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: int
    ) -> None:
        """The update in place."""
        own, fixed = self._split(parameters, state)
        take_step(self.inner, parameters, self._adjusted(parameters, gradients, fixed), own, step)

    def update_fused(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: int
    ) -> None:
        """The update in place, by the optimiser's quickest way on processors."""
        own, fixed = self._split(parameters, state)
        found = self._adjusted(parameters, gradients, fixed)
        take_step(self.inner, parameters, found, own, step, fused=True)

    def _split(self, parameters: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
        """What the optimiser remembers, and what does not change: starts, then corrections."""
        first = len(state) - len(parameters) * (bool(self.proximal) + self.corrected)
        return state[:first], state[first:]

    def _adjusted(self, parameters: Tensors, gradients: Tensors, fixed: Tensors) -> Tensors:
        if self.proximal:
            each = zip(gradients, parameters, fixed[: len(parameters)], strict=True)
            gradients = [g + self.proximal * (held - start) for g, held, start in each]
        if self.clip_norm is not None:
            shorten = (self.clip_norm / (device_norms(gradients) + SMALL)).clamp(max=1.0)
            gradients = [g * spread(shorten, g) for g in gradients]
        if self.corrected:
            own = fixed[-len(parameters) :]
            gradients = [g + each for g, each in zip(gradients, own, strict=True)]
        return gradients


def device_norms(gradients: Tensors) -> Tensor:
    """The norm of each device's whole gradient; devices are on the tensors' first axis."""
    squares = [gradient.flatten(1).square().sum(1) for gradient in gradients]
    return torch.stack(squares).sum(0).sqrt()


def make_optimiser(learning: Learning, rate: Rate) -> Optimiser:
    """The optimiser that a scenario names; a user's own gets the learning rate and its options.

    With FedProx, clipping or SCAFFOLD, which change the gradients that it gets.
    """
    choice = learning.optimiser or "sgd"
    made: Optimiser
    if isinstance(choice, Custom):
        made = make_own(choice, "optimiser", ("init", "update"), rate)
    else:
        made = replace(make_part(OPTIMISERS, choice, learning), learning_rate=rate)
    if learning.proximal is None and learning.clip_norm is None and not learning.scaffold:
        return made
    return Adjusted(made, learning.proximal, learning.clip_norm, bool(learning.scaffold))
