"""Classification: which of several classes a sample belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as fn

from fedrt.learning.tasks.base import Shape
from fedrt.registry import TASKS


@dataclass(frozen=True)
class Classification:
    """Cross entropy of one score per class; the measure is whether the greatest score is right."""

    measures = TASKS["classification"].measures

    def output_shape(self, num_classes: int, inputs: Shape) -> Shape:
        """The shape of the outputs: one score for each class."""
        return (num_classes,)

    def label_problem(self, labels: NDArray[Any], inputs: NDArray[Any]) -> str | None:
        """Labels are one whole number each."""
        good = labels.ndim == 1 and labels.dtype.kind == "i"
        return None if good else "labels that are one whole number per sample"

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The cross entropy of each sample."""
        return fn.cross_entropy(outputs, labels, reduction="none")

    def mean_loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The mean cross entropy of a batch."""
        return fn.cross_entropy(outputs, labels)

    def values(self, outputs: Tensor, labels: Tensor) -> list[Tensor]:
        """For each sample, 1 if it is classified correctly, else 0."""
        return [outputs.argmax(1) == labels]
