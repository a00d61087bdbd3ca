"""Adam and AdamW: steps by running means of the gradients and of their squares."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedrt.learning.optimisers.base import Rate, Step, Tensors
from fedrt.scenario.methods import AdamOptions, AdamWOptions
from fedrt.scenario.model import Learning


@dataclass(frozen=True)
class Adam:
    """m and s, running means of the gradient and of its square, both 0 as an edge round starts.

    w <- w - learning_rate (m / (1 - beta1^step)) / (sqrt(s / (1 - beta2^step)) + epsilon). Weight
    decay times w is added to the gradient, or if `decoupled` (AdamW), the parameters shrink by that
    times the learning rate before the step.
    """

    learning_rate: Rate
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    decoupled: bool

    @classmethod
    def adam(cls, learning: Learning, rate: Rate) -> Adam:
        """Adam with a scenario's options and a learning rate."""
        chosen = learning.optimiser
        return cls._made(chosen if isinstance(chosen, AdamOptions) else AdamOptions(), rate)

    @classmethod
    def adamw(cls, learning: Learning, rate: Rate) -> Adam:
        """AdamW with a scenario's options and a learning rate."""
        chosen = learning.optimiser
        return cls._made(chosen if isinstance(chosen, AdamWOptions) else AdamWOptions(), rate)

    @classmethod
    def _made(cls, options: AdamOptions | AdamWOptions, rate: Rate) -> Adam:
        given = (options.beta1, options.beta2, options.epsilon, options.weight_decay)
        return cls(rate, *given, decoupled=isinstance(options, AdamWOptions))

    def init(self, parameters: Tensors) -> Tensors:
        """Means of 0: those of the gradients, then those of their squares."""
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
