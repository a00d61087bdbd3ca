"""The coordinate-wise trimmed mean of the models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedrt.learning.aggregators.base import FloatArray, IntArray
from fedrt.scenario.model import Learning

COLUMNS = 65_536
"""Coordinates that are sorted together."""
QUARTER = 0.25


@dataclass(frozen=True)
class TrimmedMean:
    """The mean of every coordinate without the share `trim` of the values at each end."""

    trim: float = QUARTER

    def with_settings(self, learning: Learning) -> TrimmedMean:
        """The same with `learning.trim`, where a scenario has it."""
        return self if learning.trim is None else TrimmedMean(learning.trim)

    def weigh(self, samples: IntArray) -> FloatArray:
        """The weight of each device: 1."""
        return np.ones(len(samples))

    def aggregate(self, model: Tensor, rows: Tensor, share: FloatArray) -> Tensor:
        """The trimmed mean of every coordinate; a few wrong models cannot move it far."""
        return trimmed_mean(rows, int(self.trim * len(rows)))


def trimmed_mean(rows: Tensor, cut: int) -> Tensor:
    """The mean of every column without its `cut` least and `cut` greatest values, in float64.

    With (n - 1) // 2 cut it is the median.
    """
    mean = torch.empty(rows.shape[1], dtype=torch.float64, device=rows.device)
    for first in range(0, rows.shape[1], COLUMNS):
        # A block at a time: sorting all at once would take the memory of several copies.
        block = rows[:, first : first + COLUMNS].sort(dim=0).values
        mean[first : first + COLUMNS] = block[cut : len(rows) - cut].double().mean(0)
    return mean
