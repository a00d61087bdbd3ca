"""The average of the edge servers' models, and the distances between them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FloatArray = NDArray[np.float64]


def average(models: Tensor) -> Tensor:
    """The uniform average of all models, added up in double precision."""
    found = [models[:, some].double().mean(0).to(models.dtype) for some in _blocks(models)]
    return torch.cat(found)


WIDE = 8_388_608
"""Numbers of all models that are wanted in double precision at a time."""


def _blocks(models: Tensor) -> Iterator[slice]:
    """Blocks of columns of all models, so that no whole copies are needed."""
    step = max(1, WIDE // len(models))
    for start in range(0, models.shape[1], step):
        yield slice(start, start + step)


FEW_MODELS = 64
CLOSE = 1e-4
"""Squared distance, in squared norms, below which matrix products are too inaccurate."""


def pairwise_distance(models: Tensor) -> FloatArray:
    """The L2 norm between every two edge models; symmetric, zero diagonal."""
    if len(models) > FEW_MODELS:
        return _many_distances(models)
    whole = models.double()
    # By differences, not through the Gram matrix, which would lose close models' distance.
    upper = torch.zeros(len(whole), len(whole), dtype=torch.float64, device=whole.device)
    for c in range(len(whole) - 1):
        upper[c, c + 1 :] = (whole[c + 1 :] - whole[c]).norm(dim=1)
    matrix = upper.cpu().numpy()
    return matrix + matrix.T


def _many_distances(models: Tensor) -> FloatArray:
    """The distances between many models by matrix products, to 1e-10 relative.

    |a|^2 + |b|^2 - 2ab about their mean.

    Pairs too close for that are compared by differences. 500 models of LeNet-5 have 125,000 pairs:
    products take seconds where differences take minutes.
    """
    gram = torch.zeros(len(models), len(models), dtype=torch.float64, device=models.device)
    for some in _blocks(models):
        wide = models[:, some].double()
        wide -= wide.mean(0)
        gram += wide @ wide.T
    squares = gram.diagonal()
    sums = squares[:, None] + squares
    upper = (sums - 2 * gram).triu(1)
    close = (upper < CLOSE * sums).triu(1)
    for c in torch.nonzero(close.any(1))[:, 0].tolist():
        others = torch.nonzero(close[c])[:, 0]
        gaps = models[others].double() - models[c].double()
        upper[c, others] = gaps.square().sum(1)
    matrix = upper.sqrt_().cpu().numpy()
    return matrix + matrix.T


def distance_to_average(models: Tensor) -> float:
    """The mean over servers of the L2 norm to their uniform average."""
    squares = torch.zeros(len(models), dtype=torch.float64, device=models.device)
    for some in _blocks(models):
        whole = models[:, some].to(torch.float64, copy=True)
        whole -= whole.mean(0)
        squares += whole.square_().sum(1)
    return float(squares.sqrt().mean())
