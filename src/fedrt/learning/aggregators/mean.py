"""The weighted mean of the models, with equal weights or by numbers of samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedrt.learning.aggregators.base import FloatArray, IntArray


@dataclass(frozen=True)
class Mean:
    """The sum of the models times their shares, added up in their order, in float64."""

    by_samples: bool = False
    linear: bool = True

    def weigh(self, samples: IntArray) -> FloatArray:
        """The weight of each device: 1, or its number of samples."""
        return samples.astype(np.float64) if self.by_samples else np.ones(len(samples))

    def aggregate(self, model: Tensor, rows: Tensor, share: FloatArray) -> Tensor:
        """The weighted mean of the models in `rows`."""
        total = torch.zeros(rows.shape[1], dtype=torch.float64, device=rows.device)
        for row, part in zip(rows, share.tolist(), strict=True):
            total += part * row.double()
        return total


@dataclass(frozen=True)
class SamplesMean(Mean):
    """The mean in which a device is weighted by its number of samples."""

    by_samples: bool = True
