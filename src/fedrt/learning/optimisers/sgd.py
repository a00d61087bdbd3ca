"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from fedrt.scenario.methods import DECAY
from fedrt.scenario.tables.fields import setting
from fedrt.validation import Flag

if TYPE_CHECKING:
    from fedrt.learning.optimisers.base import Rate, Step, Tensors
    from fedrt.scenario.model import Learning


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent with `learning.momentum`.

    v <- momentum v + gradient, then w <- w - learning_rate v; v is 0 as an edge round starts. With
    weight decay, that times w is added to the gradient. With Nesterov's momentum w moves by
    gradient + momentum v instead of v.
    """

    kind: ClassVar[str] = "sgd"
    nesterov: bool = setting(Flag(), False)
    """Whether the gradient is that of the point to which the velocity leads."""
    weight_decay: float = setting(DECAY, 0.0)
    """Added to the gradient, times the parameters."""
    learning_rate: Rate = 0.0
    """That of the scenario, which schedules change."""
    momentum: float = 0.0
    """That of the scenario."""

    def with_settings(self, learning: Learning) -> SGD:
        """The same with a scenario's momentum."""
        return replace(self, momentum=learning.momentum)

    def init(self, parameters: Tensors) -> Tensors:
        """Velocities of 0."""
        import torch

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
        import torch

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
        import torch

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
