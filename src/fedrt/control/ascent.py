"""The greatest value of a concave function of non-negative numbers, by projected L-BFGS."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Function = Callable[[FloatArray], tuple[float, FloatArray]]

MEMORY = 20
ENOUGH = 1e-4
"""Part of the promised gain that a step must bring."""


def ascend(
    function: Function, start: FloatArray, most_steps: int, tolerance: float = 1e-7
) -> FloatArray:
    """The best point found; `function` gives value and slope.

    Numbers that are zero and would fall are held; the others move along the quasi-Newton direction,
    cut off at zero, as far as the value keeps rising enough. A concave function need not be smooth:
    where no such step is left the memory is dropped once before giving up. Ends when five steps
    together bring less than `tolerance` of the value.
    """
    x = np.maximum(start, 0.0)
    value, slope = function(x)
    memory: list[tuple[FloatArray, FloatArray]] = []
    values = [value]
    length = 1.0 / max(float(np.abs(slope).max(initial=0.0)), 1e-300)
    for _ in range(most_steps):
        free = (x > 0) | (slope > 0)
        if not (slope[free] != 0).any():
            break
        way = _direction(slope, free, memory) if memory else 0.3 * length * np.where(free, slope, 0)
        found = _step(function, x, value, slope, way)
        if found is None:
            if not memory:
                break
            length = float(np.abs(memory[-1][0]).max()) / max(float(np.abs(slope).max()), 1e-300)
            memory = []
            continue
        new_x, value, new_slope = found
        change, bend = new_x - x, slope - new_slope
        if change @ bend > 1e-12 * np.sqrt((change @ change) * (bend @ bend)):
            memory = [*memory[-MEMORY + 1 :], (change, bend)]
        x, slope = new_x, new_slope
        values.append(value)
        if len(values) > 5 and values[-1] - values[-6] <= tolerance * abs(values[-1]):
            break
    return x


def _direction(
    slope: FloatArray, free: NDArray[np.bool_], memory: list[tuple[FloatArray, FloatArray]]
) -> FloatArray:
    """The L-BFGS direction among the free numbers (two-loop recursion)."""
    way = np.where(free, slope, 0.0)
    pairs = [(np.where(free, s, 0.0), np.where(free, y, 0.0)) for s, y in memory]
    pairs = [(s, y) for s, y in pairs if s @ y > 1e-12 * np.sqrt((s @ s) * (y @ y))]
    if not pairs:
        return way * (memory[-1][0] @ memory[-1][1]) / (memory[-1][1] @ memory[-1][1])
    weights = []
    for s, y in reversed(pairs):
        weights.append((s @ way) / (s @ y))
        way = way - weights[-1] * y
    s, y = pairs[-1]
    way = way * (s @ y) / (y @ y)
    for (s, y), weight in zip(pairs, reversed(weights), strict=True):
        way = way + (weight - (y @ way) / (s @ y)) * s
    return np.where(free, way, 0.0)


def _step(
    function: Function, x: FloatArray, value: float, slope: FloatArray, way: FloatArray
) -> tuple[FloatArray, float, FloatArray] | None:
    """The first of ever shorter steps that brings enough; None if none does."""
    size = 1.0
    for _ in range(20):
        new_x = np.maximum(x + size * way, 0.0)
        promise = slope @ (new_x - x)
        if not (new_x != x).any():
            return None
        new_value, new_slope = function(new_x)
        if new_value >= value + ENOUGH * promise and promise > 0:
            return new_x, new_value, new_slope
        size *= 0.4
    return None
