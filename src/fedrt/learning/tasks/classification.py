"""Classification: which of several classes a sample belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as fn

from fedrt.scenario.model import Learning


@dataclass(frozen=True)
class Classification:
    """Cross entropy of one score per class; the metric is whether the greatest score is right."""

    label_shape: tuple[int, ...] = ()

    @classmethod
    def from_settings(cls, learning: Learning) -> Classification:
        """The task, which has no settings."""
        return cls()

    def output_shape(self, num_classes: int) -> tuple[int, ...]:
        """The shape of the outputs: one score for each class."""
        return (num_classes,)

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The cross entropy of each sample."""
        return fn.cross_entropy(outputs, labels, reduction="none")

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The mean cross entropy of a batch."""
        return fn.cross_entropy(outputs, labels)

    def metric(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """For each sample, 1 if it is classified correctly, else 0."""
        return outputs.argmax(1) == labels
