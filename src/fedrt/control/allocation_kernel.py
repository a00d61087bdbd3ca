"""The compiled search behind `allocation.allocate`: one cluster after the other, no solver.

Kept apart because importing it loads numba. The mathematics is in `allocation`.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Newton's method gains digits quadratically once close; these only stop a stall at rounding.
MOST_TIME_STEPS = 1000
MOST_FREQUENCY_STEPS = 200
ROUNDING = 1e-15


@njit(cache=True)
def crossing_hz(
    start_hz: float, q: float, a: float, pw: float, low_hz: float
) -> float:  # pragma: no cover - compiled
    """The positive root of a f^3 + q f - pw, by Newton from a point right of it.

    The cubic is convex for f > 0 and has one positive root, so the steps only go left; the
    search ends when they stop doing so, or at `low_hz`.
    """
    f = start_hz
    for _ in range(MOST_FREQUENCY_STEPS):
        slope = 3.0 * a * f * f + q
        if slope <= 0.0:
            break
        step = (a * f * f * f + q * f - pw) / slope
        if step <= ROUNDING * f:
            break
        f -= step
        if f <= low_hz:
            return low_hz
    return f


@njit(cache=True)
def solve_clusters(
    first: NDArray[np.int64],
    edge_bandwidth_hz: NDArray[np.float64],
    k: NDArray[np.float64],
    w: NDArray[np.float64],
    a: NDArray[np.float64],
    p: NDArray[np.float64],
    spare_j: NDArray[np.float64],
    f_min: NDArray[np.float64],
    f_max: NDArray[np.float64],
    bandwidth_hz: NDArray[np.float64],
    cpu_hz: NDArray[np.float64],
) -> int:  # pragma: no cover - compiled
    """Fill `bandwidth_hz` and `cpu_hz` for feasible clusters; the most time steps one took.

    `spare_j` is E - a f_min^2, what is left for the upload at the lowest frequency; inf means
    no limit.
    """
    most_steps = 0
    for c in range(len(first) - 1):
        lo, hi = first[c], first[c + 1]
        if lo == hi:
            continue
        b = edge_bandwidth_hz[c]
        # tau >= W/f + k/b_c with the highest frequency the budget allows: a lower bound.
        tau = 0.0
        for n in range(lo, hi):
            f = f_max[n]
            if spare_j[n] < a[n] * (f_max[n] - f_min[n]) * (f_max[n] + f_min[n]):
                f = min(f, np.sqrt(f_min[n] * f_min[n] + spare_j[n] / a[n]))
            cpu_hz[n] = f
            tau = max(tau, w[n] / f + k[n] / b)
        steps = 0
        while True:
            need, fall = 0.0, 0.0
            for n in range(lo, hi):
                f = cpu_hz[n]
                t = tau - w[n] / f
                gain = 1.0
                if p[n] > 0.0 and spare_j[n] < np.inf:
                    pt = p[n] * tau
                    cap = (spare_j[n] - a[n] * (f - f_min[n]) * (f + f_min[n])) / p[n]
                    if t > cap:
                        budget = spare_j[n] + a[n] * f_min[n] * f_min[n]
                        f = crossing_hz(f, pt - budget, a[n], p[n] * w[n], f_min[n])
                        cpu_hz[n] = f
                        cap = (spare_j[n] - a[n] * (f - f_min[n]) * (f + f_min[n])) / p[n]
                        t = tau - w[n] / f
                        if f <= f_min[n] and t >= cap:
                            t, gain = cap, 0.0
                        else:
                            # Both expressions give t; take the one that loses fewer digits.
                            if pt > budget:
                                t = cap
                            curve = 2.0 * a[n] * f * f * f
                            gain = curve / (curve + p[n] * w[n])
                t = max(t, 1e-16 * tau)
                bandwidth_hz[n] = k[n] / t
                need += bandwidth_hz[n]
                fall += bandwidth_hz[n] * gain / t
            steps += 1
            if need <= b or fall <= 0.0 or steps >= MOST_TIME_STEPS:
                break
            # Newton on 1/need(tau) = 1/b_c.
            step = need * (need - b) / (b * fall)
            if step <= ROUNDING * tau:
                break
            tau += step
        share = b / need
        for n in range(lo, hi):
            bandwidth_hz[n] *= share
        most_steps = max(most_steps, steps)
    return most_steps
