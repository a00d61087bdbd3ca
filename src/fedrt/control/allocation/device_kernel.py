"""Compiled functions of one device under every law: its SNR, its upload time, its bandwidth.

Kept apart because importing it loads numba. The mathematics is in `other_laws`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.kernel import crossing_drop_hz
from fedrt.system.jit import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_SNR_STEPS = 60
# Newton's steps square the error: the step after one this small, relative, is below rounding.
LAST_STEP = 1e-8


class LawDevices(NamedTuple):
    """The devices of all clusters as arrays for the search, which fills the last three."""

    first: IntArray
    """Where each cluster's devices begin, and their number at the end."""
    edge_bandwidth_hz: FloatArray
    k: FloatArray
    """Per device, as all that follow: the hertz-seconds of its upload at a fixed SNR; with noise
    spread over the bandwidth the seconds that no bandwidth undercuts, bits ln 2 / cn0."""
    cn0_hz: FloatArray
    """Its C/N0 at full power; 0 at a fixed SNR."""
    w: FloatArray
    """The cycles that it computes."""
    a: FloatArray
    """Joules of computing over the frequency squared; not read where it has a table."""
    cycles: FloatArray
    """The cycles that its table's joules per cycle count for."""
    p: FloatArray
    """The full power of its radio."""
    spare_j: FloatArray
    """What is left for the upload at the lowest frequency; inf means no limit."""
    idle_w: FloatArray
    """Its power while it waits for the others."""
    f_min: FloatArray
    f_max: FloatArray
    table: IntArray
    """The table of its CPU, or -1."""
    points: IntArray
    """Where each table's points begin, and their number at the end."""
    s_per_cycle: FloatArray
    j_per_cycle: FloatArray
    bandwidth_hz: FloatArray
    cpu_hz: FloatArray
    tx_power_w: FloatArray
    """Of no length where plans may not lower powers."""


class Work(NamedTuple):
    """What a search keeps for each device while the time of its cluster changes."""

    early_s: FloatArray
    """How much before the slowest one it has computed, all at their top frequencies."""
    left_j: FloatArray
    """What the allowance leaves for the upload at the top frequency."""
    drop: FloatArray
    """How much slower than at the top it computes: in Hz, with a table in s."""


@compiled(error_model="numpy")
def snr_of_share(c: float) -> float:  # pragma: no cover - compiled
    """The SNR y > 0 with log(1 + y) = c y, for 0 < c < 1; 0 where c >= 1.

    The left side is concave and the right side a line, so Newton's steps from right of the root
    stay there. With u = 2 / c, 1 + u log u <= u^2 gives y <= u log u; near c = 1, y is about
    2 (1 - c).
    """
    if not c < 1.0:
        return 0.0
    y = 2.0 * (1.0 - c) / (c * c) if c > 0.5 else 2.0 / c * np.log(2.0 / c)
    for _ in range(MOST_SNR_STEPS):
        step = (c * y - np.log1p(y)) / (c - 1.0 / (1.0 + y))
        y -= step
        if not step > LAST_STEP * y:
            break
    return y


@compiled(error_model="numpy")
def send_s(k: float, cn0_hz: float, bandwidth_hz: float) -> float:  # pragma: no cover - compiled
    """The seconds of an upload at full power over a bandwidth."""
    if cn0_hz == 0.0:
        return k / bandwidth_hz
    y = cn0_hz / bandwidth_hz
    return k * y / np.log1p(y)


@compiled(error_model="numpy")
def bandwidth_for(
    k: float, cn0_hz: float, t: float
) -> tuple[float, float]:  # pragma: no cover - compiled
    """The bandwidth in Hz that ends an upload at full power after t, and how fast it falls with t.

    inf where none does.
    """
    if not t > 0.0:
        return np.inf, np.inf
    if cn0_hz == 0.0:
        return k / t, k / (t * t)
    c = k / t
    y = snr_of_share(c)
    if not y > 0.0:
        return np.inf, np.inf
    b = cn0_hz / y
    # With rate r = cn0 c / ln 2 it is (dr/dt) / (dr/db), less the logarithms.
    return b, cn0_hz * c / (t * y * max(c - 1.0 / (1.0 + y), 1e-300))


