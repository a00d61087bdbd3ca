"""The coordinate-wise median of the models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fedrt.learning.aggregators.base import FloatArray, IntArray
from fedrt.learning.aggregators.trimmed_mean import trimmed_mean


@dataclass(frozen=True)
class Median:
    """The coordinate-wise median; robust as long as fewer than half of the models are wrong."""

    def weigh(self, samples: IntArray) -> FloatArray:
        """The weight of each device: 1."""
        return np.ones(len(samples))

    def aggregate(self, model: Tensor, rows: Tensor, share: FloatArray) -> Tensor:
        """The median of every coordinate, or the mean of the two middle values."""
        return trimmed_mean(rows, (len(rows) - 1) // 2)
