"""The compiled interior-point search behind `fastest`, on small dense matrices.

Kept apart because importing it loads numba. The mathematics is in `fastest`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.system.jit import compiled

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

# The barrier's weight grows by this much between centres; a step with a decrement below NEAR is
# a whole Newton step, and ends near enough to the centre for the bound that `lower` states.
GROWTH = 10.0
NEAR = 0.25
MOST_STEPS = 500


@compiled()
def _factor(matrix: FloatArray) -> None:  # pragma: no cover - compiled
    """Replace the lower half of a positive definite matrix by its Cholesky factor."""
    n = len(matrix)
    for j in range(n):
        for i in range(j, n):
            total = matrix[i, j]
            for c in range(j):
                total -= matrix[i, c] * matrix[j, c]
            if i == j:
                matrix[j, j] = np.sqrt(max(total, 1e-300))
            else:
                matrix[i, j] = total / matrix[j, j]


@compiled()
def _solve(factor: FloatArray, x: FloatArray) -> None:  # pragma: no cover - compiled
    """Solve a linear system with a Cholesky factor, in place of its right-hand side x."""
    n = len(x)
    for i in range(n):
        for c in range(i):
            x[i] -= factor[i, c] * x[c]
        x[i] /= factor[i, i]
    for i in range(n - 1, -1, -1):
        for c in range(i + 1, n):
            x[i] -= factor[c, i] * x[c]
        x[i] /= factor[i, i]


@compiled()
def _invert(matrix: FloatArray) -> FloatArray:  # pragma: no cover - compiled
    """The inverse of a positive definite matrix, which is overwritten."""
    n = len(matrix)
    _factor(matrix)
    inverse = np.eye(n)
    for i in range(n):
        _solve(matrix, inverse[i])  # symmetric: a row serves as a column
    return inverse


@compiled()
def fill_deviation(
    weight: FloatArray, rows: IndexArray, cols: IndexArray, out: FloatArray
) -> None:  # pragma: no cover - compiled
    """Fill in W - J: the mixing matrix of the link weights minus the averaging matrix."""
    n = len(out)
    out[:] = -1.0 / n
    for i in range(n):
        out[i, i] += 1.0
    for e in range(len(rows)):
        i, j = rows[e], cols[e]
        out[i, i] -= weight[e]
        out[j, j] -= weight[e]
        out[i, j] += weight[e]
        out[j, i] += weight[e]


@compiled()
def _newton_step(
    t: float, upper: FloatArray, lower: FloatArray, rows: IndexArray, cols: IndexArray
) -> tuple[FloatArray, float]:  # pragma: no cover - compiled
    """The Newton direction for the weights and s, and the Newton decrement."""
    m, n = len(rows), len(upper)
    gradient, hessian = np.zeros(m + 1), np.zeros((m + 1, m + 1))
    gradient[m] = t
    for i in range(n):
        gradient[m] -= upper[i, i] + lower[i, i]
        for j in range(n):
            hessian[m, m] += upper[i, j] * upper[i, j] + lower[i, j] * lower[i, j]
    for e in range(m):
        i, j = rows[e], cols[e]
        gradient[e] = (lower[i, i] + lower[j, j] - 2.0 * lower[i, j]) - (
            upper[i, i] + upper[j, j] - 2.0 * upper[i, j]
        )
        for c in range(n):
            hessian[m, e] += (upper[i, c] - upper[j, c]) ** 2 - (lower[i, c] - lower[j, c]) ** 2
        for d in range(e + 1):
            c, c2 = rows[d], cols[d]
            a = upper[i, c] - upper[i, c2] - upper[j, c] + upper[j, c2]
            b = lower[i, c] - lower[i, c2] - lower[j, c] + lower[j, c2]
            hessian[e, d] = a * a + b * b
    direction = -gradient
    _factor(hessian)
    _solve(hessian, direction)
    squared = 0.0
    for e in range(m + 1):
        squared -= gradient[e] * direction[e]
    return direction, np.sqrt(max(0.0, squared))


@compiled()
def improve_weights(
    weight: FloatArray, s: float, rows: IndexArray, cols: IndexArray, n: int, enough: float,
    gap: float,
) -> tuple[float, float]:  # fmt: skip # pragma: no cover - compiled
    """Improve the link weights in place; return bounds on their zeta and on that of any weights.

    `s` must lie above the zeta of the weights given. Ends when zeta <= enough is reached or
    proven out of reach, or the bounds are `gap` apart.
    """
    order = 2.0 * n  # of the barrier
    t, bound = 2.0 * order / s, 0.0
    deviation = np.empty((n, n))
    fill_deviation(weight, rows, cols, deviation)
    for _ in range(MOST_STEPS):
        identity = s * np.eye(n)
        direction, size = _newton_step(
            t, _invert(identity - deviation), _invert(identity + deviation), rows, cols
        )
        step = 1.0 if size < NEAR else 1.0 / (1.0 + size)
        weight += step * direction[:-1]
        s += step * direction[-1]
        fill_deviation(weight, rows, cols, deviation)
        if s <= enough:
            break
        if size < NEAR:
            off = (size / (1.0 - size)) ** 2  # the decrement after the step is at most this
            bound = max(bound, s - (order + (off + np.sqrt(order)) * off / (1.0 - off)) / t)
            if bound > enough > 0.0 or s - bound <= gap:
                break
            t *= GROWTH
    return s, bound
