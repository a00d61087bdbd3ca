"""FedAdam and FedYogi: averaged updates divided by a running size of every coordinate."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedrt.learning.servers.base import Tensors
from fedrt.scenario.methods import FedAdamOptions, FedYogiOptions


@dataclass(frozen=True)
class FedAdam:
    """m <- beta1 m + (1 - beta1) change; w <- w + learning_rate m / (sqrt(s) + tau).

    s is a running mean of the squared change: with FedAdam s <- beta2 s + (1 - beta2) change^2, and
    with FedYogi s <- s - (1 - beta2) change^2 sign(s - change^2). As a run starts m is 0 and s is
    tau^2. Algorithm 2 of Reddi et al., "Adaptive federated optimization", 2021.
    """

    learning_rate: float
    beta1: float
    beta2: float
    tau: float
    by_sign: bool
    """Whether s moves as in FedYogi."""

    @classmethod
    def adam(cls, options: FedAdamOptions) -> FedAdam:
        """FedAdam with its options."""
        given = (options.learning_rate, options.beta1, options.beta2, options.tau)
        return cls(*given, by_sign=False)

    @classmethod
    def yogi(cls, options: FedYogiOptions) -> FedAdam:
        """FedYogi with its options."""
        given = (options.learning_rate, options.beta1, options.beta2, options.tau)
        return cls(*given, by_sign=True)

    def init(self, models: Tensor) -> Tensors:
        """The first means of the changes and of their squares."""
        return [torch.zeros_like(models), torch.full_like(models, self.tau**2)]

    def update(self, models: Tensor, change: Tensor, state: Tensors) -> tuple[Tensor, Tensors]:
        """The new models and means."""
        mean, size = state
        square = change * change
        mean = self.beta1 * mean + (1 - self.beta1) * change
        if self.by_sign:
            size = size - (1 - self.beta2) * square * torch.sign(size - square)
        else:
            size = self.beta2 * size + (1 - self.beta2) * square
        return models + self.learning_rate * mean / (size.sqrt() + self.tau), [mean, size]
