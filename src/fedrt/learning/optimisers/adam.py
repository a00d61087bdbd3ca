"""Adam and AdamW: steps by running means of the gradients and of their squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedrt.scenario.methods import DECAY, EPSILON, SHARE
from fedrt.scenario.tables.fields import setting

if TYPE_CHECKING:
    from fedrt.learning.optimisers.base import Rate, Step, Tensors


@dataclass(frozen=True)
class Adam:
    """Adam: steps by a running mean of gradients over the root of one of their squares.

    m and s are running means of the gradient and of its square, both 0 as an edge round starts, and
    w <- w - learning_rate (m / (1 - beta1^step)) / (sqrt(s / (1 - beta2^step)) + epsilon). Weight
    decay times w is added to the gradient, or if `decoupled` (AdamW), the parameters shrink by that
    times the learning rate before the step.
    """

    kind: ClassVar[str] = "adam"
    decoupled: ClassVar[bool] = False
    beta1: float = setting(SHARE, 0.9)
    """What the mean of gradients keeps from one step to the next."""
    beta2: float = setting(SHARE, 0.999)
    """What the mean of their squares keeps."""
    epsilon: float = setting(EPSILON, 1e-8)
    """Added to the root by which a step is divided."""
    weight_decay: float = setting(DECAY, 0.0)
    """Added to the gradient, times the parameters."""
    learning_rate: Rate = 0.0
    """That of the scenario, which schedules change."""

    def init(self, parameters: Tensors) -> Tensors:
        """Means of 0: those of the gradients, then those of their squares."""
        import torch

        return [torch.zeros_like(held) for held in [*parameters, *parameters]]

    def update(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: Step
    ) -> tuple[Tensors, Tensors]:
        """The new parameters and means."""
        count, a, b = len(parameters), self.beta1, self.beta2
        if self.weight_decay and self.decoupled:
            parameters = [
                held - self.learning_rate * self.weight_decay * held for held in parameters
            ]
        elif self.weight_decay:
            both = zip(gradients, parameters, strict=True)
            gradients = [gradient + self.weight_decay * held for gradient, held in both]
        pairs = list(zip(state[:count], gradients, strict=True))
        means = [a * mean + (1 - a) * gradient for mean, gradient in pairs]
        pairs = list(zip(state[count:], gradients, strict=True))
        squares = [b * square + (1 - b) * gradient * gradient for square, gradient in pairs]
        rate, root = self.learning_rate / (1 - a**step), (1 - b**step) ** 0.5
        after = [
            held - rate * mean / (square.sqrt() / root + self.epsilon)
            for held, mean, square in zip(parameters, means, squares, strict=True)
        ]
        return after, [*means, *squares]

    def update_fused(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: Step
    ) -> None:
        """The update in one pass through memory."""
        import torch

        count = len(parameters)
        number = torch.tensor(float(step))
        take = torch._fused_adamw_ if self.decoupled else torch._fused_adam_
        take(
            parameters,
            # It goes by position in memory: all must lie alike.
            [gradient.contiguous() for gradient in gradients],
            state[:count],
            state[count:],
            [],
            [number] * count,
            lr=float(self.learning_rate),
            beta1=self.beta1,
            beta2=self.beta2,
            weight_decay=self.weight_decay,
            eps=self.epsilon,
            amsgrad=False,
            maximize=False,
        )


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters themselves, whatever their gradients."""

    kind: ClassVar[str] = "adamw"
    decoupled: ClassVar[bool] = True
    weight_decay: float = setting(DECAY, 0.01)
    """The share of the parameters that a step takes away, times the learning rate."""
