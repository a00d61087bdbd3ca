"""The mixing weights with the fastest convergence on given links (Xiao and Boyd 2004).

The problem: over one weight w_e per link, with W = I - sum of w_e a_e a_e' (a_e is +1 and -1 at the
ends of link e, so W is symmetric with rows that sum to one; weights may be negative),

    minimise    s
    subject to  -s I <= W - J <= s I        J = 1/C everywhere

whose optimum is the least zeta that any such weights on these links have. It is a semidefinite
programme: W is linear in w. More links only add variables, so the optimum never rises with them;
for Metropolis or best-constant weights it may.

How it is solved. Newton's method on the barrier t s - log det(s I - W + J) - log det(s I + W - J)
for a growing t. Every derivative of W has rank one, so the Hessian is the entrywise square of the
matrices a_e' S^-1 a_d. The barrier is self-concordant of order 2 C: from a point with decrement d
at weight t the optimum lies at most (2 C + (d + sqrt(2 C)) d / (1 - d)) / t below s, which is the
gap that is returned. No solver is needed, and a question "is zeta <= z within reach?" often ends
after a few steps.

Above MOST_EXACT servers one Newton step grows too dear; there the better of Metropolis and
best-constant weights is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.control.mixing.weights import best_constant_weights, contraction, metropolis_weights
from fedrt.graph import BoolMatrix, links_of

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

MOST_EXACT = 16
"""Servers up to which the fastest weights are searched for."""
GAP = 1e-5
"""How far above the least zeta a whole search may end."""


@dataclass(frozen=True)
class FastWeights:
    """Mixing weights, their contraction zeta, and a proven lower bound on zeta for these links."""

    mixing: FloatArray
    zeta: float
    bound: float


def fastest_weights(topology: BoolMatrix, enough: float = 0.0, gap: float = GAP) -> FastWeights:
    """The weights of least zeta on connected links, within `gap` of the optimum.

    With `enough` > 0 the search ends as soon as zeta <= enough is reached, or proven out of reach.
    """
    rows, cols = links_of(topology)
    size = len(topology)
    if size > MOST_EXACT:
        return simple_weights(topology)
    weight, zeta, bound = search_weights(rows, cols, size, enough, gap)
    mixing = np.zeros((size, size))
    mixing[rows, cols] = mixing[cols, rows] = weight
    np.fill_diagonal(mixing, 1.0 - mixing.sum(axis=1))
    return FastWeights(mixing, min(zeta, contraction(mixing)), bound)


def search_weights(
    rows: IndexArray, cols: IndexArray, size: int, enough: float = 0.0, gap: float = GAP
) -> tuple[FloatArray, float, float]:
    """A weight for each link, an upper bound on their zeta, and a lower bound for any weights."""
    if len(rows) == size * (size - 1) // 2:
        return np.full(len(rows), 1.0 / size), 0.0, 0.0
    weight, zeta = _constant_weight(rows, cols, size)
    if zeta <= enough:
        return weight, zeta, 0.0
    from fedrt.control.mixing.fastest_kernel import improve_weights

    # A start inside: any s above zeta.
    zeta, bound = improve_weights(weight, zeta * 1.05 + 1e-3, rows, cols, size, enough, gap)
    return weight, zeta, bound


def _constant_weight(rows: IndexArray, cols: IndexArray, size: int) -> tuple[FloatArray, float]:
    """The best weight that all links can have in common, and its zeta."""
    low, high = laplacian_ends(rows, cols, size)
    return np.full(len(rows), 2.0 / (low + high)), (high - low) / (high + low)


def laplacian_ends(rows: IndexArray, cols: IndexArray, size: int) -> tuple[float, float]:
    """The second smallest and the greatest eigenvalue of the links' Laplacian."""
    laplacian = np.zeros((size, size))
    laplacian[rows, cols] = laplacian[cols, rows] = -1.0
    np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
    eigenvalue = np.linalg.eigvalsh(laplacian)
    return float(eigenvalue[1]), float(eigenvalue[-1])


def simple_weights(topology: BoolMatrix) -> FastWeights:
    """Metropolis or best-constant weights, whichever mix faster; not proven to be the fastest."""
    choices = (metropolis_weights(topology), best_constant_weights(topology))
    zetas = [contraction(mixing) for mixing in choices]
    best = int(np.argmin(zetas))
    return FastWeights(choices[best], zetas[best], 0.0)