@compiled(error_model="numpy")
def top_hz(fleet: LawDevices, n: int) -> tuple[float, float]:  # pragma: no cover - compiled
    """The highest frequency that the allowance lets a device compute at.

    With it the joules that are then left for the upload.
    """
    spare_j, f_min, f_max = fleet.spare_j[n], fleet.f_min[n], fleet.f_max[n]
    if fleet.table[n] < 0:
        left_j = spare_j - fleet.a[n] * (f_max - f_min) * (f_max + f_min)
        if left_j >= 0.0:
            return f_max, left_j
        return min(f_max, np.sqrt(f_min * f_min + spare_j / fleet.a[n])), 0.0
    first, last = fleet.points[fleet.table[n]], fleet.points[fleet.table[n] + 1] - 1
    s, j, cycles = fleet.s_per_cycle, fleet.j_per_cycle, fleet.cycles[n]
    left_j = spare_j - cycles * (j[first] - j[last])
    if left_j >= 0.0:
        return f_max, left_j
    i = last - 1
    while i > first and spare_j > cycles * (j[i] - j[last]):
        i -= 1
    part = (spare_j / cycles - (j[i + 1] - j[last])) / (j[i] - j[i + 1])
    return 1.0 / (s[i + 1] - part * (s[i + 1] - s[i])), 0.0


@compiled(error_model="numpy")
def computing_s(
    fleet: LawDevices, n: int, top: float, drop: float
) -> float:  # pragma: no cover - compiled
    """The seconds that a device computes."""
    if fleet.table[n] < 0:
        return fleet.w[n] / max(top - drop, fleet.f_min[n])
    return fleet.w[n] / top + drop


@compiled(error_model="numpy")
def _along_table(
    fleet: LawDevices, n: int, top: float, left_j: float, t: float
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """How many seconds longer than at the top a device with a table computes to afford its upload.

    With them the joules that it then has for it, and those that one second more would save.
    `t` is the time for the upload at the top. 0 joules a second: even at the lowest frequency
    sending until the end costs too much.
    """
    table, w, p = fleet.table[n], fleet.w[n], fleet.p[n]
    s, j = fleet.s_per_cycle, fleet.j_per_cycle
    here_s, delay_s = w / top, 0.0
    over_j = p * t - left_j
    for i in range(fleet.points[table], fleet.points[table + 1] - 1):
        length_s = w * s[i + 1] - here_s
        if length_s <= 0.0:
            continue
        g = fleet.cycles[n] * (j[i] - j[i + 1]) / (w * (s[i + 1] - s[i]))
        if over_j <= (p + g) * length_s:
            more_s = over_j / (p + g)
            return delay_s + more_s, left_j + g * more_s, g
        over_j -= (p + g) * length_s
        left_j += g * length_s
        delay_s += length_s
        here_s = w * s[i + 1]
    return delay_s, fleet.spare_j[n], 0.0


@compiled(error_model="numpy")
def longest_upload(
    fleet: LawDevices, work: Work, n: int, extra: float
) -> tuple[float, float]:  # pragma: no cover - compiled
    """The longest upload at full power that a device can afford, and its gain per second of tau.

    0 where it can afford none.
    """
    t = work.early_s[n] + extra
    p, left_j, top = fleet.p[n], work.left_j[n], fleet.cpu_hz[n]
    if not (p > 0.0 and p * t > left_j):
        return t, 1.0
    if fleet.table[n] >= 0:
        delay, energy_j, g = _along_table(fleet, n, top, left_j, t)
        work.drop[n] = delay
        if g > 0.0:
            return energy_j / p, g / (p + g)
        return _waiting_upload(p, fleet.idle_w[n], fleet.spare_j[n], t - delay)
    a, pw, f_min = fleet.a[n], p * fleet.w[n], fleet.f_min[n]
    most = top - f_min
    if left_j == 0.0:
        most = fleet.spare_j[n] / a / (top + f_min)  # the same, less rounding
    over = p * t - left_j
    slope = over + pw / top - a * top * top
    x = crossing_drop_hz(work.drop[n], top, a, pw, over, slope, most)
    work.drop[n] = x
    f = top - x
    at_end = t - fleet.w[n] * x / (top * f)
    if x >= most and p * at_end >= fleet.spare_j[n]:
        return _waiting_upload(p, fleet.idle_w[n], fleet.spare_j[n], at_end)
    curve = 2.0 * a * f * f * f
    return (left_j + a * x * (top + f)) / p, curve / (curve + pw)


@compiled(error_model="numpy")
def _waiting_upload(
    p: float, idle_w: float, spare_j: float, until_s: float
) -> tuple[float, float]:  # pragma: no cover - compiled
    """The longest upload of a device that, at its lowest frequency, cannot send until the end.

    It then waits: p t + idle (until - t) = spare.
    """
    if idle_w == 0.0:
        return spare_j / p, 0.0
    if idle_w >= p:
        return 0.0, 0.0
    return (spare_j - idle_w * until_s) / (p - idle_w), -idle_w / (p - idle_w)
