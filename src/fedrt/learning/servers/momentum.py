"""FedAvgM: momentum over the averaged updates of an edge server's devices."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedrt.learning.servers.base import Tensors
from fedrt.scenario.methods import FedAvgMOptions


@dataclass(frozen=True)
class FedAvgM:
    """v <- momentum v + change, then w <- w + learning_rate v; v is 0 as a run starts.

    Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution for federated
    visual classification", 2019.
    """

    learning_rate: float
    momentum: float

    @classmethod
    def from_options(cls, options: FedAvgMOptions) -> FedAvgM:
        """The optimiser with its options."""
        return cls(options.learning_rate, options.momentum)

    def init(self, models: Tensor) -> Tensors:
        """Velocities of 0."""
        return [torch.zeros_like(models)]

    def update(self, models: Tensor, change: Tensor, state: Tensors) -> tuple[Tensor, Tensors]:
        """The new models and velocities."""
        velocity = self.momentum * state[0] + change
        return models + self.learning_rate * velocity, [velocity]
