"""Other laws in the paper's form: lines above the rate, and cubic laws below measured energy.

Searches that are written for the paper's laws, k / t hertz for an upload of t seconds and a f^2
joules for computing, serve under others too where these have bounds of that form.

Rate. With noise spread over the bandwidth the rate R(b) = b log2(1 + g / b) is concave, so it lies
below its tangent at any b0: R(b) <= c0 + c1 b. An upload of B bits in t seconds thus needs at least

    b >= (B / c1) / t - c0 / c1

hertz: the paper's form, with kappa = 1 / c1 hertz-seconds to a bit and c0 / c1 hertz for free. For
the upload that has b0 hertz it is exact.

Energy. Measured joules of a cycle are convex and piecewise linear in the seconds s = 1 / f of a
cycle. A curve alpha / s^2 + beta, which is convex too, lies below all of them if it does at the
measured points.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.uplink import hertz_seconds
from fedrt.world.laws import CpuTables
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

# Below this SNR a difference of logarithms is taken from its series.
SMALL = 1e-3


def rate_line(bandwidth_hz: FloatArray, cn0_hz: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The tangent c0 + c1 b of the noise-density law at a bandwidth: bit/s, and bit/s per hertz."""
    snr = cn0_hz / bandwidth_hz
    exact = np.log1p(snr) - snr / (1.0 + snr)
    series = snr * snr * (0.5 - snr * (2.0 / 3.0 - snr * (0.75 - 0.8 * snr)))
    slope = np.where(snr < SMALL, series, exact) / np.log(2.0)
    return cn0_hz / (1.0 + snr) / np.log(2.0), slope


def hertz_of_bits(
    seen: Observation, bandwidth_hz: FloatArray, tx_power_w: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """For each device, kappa and the free hertz of the paper's form, exact at `bandwidth_hz`.

    B bits in t seconds take at least kappa B / t hertz less the free ones; none are free, and that
    is exact throughout, where noise is not spread over the bandwidth.
    """
    cn0_hz = seen.laws.cn0_hz
    if cn0_hz is None:
        return hertz_seconds(1.0, seen.snr), np.zeros(seen.num_devices)
    if tx_power_w is not None:
        cn0_hz = cn0_hz * (tx_power_w / seen.tx_power_w)
    start, slope = rate_line(bandwidth_hz, cn0_hz)
    return 1.0 / slope, start / slope


def cubic_law_below(
    tables: CpuTables | None, cycles: FloatArray, capacitance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """For each device, a and e such that a f^2 + e joules are never above those of its computing.

    Equal to them, with e = 0, for devices without a table. Of the lines below the points of a table
    over f^2 it is the one with the least sum of distances to them.
    """
    a, e = capacitance * cycles / 2, np.zeros_like(cycles)
    if tables is None:
        return a, e
    for i in np.unique(tables.of_device[tables.of_device >= 0]).tolist():
        part = slice(tables.first[i], tables.first[i + 1])
        slope, start = _line_below(tables.s_per_cycle[part] ** -2.0, tables.j_per_cycle[part])
        who = tables.of_device == i
        a[who], e[who] = slope * cycles[who], start * cycles[who]
    return a, e


def _line_below(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Slope and start of the line below all points with the least sum of distances to them.

    It is the side of their lower convex hull above which their mean lies.
    """
    if len(x) == 1:
        return float(y[0] / x[0]), 0.0
    hull: list[int] = []
    for i in np.argsort(x).tolist():
        while len(hull) >= 2:
            one, two = hull[-2], hull[-1]
            if (y[two] - y[one]) * (x[i] - x[one]) < (y[i] - y[one]) * (x[two] - x[one]):
                break
            hull.pop()
        hull.append(i)
    side = int(np.clip(np.searchsorted(x[hull], x.mean()), 1, len(hull) - 1))
    one, two = hull[side - 1], hull[side]
    slope = float((y[two] - y[one]) / (x[two] - x[one]))
    return slope, float(np.min(y - slope * x))
