"""FedAvgM: momentum over the averaged updates of an edge server's devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedrt.scenario.methods import RATE, SHARE
from fedrt.scenario.tables.fields import setting

if TYPE_CHECKING:
    from torch import Tensor

    from fedrt.learning.servers.base import Tensors


@dataclass(frozen=True)
class FedAvgM:
    """Momentum at the edge servers.

    v <- momentum v + change, then w <- w + learning_rate v; v is 0 as a run starts. Hsu, Qi and
    Brown, "Measuring the effects of non-identical data distribution for federated visual
    classification", 2019.
    """

    kind: ClassVar[str] = "fedavgm"
    learning_rate: float = setting(RATE, 1.0)
    """What the change of the model is multiplied by."""
    momentum: float = setting(SHARE, 0.9)
    """What the velocity keeps from one edge round to the next."""

    def init(self, models: Tensor) -> Tensors:
        """Velocities of 0."""
        import torch

        return [torch.zeros_like(models)]

    def update(self, models: Tensor, change: Tensor, state: Tensors) -> tuple[Tensor, Tensors]:
        """The new models and velocities."""
        velocity = self.momentum * state[0] + change
        return models + self.learning_rate * velocity, [velocity]
