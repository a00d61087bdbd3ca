"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedrt.learning.optimisers.base import Step, Tensors
from fedrt.scenario.model import Learning


@dataclass(frozen=True)
class SGD:
    """v <- momentum v + gradient, then w <- w - learning_rate v; v is 0 as an edge round starts."""

    learning_rate: float
    momentum: float

    @classmethod
    def from_settings(cls, learning: Learning) -> SGD:
        """The optimiser with a scenario's learning rate and momentum."""
        return cls(learning.learning_rate, learning.momentum)

    def init(self, parameters: Tensors) -> Tensors:
        """Velocities of 0."""
        return [torch.zeros_like(held) for held in parameters]

    def update(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: Step
    ) -> tuple[Tensors, Tensors]:
        """The new parameters and velocities."""
        pairs = zip(state, gradients, strict=True)
        velocity = [self.momentum * held + gradient for held, gradient in pairs]
        both = zip(parameters, velocity, strict=True)
        return [held - self.learning_rate * moved for held, moved in both], velocity

    def update_in_place(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: Step
    ) -> None:
        """The update without new tensors; the product is not rounded before it is subtracted."""
        torch._foreach_mul_(state, self.momentum)
        torch._foreach_add_(state, gradients)
        torch._foreach_add_(parameters, state, alpha=-self.learning_rate)

    def update_fused(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: Step
    ) -> None:
        """The update in one pass through memory instead of three."""
        torch._fused_sgd_(
            parameters,
            # It goes by position in memory: all must lie alike.
            [gradient.contiguous() for gradient in gradients],
            state,
            weight_decay=0.0,
            momentum=self.momentum,
            lr=self.learning_rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )
