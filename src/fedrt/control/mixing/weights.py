"""Mixing matrices: the weight of each neighbour's model in a gossip step, and their contraction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedrt.graph import BoolMatrix, is_connected, parts_of
from fedrt.plan import Gossip

FloatArray = NDArray[np.float64]


def metropolis_weights(topology: BoolMatrix) -> FloatArray:
    """Metropolis-Hastings weights: 1 / (1 + max(deg c, deg c2)) on links, the rest on the diagonal.

    On the complete graph one step is the exact average.
    """
    degree = topology.sum(axis=1)
    mixing = np.where(topology, 1.0 / (1.0 + np.maximum(degree[:, None], degree[None, :])), 0.0)
    np.fill_diagonal(mixing, 1.0 - mixing.sum(axis=1))
    return mixing


def best_constant_weights(topology: BoolMatrix) -> FloatArray:
    """The mixing matrix with the best equal weight for all links: I - 2 / (lambda_2 + lambda_C) L.

    lambda are the extreme non-zero eigenvalues of the Laplacian (Xiao and Boyd 2004).
    """
    size = len(topology)
    if size == 1:
        return np.ones((1, 1))
    laplacian = np.diag(topology.sum(axis=1)) - topology.astype(np.float64)
    eigenvalue = np.linalg.eigvalsh(laplacian)
    return np.eye(size) - 2.0 / (eigenvalue[1] + eigenvalue[-1]) * laplacian


MIXINGS: dict[str, Callable[[BoolMatrix], FloatArray]] = {
    "metropolis": metropolis_weights,
    "best-constant": best_constant_weights,
}


def mixing_of(gossip: Gossip, rule: str) -> FloatArray:
    """The mixing matrix of a gossip step: the plan's own weights, or those of the rule."""
    return mixing_weights(rule, gossip.links) if gossip.weights is None else gossip.weights


def mixing_weights(rule: str, topology: BoolMatrix) -> FloatArray:
    """The mixing matrix of a rule in `MIXINGS`, for each connected component by itself."""
    if is_connected(topology):
        return MIXINGS[rule](topology)
    mixing = np.zeros(topology.shape)
    for part in parts_of(topology):
        mixing[np.ix_(part, part)] = MIXINGS[rule](topology[np.ix_(part, part)])
    return mixing


def slowest_contraction(mixing: FloatArray, topology: BoolMatrix) -> float:
    """The greatest zeta of the connected components: each converges to its own average."""
    if is_connected(topology):
        return contraction(mixing)
    return max(contraction(mixing[np.ix_(part, part)]) for part in parts_of(topology))


def contraction(mixing: FloatArray) -> float:
    """The contraction zeta = max(|lambda_2|, |lambda_C|) of one gossip step.

    It is the greatest part of the distance to the average that a step can leave.
    """
    if len(mixing) == 1:
        return 0.0
    eigenvalue = np.linalg.eigvalsh(mixing)
    # The eigenvalue 1 of the average is the greatest; rounding may leave a tiny negative rest.
    zeta = float(max(abs(eigenvalue[0]), abs(eigenvalue[-2])))
    return 0.0 if zeta < 1e-14 else zeta
