"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedrt.learning.optimisers.base import Rate, Step, Tensors
from fedrt.scenario.methods import SgdOptions
from fedrt.scenario.model import Learning


@dataclass(frozen=True)
class SGD:
    """v <- momentum v + gradient, then w <- w - learning_rate v; v is 0 as an edge round starts.

    With weight decay, that times w is added to the gradient. With Nesterov's momentum w moves by
    gradient + momentum v instead of v.
    """

    learning_rate: Rate
    momentum: float
    nesterov: bool = False
    weight_decay: float = 0.0

    @classmethod
    def from_settings(cls, learning: Learning, rate: Rate) -> SGD:
        """The optimiser with a scenario's momentum and options, and a learning rate."""
        chosen = learning.optimiser
        options = chosen if isinstance(chosen, SgdOptions) else SgdOptions()
        return cls(rate, learning.momentum, options.nesterov, options.weight_decay)

    def init(self, parameters: Tensors) -> Tensors:
        """Velocities of 0."""
        return [torch.zeros_like(held) for held in parameters]

    def update(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: Step
    ) -> tuple[Tensors, Tensors]:
        """The new parameters and velocities."""
        if self.weight_decay:
            both = zip(gradients, parameters, strict=True)
            gradients = [gradient + self.weight_decay * held for gradient, held in both]
        pairs = list(zip(state, gradients, strict=True))
        velocity = [self.momentum * held + gradient for held, gradient in pairs]
        moved = velocity
        if self.nesterov:
            ahead = zip(gradients, velocity, strict=True)
            moved = [gradient + self.momentum * held for gradient, held in ahead]
        both = zip(parameters, moved, strict=True)
        return [held - self.learning_rate * change for held, change in both], velocity

    def update_in_place(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: Step
    ) -> None:
        """The update without new tensors; the product is not rounded before it is subtracted."""
        if self.weight_decay:
            gradients = list(torch._foreach_add(gradients, parameters, alpha=self.weight_decay))
        torch._foreach_mul_(state, self.momentum)
        torch._foreach_add_(state, gradients)
        moved = state
        if self.nesterov:
            moved = list(torch._foreach_add(gradients, state, alpha=self.momentum))
        torch._foreach_add_(parameters, moved, alpha=-float(self.learning_rate))

    def update_fused(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: Step
    ) -> None:
        """The update in one pass through memory instead of three."""
        torch._fused_sgd_(
            parameters,
            # It goes by position in memory: all must lie alike.
            [gradient.contiguous() for gradient in gradients],
            state if self.momentum else [],
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=float(self.learning_rate),
            dampening=0.0,
            nesterov=self.nesterov,
            maximize=False,
            is_first_step=False,
        )
