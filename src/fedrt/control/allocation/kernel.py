"""The compiled search behind `allocate.allocate`, one cluster after the other.

Kept apart because importing it loads numba. The mathematics is in `allocate`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrt.system.jit import compiled

FloatArray = NDArray[np.float64]

# Newton's method gains digits quadratically once close; these only stop a stall at rounding.
MOST_TIME_STEPS = 1000
MOST_FREQUENCY_STEPS = 200
ROUNDING = 1e-15


@compiled()
def crossing_drop_hz(
    drop: float, top_hz: float, a: float, pw: float, over_j: float, slope: float, most: float
) -> float:  # pragma: no cover - compiled
    """How far below `top_hz` the frequency lies at which time and energy limits meet, in Hz.

    It is the x with f (over - a x (top + f)) = p W x / top.

    f = top - x. Up to sign this is the cubic a f^3 + (p tau - E) f - p W, written so that nothing
    cancels however near the top its root is. It is convex for f > 0 with one positive root, so
    Newton's steps from a point right of it (x too small) only go left; the search ends when they
    stop doing so, or at `most`. `over_j` is what sending until tau would cost beyond the
    allowance at `top_hz`, `slope` is p tau - E.
    """
    x = drop
    for _ in range(MOST_FREQUENCY_STEPS):
        f = top_hz - x
        rise = 3.0 * a * f * f + slope
        if rise <= 0.0:
            break
        step = (f * (over_j - a * x * (top_hz + f)) - pw * x / top_hz) / rise
        if step <= ROUNDING * x:
            break
        x += step
        if x >= most:
            return most
    return x


class Devices(NamedTuple):
    """The devices of all clusters as arrays for the search, which fills the last two."""

    first: NDArray[np.int64]
    """Where each cluster's devices begin, and their number at the end."""
    edge_bandwidth_hz: FloatArray
    k: FloatArray
    """Per device, as all that follow: the hertz-seconds of its upload."""
    w: FloatArray
    """The cycles that it computes."""
    a: FloatArray
    """Joules of computing over the frequency squared."""
    p: FloatArray
    """The power of its radio."""
    spare_j: FloatArray
    """E - a f_min^2, what is left for the upload at the lowest frequency; inf means no limit."""
    f_min: FloatArray
    f_max: FloatArray
    bandwidth_hz: FloatArray
    cpu_hz: FloatArray


@compiled()
def solve_clusters(fleet: Devices) -> tuple[int, float]:  # pragma: no cover - compiled
    """Fill in `bandwidth_hz` and `cpu_hz` of the feasible clusters; return how the search ended.

    The most time steps one took, and the greatest part by which the bandwidth that the last time
    asks for exceeds a cluster's. Uploads can be shorter than the last digit of tau, so neither tau
    nor a frequency is ever subtracted from its like: tau is kept as `base` + `extra`, base being
    the longest computing time at the top frequencies, and a frequency as its drop below its top.
    """
    first, edge_bandwidth_hz, k, w, a, p, spare_j, f_min, f_max, bandwidth_hz, cpu_hz = fleet
    residual = 0.0
    most_steps = 0
    drop_hz = np.zeros(len(k))
    early_s = np.empty(len(k))  # base less the computing time at the top frequency
    left_j = np.empty(len(k))  # what the allowance leaves for the upload at the top frequency
    for c in range(len(first) - 1):
        lo, hi = first[c], first[c + 1]
        if lo == hi:
            continue
        b = edge_bandwidth_hz[c]
        base = 0.0
        for n in range(lo, hi):
            f = f_max[n]
            left_j[n] = spare_j[n] - a[n] * (f_max[n] - f_min[n]) * (f_max[n] + f_min[n])
            if left_j[n] < 0.0:
                f = min(f, np.sqrt(f_min[n] * f_min[n] + spare_j[n] / a[n]))
                left_j[n] = 0.0
            cpu_hz[n] = f
            base = max(base, w[n] / f)
        # tau >= W/f + k/b_c with the highest frequency the budget allows: a lower bound.
        extra = 0.0
        for n in range(lo, hi):
            early_s[n] = base - w[n] / cpu_hz[n]
            extra = max(extra, k[n] / b - early_s[n])
        steps = 0
        while True:
            need, fall = 0.0, 0.0
            for n in range(lo, hi):
                t = early_s[n] + extra
                gain = 1.0
                if p[n] > 0.0 and p[n] * t > left_j[n]:
                    top, pw = cpu_hz[n], p[n] * w[n]
                    most = top - f_min[n]
                    if left_j[n] == 0.0:
                        most = spare_j[n] / a[n] / (top + f_min[n])  # the same, less rounding
                    over = p[n] * t - left_j[n]
                    slope = over + pw / top - a[n] * top * top
                    x = crossing_drop_hz(drop_hz[n], top, a[n], pw, over, slope, most)
                    drop_hz[n] = x
                    f = top - x
                    affordable = (left_j[n] + a[n] * x * (top + f)) / p[n]
                    if x >= most and t - w[n] * x / (top * f) >= spare_j[n] / p[n]:
                        affordable, gain = spare_j[n] / p[n], 0.0
                    else:
                        curve = 2.0 * a[n] * f * f * f
                        gain = curve / (curve + pw)
                    t = affordable
                bandwidth_hz[n] = k[n] / t
                need += bandwidth_hz[n]
                fall += bandwidth_hz[n] * gain / t
            steps += 1
            if need <= b or fall <= 0.0 or steps >= MOST_TIME_STEPS:
                break
            # Newton on 1/need(tau) = 1/b_c.
            step = need * (need - b) / (b * fall)
            if step <= ROUNDING * extra:
                break
            extra += step
        share = b / need
        for n in range(lo, hi):
            bandwidth_hz[n] *= share
            cpu_hz[n] = max(cpu_hz[n] - drop_hz[n], f_min[n])
        most_steps, residual = max(most_steps, steps), max(residual, need / b - 1.0)
    return most_steps, residual
