"""A gossip step of all edge servers on a processor. Compiled: importing it loads numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def gossip_step(
    models: NDArray[Any],
    own: NDArray[np.float64],
    first: NDArray[np.int64],
    neighbour: NDArray[np.int64],
    weight: NDArray[np.float64],
    after: NDArray[Any],
) -> None:  # pragma: no cover - compiled
    """Fill `after` with the models after one gossip step.

    The neighbours of c are those from first[c] on.

    Without leave to change arithmetic the compiler rounds every product and every sum.
    """
    servers, columns = models.shape
    total = np.empty(columns)
    for c in range(servers):
        for k in range(columns):
            total[k] = own[c] * np.float64(models[c, k])
        for link in range(first[c], first[c + 1]):
            j, w = neighbour[link], weight[link]
            for k in range(columns):
                total[k] += w * np.float64(models[j, k])
        for k in range(columns):
            after[c, k] = total[k]


@njit(cache=True, nogil=True)
def coded_step(
    models: NDArray[Any],
    public: NDArray[np.float32],
    first: NDArray[np.int64],
    neighbour: NDArray[np.int64],
    weight: NDArray[np.float64],
) -> None:  # pragma: no cover - compiled
    """Move the models, in place, as the public copies say; arguments as of `gossip_step`."""
    servers, columns = models.shape
    total = np.empty(columns)
    for c in range(servers):
        for k in range(columns):
            total[k] = models[c, k]
        for link in range(first[c], first[c + 1]):
            j, w = neighbour[link], weight[link]
            for k in range(columns):
                total[k] += w * (np.float64(public[j, k]) - np.float64(public[c, k]))
        for k in range(columns):
            models[c, k] = total[k]
