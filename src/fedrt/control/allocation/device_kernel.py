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


class TablePoints(NamedTuple):
    """The points of all tables: see `CpuTables`."""

    s_per_cycle: FloatArray
    j_per_cycle: FloatArray


class Device(NamedTuple):
    """One device of `LawDevices`: numbers, which compiled functions pass on at no cost."""

    k: float
    cn0_hz: float
    w: float
    a: float
    cycles: float
    p: float
    spare_j: float
    idle_w: float
    f_min: float
    f_max: float
    first: int
    """The first of its table's points, or -1 where its energy follows the cubic law."""
    last: int
    top: float
    """The highest frequency that its allowance lets it compute at."""
    left_j: float
    """What the allowance leaves for the upload at the top frequency."""
    early_s: float
    """How much before the slowest one it has computed, all at their top frequencies."""


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
def top_hz(d: Device, points: TablePoints) -> tuple[float, float]:  # pragma: no cover - compiled
    """The highest frequency that the allowance lets a device compute at.

    With it the joules that are then left for the upload.
    """
    if d.first < 0:
        left_j = d.spare_j - d.a * (d.f_max - d.f_min) * (d.f_max + d.f_min)
        if left_j >= 0.0:
            return d.f_max, left_j
        return min(d.f_max, np.sqrt(d.f_min * d.f_min + d.spare_j / d.a)), 0.0
    s, j = points.s_per_cycle, points.j_per_cycle
    left_j = d.spare_j - d.cycles * (j[d.first] - j[d.last])
    if left_j >= 0.0:
        return d.f_max, left_j
    i = d.last - 1
    while i > d.first and d.spare_j > d.cycles * (j[i] - j[d.last]):
        i -= 1
    part = (d.spare_j / d.cycles - (j[i + 1] - j[d.last])) / (j[i] - j[i + 1])
    return 1.0 / (s[i + 1] - part * (s[i + 1] - s[i])), 0.0


@compiled(error_model="numpy")
def computing_s(d: Device, drop: float) -> float:  # pragma: no cover - compiled
    """The seconds that a device computes; `drop` is how much slower than at its top it is.

    In Hz, with a table in s.
    """
    if d.first < 0:
        return d.w / max(d.top - drop, d.f_min)
    return d.w / d.top + drop


@compiled(error_model="numpy")
def _along_table(
    d: Device, points: TablePoints, t: float
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """How many seconds longer than at the top a device with a table computes to afford its upload.

    With them the joules that it then has for it, and those that one second more would save.
    `t` is the time for the upload at the top. 0 joules a second: even at the lowest frequency
    sending until the end costs too much.
    """
    s, j = points.s_per_cycle, points.j_per_cycle
    here_s, delay_s, left_j = d.w / d.top, 0.0, d.left_j
    over_j = d.p * t - left_j
    for i in range(d.first, d.last):
        length_s = d.w * s[i + 1] - here_s
        if length_s <= 0.0:
            continue
        g = d.cycles * (j[i] - j[i + 1]) / (d.w * (s[i + 1] - s[i]))
        if over_j <= (d.p + g) * length_s:
            more_s = over_j / (d.p + g)
            return delay_s + more_s, left_j + g * more_s, g
        over_j -= (d.p + g) * length_s
        left_j += g * length_s
        delay_s += length_s
        here_s = d.w * s[i + 1]
    return delay_s, d.spare_j, 0.0


@compiled(error_model="numpy")
def longest_upload(
    d: Device, points: TablePoints, extra: float, drop: float
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """The longest upload at full power that a device can afford, and its gain per second of tau.

    With them the drop of its computing; the given one must be no more, and starts the search.
    0 where it can afford none.
    """
    t = d.early_s + extra
    if not (d.p > 0.0 and d.p * t > d.left_j):
        return t, 1.0, drop
    if d.first >= 0:
        delay, energy_j, g = _along_table(d, points, t)
        if g > 0.0:
            return energy_j / d.p, g / (d.p + g), delay
        t, gain = _waiting_upload(d, t - delay)
        return t, gain, delay
    pw = d.p * d.w
    most = d.top - d.f_min
    if d.left_j == 0.0:
        most = d.spare_j / d.a / (d.top + d.f_min)  # the same, less rounding
    over = d.p * t - d.left_j
    slope = over + pw / d.top - d.a * d.top * d.top
    x = crossing_drop_hz(drop, d.top, d.a, pw, over, slope, most)
    f = d.top - x
    at_end = t - d.w * x / (d.top * f)
    if x >= most and d.p * at_end >= d.spare_j:
        t, gain = _waiting_upload(d, at_end)
        return t, gain, x
    curve = 2.0 * d.a * f * f * f
    return (d.left_j + d.a * x * (d.top + f)) / d.p, curve / (curve + pw), x


@compiled(error_model="numpy")
def _waiting_upload(
    d: Device, until_s: float
) -> tuple[float, float]:  # pragma: no cover - compiled
    """The longest upload of a device that, at its lowest frequency, cannot send until the end.

    It then waits: p t + idle (until - t) = spare.
    """
    if d.idle_w == 0.0:
        return d.spare_j / d.p, 0.0
    if d.idle_w >= d.p:
        return 0.0, 0.0
    less_w = d.p - d.idle_w
    return (d.spare_j - d.idle_w * until_s) / less_w, -d.idle_w / less_w
