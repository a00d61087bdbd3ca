"""Certified lower bounds on the contraction of any mixing weights on given links.

With weights w on the links M = I - sum of w_l a_l a_l^T, a_l being +1 and -1 at the ends of link l.
Its contraction zeta is the spectral norm of M - J, J the average, and the least zeta over the
weights is a convex problem (Xiao and Boyd 2004). Its dual: for any symmetric Y with
a_l^T Y a_l = 0 on every link,  <Y, M - J> = <Y, I - J> whatever the weights, so

    zeta >= <Y, I - J> / (sum of the absolute eigenvalues of Y).

Good Y come from the smoothed problem, log(sum of 2 cosh(theta lambda_i)) / theta over the
eigenvalues of M - J, whose gradient is such a Y: where Newton's method ends the a_l^T Y a_l vanish,
and what is left of them is projected away. A whole batch of graphs at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# Sharper and sharper smoothing, and Newton's steps at each.
SHARPNESS = (8.0, 24.0, 72.0, 216.0, 648.0)
STEPS = 6
SURE = 1e-9
"""The relative margin by which a bound must pass a target to count."""


def degree_contraction(degree: NDArray[np.int64] | int, size: int) -> FloatArray:
    """A contraction no weights can beat where a server has d links: sqrt(m / (C (d + 1))).

    The row of M - J of a server with d links has m = C - 1 - d entries -1/C and adds up to 0; its
    length, which is least with the rest spread evenly, is no more than the spectral norm.
    """
    d = np.asarray(degree, dtype=np.float64)
    bound: FloatArray = np.sqrt((size - 1 - d) / (size * (d + 1)))
    return bound


def contraction_bounds(
    graphs: BoolArray, target: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """For each graph, a contraction that no weights can beat, and one that some weights reach.

    `graphs` is K x C x C. With `target` the search for a graph ends once it is on one side.
    """
    count, size = graphs.shape[:2]
    low, high = np.zeros(count), np.full(count, np.inf)
    if size == 1:
        return low, np.zeros(count)
    rows, cols = np.triu_indices(size, k=1)
    ends = np.zeros((len(rows), size))
    ends[np.arange(len(rows)), rows], ends[np.arange(len(rows)), cols] = 1.0, -1.0
    degree = graphs.sum(axis=2)
    low = degree_contraction(degree.min(axis=1), size)
    weight = 1.0 / (1.0 + np.maximum(degree[:, rows], degree[:, cols]))
    weight = np.where(graphs[:, rows, cols], weight, 0.0)
    todo = np.arange(count)
    for theta in SHARPNESS:
        links = graphs[todo][:, rows, cols]
        weight[todo] = _smooth_minimum(ends, links, weight[todo], theta)
        value, vector = _eigen(ends, weight[todo])
        high[todo] = np.minimum(high[todo], np.abs(value).max(axis=1))
        low[todo] = np.maximum(low[todo], _dual_bound(ends, links, value, vector, theta))
        undecided = high[todo] - low[todo] > SURE
        if target is not None:
            undecided &= (low[todo] <= target[todo] * (1 + SURE)) & (high[todo] > target[todo])
        todo = todo[undecided]
        if not todo.size:
            break
    return low, high


def _eigen(ends: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The eigenvalues and eigenvectors of M - J, for each row of link weights."""
    size = ends.shape[1]
    matrix = (
        np.eye(size) - 1.0 / size - np.einsum("kl,li,lj->kij", weight, ends, ends, optimize=True)
    )
    value, vector = np.linalg.eigh(matrix)
    return value, vector


def _soft(value: FloatArray, theta: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A smoothed spectral norm, its slope in each eigenvalue, and terms of its curvature."""
    top = np.abs(value).max(axis=1, keepdims=True)
    up, down = np.exp(theta * (value - top)), np.exp(theta * (-value - top))
    total = (up + down).sum(axis=1, keepdims=True)
    return top[:, 0] + np.log(total[:, 0]) / theta, (up - down) / total, (up + down) / total


def _smooth_minimum(
    ends: FloatArray, links: BoolArray, weight: FloatArray, theta: float
) -> FloatArray:
    """The link weights after a few Newton steps that minimise the smoothed norm."""
    value, vector = _eigen(ends, weight)
    norm, slope, bend = _soft(value, theta)
    for _ in range(STEPS):
        z = ends @ vector  # K x L x C
        pairs = z[:, :, :, None] * z[:, :, None, :]
        gap = value[:, :, None] - value[:, None, :]
        same = np.abs(gap) < 1e-9
        quotient = (slope[:, :, None] - slope[:, None, :]) / np.where(same, 1.0, gap)
        quotient = np.where(same, theta * bend[:, :, None], quotient)
        flat = pairs.reshape(*pairs.shape[:2], -1)
        gradient = -np.einsum("kli,ki->kl", z**2, slope)
        gradient = np.where(links, gradient, 0.0)
        hessian = (flat * quotient.reshape(len(flat), 1, -1)) @ flat.transpose(0, 2, 1)
        hessian = hessian - theta * gradient[:, :, None] * gradient[:, None, :]
        both = links[:, :, None] & links[:, None, :]
        hessian = np.where(both, hessian, 0.0)
        small = 1e-10 * np.trace(hessian, axis1=1, axis2=2) + 1e-300
        diagonal = np.where(links, small[:, None], 1.0)
        hessian = hessian + diagonal[:, :, None] * np.eye(hessian.shape[1])
        step = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        done = np.zeros(len(weight), dtype=bool)
        for size in (1.0, 0.4, 0.1, 0.01):
            trial = weight + size * step
            new_value, new_vector = _eigen(ends, trial)
            new_norm, new_slope, new_bend = _soft(new_value, theta)
            better = ~done & (new_norm < norm)
            weight = np.where(better[:, None], trial, weight)
            value = np.where(better[:, None], new_value, value)
            vector = np.where(better[:, None, None], new_vector, vector)
            norm = np.where(better, new_norm, norm)
            slope = np.where(better[:, None], new_slope, slope)
            bend = np.where(better[:, None], new_bend, bend)
            done |= better
            if done.all():
                break
        if not done.any():
            break
    return weight


def _dual_bound(
    ends: FloatArray, links: BoolArray, value: FloatArray, vector: FloatArray, theta: float
) -> FloatArray:
    """The certified bound given by the smoothed norm's gradient, projected to be dual feasible."""
    slope = _soft(value, theta)[1]
    y = (vector * slope[:, None, :]) @ vector.transpose(0, 2, 1)
    gram = (ends @ ends.T) ** 2
    both = links[:, :, None] & links[:, None, :]
    system = np.where(both, gram, 0.0) + np.where(links, 0.0, 1.0)[:, :, None] * np.eye(len(gram))
    off = np.where(links, np.einsum("li,kij,lj->kl", ends, y, ends, optimize=True), 0.0)
    # Never singular: each a_l a_l^T has an entry that no other link's has.
    share = np.linalg.solve(system, off[:, :, None])[:, :, 0]
    y = y - np.einsum("kl,li,lj->kij", share, ends, ends, optimize=True)
    norm = np.abs(np.linalg.eigvalsh(y)).sum(axis=1)
    size = y.shape[1]
    inner = np.trace(y, axis1=1, axis2=2) - y.sum(axis=(1, 2)) / size
    bound: FloatArray = np.where(norm > 1e-12, inner / np.maximum(norm, 1e-12), 0.0)
    return bound
