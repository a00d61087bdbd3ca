"""The compiled search for one device's least bandwidth where it may lower its radio's power.

Kept apart because importing it loads numba. The mathematics is in `other_laws`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedrt.control.allocation.device_kernel import (
    Device,
    TablePoints,
    bandwidth_for,
    longest_upload,
    snr_of_share,
)
from fedrt.system.jit import compiled

MOST_STEPS = 200
# At the best delay the logarithm of the bandwidth's rise over its fall is zero. This much of it is
# worth its square of the bandwidth.
SLOPE = 1e-6
ROUNDING = 1e-15


@compiled(error_model="numpy")
def _saved(
    d: Device, points: TablePoints, delay_s: float
) -> tuple[float, float]:  # pragma: no cover - compiled
    """The joules saved by computing for longer than at the top frequency, and per second more."""
    if d.first < 0:
        f = 1.0 / (1.0 / d.top + delay_s / d.w)
        drop = delay_s * f * d.top / d.w
        return d.a * drop * (d.top + f), 2.0 * d.a * f * f * f / d.w
    s, j = points.s_per_cycle, points.j_per_cycle
    here_s, saved_j, g = d.w / d.top, 0.0, 0.0
    for i in range(d.first, d.last):
        length_s = d.w * s[i + 1] - here_s
        if length_s <= 0.0:
            continue
        g = d.cycles * (j[i] - j[i + 1]) / (d.w * (s[i + 1] - s[i]))
        if delay_s <= length_s:
            return saved_j + g * delay_s, g
        saved_j += g * length_s
        delay_s -= length_s
        here_s = d.w * s[i + 1]
    return saved_j, g


@compiled(error_model="numpy")
def _rises(
    d: Device, t: float, energy_j: float, g: float
) -> tuple[float, float]:  # pragma: no cover - compiled
    """Whether one second more of computing asks for more bandwidth (> 0) or less (< 0).

    As a logarithm, and with it log(1 + SNR) of an upload that takes t seconds and all the joules.
    """
    y = snr_of_share(d.p * d.k / energy_j)
    if not y > 0.0:
        return -np.inf, 0.0
    v = np.log1p(y)
    # s (v (1 + y) - y) against g t y; for small y the bracket is y^2 / 2.
    curve = v * (1.0 + y) - y if y > 1e-4 else y * y * (0.5 - y / 6.0)
    return (np.log(energy_j * curve / (g * t * y)) if g > 0.0 else np.inf), v


@compiled(error_model="numpy")
def _delay_s(d: Device, drop: float) -> float:  # pragma: no cover - compiled
    """How much longer than at its top frequency a device computes."""
    return drop if d.first >= 0 else d.w * drop / (d.top * (d.top - drop))


class Need(NamedTuple):
    """The least bandwidth with which a device ends in time, and what goes with it."""

    hz: float
    fall: float
    """How fast the bandwidth falls with tau."""
    full_s: float
    """The longest upload at full power."""
    gain: float
    """How fast that grows with tau."""
    drop: float
    """How much slower than at its top frequency the device computes: see `computing_s`."""
    tx_power_w: float


@compiled(error_model="numpy")
def least_bandwidth(
    d: Device, points: TablePoints, extra: float, drop: float
) -> Need:  # pragma: no cover - compiled
    """The least bandwidth with which a device ends in time; `drop` is where the search begins."""
    before_s = _delay_s(d, drop)
    all_s = d.early_s + extra
    full_s, gain, drop = longest_upload(d, points, extra, drop)
    hz, fall = bandwidth_for(d.k, d.cn0_hz, full_s)
    if not d.p * all_s > d.left_j:
        return Need(hz, fall * gain, full_s, gain, drop, d.p)
    delay_s = _delay_s(d, drop)
    waits = not gain > 0.0
    energy_j = d.spare_j if waits else d.p * full_s
    t = all_s - delay_s if waits else full_s
    slope, v = _rises(d, t, energy_j, _saved(d, points, delay_s)[1])
    if slope <= 0.0 and not waits:
        return Need(hz, fall * gain, full_s, gain, drop, d.p)
    if slope > 0.0:
        delay_s, energy_j, v = _best_delay(d, points, all_s, before_s, delay_s, slope)
        t = all_s - delay_s
        drop = delay_s if d.first >= 0 else delay_s * d.top / (d.w / d.top + delay_s)
    if v == 0.0:
        return Need(np.inf, np.inf, full_s, gain, drop, d.p)
    hz = d.k * d.cn0_hz / (v * t)
    return Need(hz, hz / t, full_s, gain, drop, min(energy_j / t, d.p))


@compiled(error_model="numpy")
def _best_delay(
    d: Device, points: TablePoints, all_s: float, guess_s: float, high: float, at_high: float
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """The delay before `high` at which the bandwidth no longer falls.

    With it the joules left for the upload, and log(1 + SNR). By false position, in which the value
    of an end that stays is halved (the Illinois rule); `at_high` is the value at the right end.
    """
    low, at_low = 0.0, np.nan
    energy_j, delay_s, v, side = d.left_j, 0.0, 0.0, 0
    for step in range(MOST_STEPS):
        if step == 0 and low < guess_s < high:
            delay_s = guess_s
        elif np.isnan(at_low) and side > 0:
            delay_s = 0.0
        elif at_low > -np.inf and at_high < np.inf and step % 8 != 7:
            delay_s = low + (high - low) * at_low / (at_low - at_high)
        else:
            delay_s = 0.5 * (low + high)
        saved_j, g = _saved(d, points, delay_s)
        energy_j = d.left_j + saved_j
        slope, v = (-np.inf, 0.0)
        if energy_j > 0.0:
            slope, v = _rises(d, all_s - delay_s, energy_j, g)
        if abs(slope) <= SLOPE or (delay_s == 0.0 and slope > 0.0):
            break
        if slope < 0.0:
            at_high *= 0.5 if side < 0 else 1.0
            low, at_low, side = delay_s, slope, -1
        else:
            at_low *= 0.5 if side > 0 else 1.0
            high, at_high, side = delay_s, slope, 1
        if high - low <= ROUNDING * high:
            # A bend of a table: its right side is feasible.
            delay_s = high
            energy_j = d.left_j + _saved(d, points, high)[0]
            v = _rises(d, all_s - high, energy_j, 1.0)[1]
            break
    return delay_s, energy_j, v
