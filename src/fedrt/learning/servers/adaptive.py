"""FedAdam and FedYogi: averaged updates divided by a running size of every coordinate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedrt.scenario.methods import EPSILON, RATE, SHARE
from fedrt.scenario.tables.fields import setting

if TYPE_CHECKING:
    from torch import Tensor

    from fedrt.learning.servers.base import Tensors


@dataclass(frozen=True)
class FedAdam:
    """Adam at the edge servers.

    m <- beta1 m + (1 - beta1) change; w <- w + learning_rate m / (sqrt(s) + tau), where s is a
    running mean of the squared change: with FedAdam s <- beta2 s + (1 - beta2) change^2, and with
    FedYogi s <- s - (1 - beta2) change^2 sign(s - change^2). As a run starts m is 0 and s is tau^2.
    Algorithm 2 of Reddi et al., "Adaptive federated optimization", 2021.
    """

    kind: ClassVar[str] = "fedadam"
    by_sign: ClassVar[bool] = False
    """Whether s moves as in FedYogi."""
    learning_rate: float = setting(RATE, 0.01)
    """The size of a change."""
    beta1: float = setting(SHARE, 0.9)
    """What the mean of updates keeps from one edge round to the next."""
    beta2: float = setting(SHARE, 0.99)
    """What the mean of their squares keeps."""
    tau: float = setting(EPSILON, 1e-3)
    """Added to the size by which a change is divided."""

    def init(self, models: Tensor) -> Tensors:
        """The first means of the changes and of their squares."""
        import torch

        return [torch.zeros_like(models), torch.full_like(models, self.tau**2)]

    def update(self, models: Tensor, change: Tensor, state: Tensors) -> tuple[Tensor, Tensors]:
        """The new models and means."""
        mean, size = state
        square = change * change
        mean = self.beta1 * mean + (1 - self.beta1) * change
        if self.by_sign:
            size = size - (1 - self.beta2) * square * (size - square).sign()
        else:
            size = self.beta2 * size + (1 - self.beta2) * square
        return models + self.learning_rate * mean / (size.sqrt() + self.tau), [mean, size]


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """Yogi at the edge servers."""

    kind: ClassVar[str] = "fedyogi"
    by_sign: ClassVar[bool] = True
    beta2: float = setting(SHARE, 0.99)
    """How slowly the mean of their squares moves."""
