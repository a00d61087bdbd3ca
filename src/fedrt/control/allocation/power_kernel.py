"""The compiled search for one device's least bandwidth where it may lower its radio's power.

Kept apart because importing it loads numba. The mathematics is in `other_laws`.
"""

from __future__ import annotations

import numpy as np

from fedrt.control.allocation.device_kernel import (
    LawDevices,
    Work,
    bandwidth_for,
    longest_upload,
    snr_of_share,
)
from fedrt.system.jit import compiled

MOST_STEPS = 200
# At the best delay the bandwidth's slope is zero: this much of it changes the bandwidth by the
# square.
SLOPE = 1e-7
ROUNDING = 1e-15


@compiled(error_model="numpy")
def _saved(
    fleet: LawDevices, n: int, top: float, delay_s: float
) -> tuple[float, float]:  # pragma: no cover - compiled
    """The joules saved by computing for longer than at the top frequency, and per second more."""
    w = fleet.w[n]
    if fleet.table[n] < 0:
        f = 1.0 / (1.0 / top + delay_s / w)
        drop = delay_s * f * top / w
        return fleet.a[n] * drop * (top + f), 2.0 * fleet.a[n] * f * f * f / w
    table, s, j = fleet.table[n], fleet.s_per_cycle, fleet.j_per_cycle
    here_s, saved_j, g = w / top, 0.0, 0.0
    for i in range(fleet.points[table], fleet.points[table + 1] - 1):
        length_s = w * s[i + 1] - here_s
        if length_s <= 0.0:
            continue
        g = fleet.cycles[n] * (j[i] - j[i + 1]) / (w * (s[i + 1] - s[i]))
        if delay_s <= length_s:
            return saved_j + g * delay_s, g
        saved_j += g * length_s
        delay_s -= length_s
        here_s = w * s[i + 1]
    return saved_j, g


@compiled(error_model="numpy")
def _rises(
    fleet: LawDevices, n: int, t: float, energy_j: float, g: float
) -> tuple[float, float]:  # pragma: no cover - compiled
    """Whether one second more of computing asks for more bandwidth (> 0) or less (< 0).

    As a logarithm, and with it log(1 + SNR) of an upload that takes t seconds and all the joules.
    """
    y = snr_of_share(fleet.p[n] * fleet.k[n] / energy_j)
    if not y > 0.0:
        return -np.inf, 0.0
    v = np.log1p(y)
    # s (v (1 + y) - y) against g t y; for small y the bracket is y^2 / 2.
    curve = v * (1.0 + y) - y if y > 1e-4 else y * y * (0.5 - y / 6.0)
    return (np.log(energy_j * curve / (g * t * y)) if g > 0.0 else np.inf), v


@compiled(error_model="numpy")
def least_bandwidth(
    fleet: LawDevices, work: Work, n: int, extra: float
) -> tuple[float, float, float, float]:  # pragma: no cover - compiled
    """The least bandwidth with which a device ends in time, and its fall per second of tau.

    With them its upload time at full power, and what that gains per second of tau.
    `work.drop` and `tx_power_w` get the computing and the power that go with it.
    """
    top, left_j, p = fleet.cpu_hz[n], work.left_j[n], fleet.p[n]
    all_s = work.early_s[n] + extra
    full_s, gain = longest_upload(fleet, work, n, extra)
    fleet.tx_power_w[n] = p
    hz, fall = bandwidth_for(fleet.k[n], fleet.cn0_hz[n], full_s)
    if not p * all_s > left_j:
        return hz, fall * gain, full_s, gain
    if fleet.table[n] >= 0:
        end_s = work.drop[n]
    else:
        end_s = fleet.w[n] * work.drop[n] / (top * (top - work.drop[n]))
    waits = not gain > 0.0
    energy_j = fleet.spare_j[n] if waits else p * full_s
    t = all_s - end_s if waits else full_s
    g = _saved(fleet, n, top, end_s)[1]
    slope, v = _rises(fleet, n, t, energy_j, g)
    if slope <= 0.0 and not waits:
        return hz, fall * gain, full_s, gain
    delay_s = end_s
    if slope > 0.0:
        delay_s, energy_j, v = _best_delay(fleet, n, (top, left_j, all_s), end_s)
        t = all_s - delay_s
    if v == 0.0:
        return np.inf, np.inf, full_s, gain
    if fleet.table[n] >= 0:
        work.drop[n] = delay_s
    else:
        work.drop[n] = delay_s * top / (fleet.w[n] / top + delay_s)
    fleet.tx_power_w[n] = energy_j / t
    hz = fleet.k[n] * fleet.cn0_hz[n] / (v * t)
    return hz, hz / t, full_s, gain


@compiled(error_model="numpy")
def _best_delay(
    fleet: LawDevices, n: int, start: tuple[float, float, float], end_s: float
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """The delay before `end_s` at which the bandwidth no longer falls.

    With it the joules left for the upload, and log(1 + SNR).
    """
    top, left_j, all_s = start
    g = _saved(fleet, n, top, 0.0)[1]
    slope, v = _rises(fleet, n, all_s, left_j, g) if left_j > 0.0 else (-np.inf, 0.0)
    if slope >= 0.0:
        return 0.0, left_j, v
    low, high, at_low, at_high = 0.0, end_s, slope, np.inf
    energy_j, delay_s = left_j, 0.0
    for step in range(MOST_STEPS):
        delay_s = 0.5 * (low + high)
        if at_low > -np.inf and at_high < np.inf and step % 3 != 2:
            delay_s = low + (high - low) * at_low / (at_low - at_high)
        saved_j, g = _saved(fleet, n, top, delay_s)
        energy_j = left_j + saved_j
        slope, v = _rises(fleet, n, all_s - delay_s, energy_j, g)
        if abs(slope) <= SLOPE:
            break
        if slope < 0.0:
            low, at_low = delay_s, slope
        else:
            high, at_high = delay_s, slope
        if high - low <= ROUNDING * high:
            # A bend of a table: its right side is feasible.
            delay_s = high
            energy_j = left_j + _saved(fleet, n, top, high)[0]
            v = _rises(fleet, n, all_s - high, energy_j, 1.0)[1]
            break
    return delay_s, energy_j, v
