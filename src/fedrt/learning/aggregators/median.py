"""The median of every coordinate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fedrt.learning.aggregators.base import FloatArray, IntArray
from fedrt.learning.aggregators.trimmed_mean import trimmed_mean
from fedrt.scenario.model import Learning


@dataclass(frozen=True)
class Median:
    """For every coordinate the middle value of the models, or the mean of the middle two."""

    @classmethod
    def from_settings(cls, learning: Learning) -> Median:
        """It has no settings."""
        return cls()

    def weigh(self, samples: IntArray) -> FloatArray:
        """Every device counts the same."""
        return np.ones(len(samples))

    def aggregate(self, model: Tensor, rows: Tensor, share: FloatArray) -> Tensor:
        """Wrong models, as long as they are fewer than half, cannot move it far."""
        return trimmed_mean(rows, (len(rows) - 1) // 2)
