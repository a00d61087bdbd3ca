"""Multi-label classification: which of several labels a sample has, any number of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as fn

from fedrt.learning.tasks.base import Shape
from fedrt.registry import TASKS


@dataclass(frozen=True)
class MultiLabel:
    """Binary cross entropy of one score per label, mean over labels.

    A score above 0 says that a sample has the label. The measures are the share of labels that are
    right, and whether all of a sample's are.
    """

    measures = TASKS["multi-label"].measures

    def output_shape(self, num_classes: int, inputs: Shape) -> Shape:
        """The shape of the outputs: one score for each label."""
        return (num_classes,)

    def label_problem(self, labels: NDArray[Any], inputs: NDArray[Any]) -> str | None:
        """Labels are rows of 0 and 1."""
        good = labels.ndim == 2 and bool(np.isin(labels, (0, 1)).all())
        return None if good else "labels of shape (samples, labels), each 0 or 1"

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The mean binary cross entropy of each sample's labels."""
        wanted = labels.to(outputs.dtype)
        return fn.binary_cross_entropy_with_logits(outputs, wanted, reduction="none").mean(1)

    def values(self, outputs: Tensor, labels: Tensor) -> list[Tensor]:
        """For each sample, the share of its labels that are right, and whether all are."""
        right = (outputs > 0) == (labels > 0)
        return [right.to(outputs.dtype).mean(1), right.all(1)]
