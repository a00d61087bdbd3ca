"""The compiled search behind `other_laws`, one cluster after the other.

Kept apart because importing it loads numba. The mathematics is in `other_laws`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.device_kernel import (
    Device,
    LawDevices,
    TablePoints,
    bandwidth_for,
    computing_s,
    longest_upload,
    send_s,
    top_hz,
)
from fedrt.control.allocation.power_kernel import least_bandwidth
from fedrt.system.jit import compiled

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

# Newton's method gains digits quadratically once close; these only stop a stall at rounding.
MOST_STEPS = 1000
MOST_NEWTON_STEPS = 100
ROUNDING = 1e-15
# A limit that is met to this relative precision counts as met, as in `allocate`.
FITS = 1e-12
# A need this close to the bandwidth, relative, is met.
MET = 1e-14


class Work(NamedTuple):
    """What a search keeps for each device while the time of its cluster changes."""

    early_s: FloatArray
    """How much before the slowest one it has computed, all at their top frequencies."""
    left_j: FloatArray
    """What the allowance leaves for the upload at the top frequency, which `cpu_hz` has."""
    drop: FloatArray
    """How much slower than at the top it computes: in Hz, with a table in s."""


@compiled(error_model="numpy", inline="always")
def _device(fleet: LawDevices, work: Work, n: int) -> Device:  # pragma: no cover - compiled
    """One device's numbers."""
    table = fleet.table[n]
    return Device(
        fleet.k[n],
        fleet.cn0_hz[n],
        fleet.w[n],
        fleet.a[n],
        fleet.cycles[n],
        fleet.p[n],
        fleet.spare_j[n],
        fleet.idle_w[n],
        fleet.f_min[n],
        fleet.f_max[n],
        fleet.points[table] if table >= 0 else -1,
        fleet.points[table + 1] - 1 if table >= 0 else -1,
        fleet.cpu_hz[n],
        work.left_j[n],
        work.early_s[n],
    )


@compiled(error_model="numpy")
def _prepare(
    fleet: LawDevices, work: Work, part: tuple[int, int], b: float
) -> tuple[float, float]:  # pragma: no cover - compiled
    """Set the devices of a cluster to their top frequencies; base and extra of too short a time.

    In it each device computes at its top and then sends over all of the bandwidth.
    """
    base, extra = 0.0, 0.0
    points = TablePoints(fleet.s_per_cycle, fleet.j_per_cycle)
    for n in range(part[0], part[1]):
        fleet.cpu_hz[n], work.left_j[n] = top_hz(_device(fleet, work, n), points)
        work.drop[n] = 0.0
        base = max(base, fleet.w[n] / fleet.cpu_hz[n])
    for n in range(part[0], part[1]):
        work.early_s[n] = base - fleet.w[n] / fleet.cpu_hz[n]
        extra = max(extra, send_s(fleet.k[n], fleet.cn0_hz[n], b) - work.early_s[n])
    return base, extra


@compiled(error_model="numpy")
def ever_needed_hz(fleet: LawDevices) -> FloatArray:  # pragma: no cover - compiled
    """The bandwidth that each device needs however long it takes; inf where none does.

    It computes at its lowest frequency and sends for as long as it can afford, with power control
    for ever. 0 where it can do so at full power.
    """
    found = np.zeros(len(fleet.k))
    control = len(fleet.tx_power_w) > 0
    for n in range(len(found)):
        p, spare_j = fleet.p[n], fleet.spare_j[n]
        if p > 0.0 and spare_j < np.inf:
            found[n] = bandwidth_for(fleet.k[n], fleet.cn0_hz[n], spare_j / p)[0]
            if control and found[n] < np.inf:
                found[n] = 0.0
    return found


@compiled(error_model="numpy")
def _need(
    fleet: LawDevices, work: Work, part: tuple[int, int], b: float, extra: float
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """The bandwidth that a cluster needs for a time, and how fast it falls.

    With them a step that is too short because one device alone needs more than there is; inf if
    no step helps it.
    """
    need, fall, push = 0.0, 0.0, 0.0
    points = TablePoints(fleet.s_per_cycle, fleet.j_per_cycle)
    control = len(fleet.tx_power_w) > 0
    for n in range(part[0], part[1]):
        d = _device(fleet, work, n)
        if control:
            found = least_bandwidth(d, points, extra, work.drop[n])
            hz, less, gain = found.hz, found.fall, found.gain
            work.drop[n], fleet.tx_power_w[n] = found.drop, found.tx_power_w
            # Where the need has a pole, to a little beyond it.
            beyond = 1.0 + min(0.01, 0.25 * d.cn0_hz / b)
            short = d.k * beyond - found.full_s if hz == np.inf else 0.0
        else:
            t, gain, work.drop[n] = longest_upload(d, points, extra, work.drop[n])
            hz, less = bandwidth_for(d.k, d.cn0_hz, t)
            less *= gain
            short = send_s(d.k, d.cn0_hz, b) - t if hz > b else 0.0
        fleet.bandwidth_hz[n] = hz
        need += hz
        if hz < np.inf:
            fall += less
        if short > 0.0:
            push = max(push, short / gain if gain > 0.0 else np.inf)
    return need, fall, push


@compiled(error_model="numpy")
def _search(
    fleet: LawDevices, work: Work, part: tuple[int, int], b: float
) -> tuple[int, float, bool, float]:  # pragma: no cover - compiled
    """Find one cluster's least time.

    The steps taken, the part of it that it may be off by, whether there is one, and its extra.
    """
    base, extra = _prepare(fleet, work, part, b)
    left, right = extra, np.inf
    steps = 0
    while True:
        need, fall, push = _need(fleet, work, part, b, extra)
        steps += 1
        if need > b:
            left = extra
        else:
            right = extra
        if abs(need / b - 1.0) <= MET:
            return steps, 0.0, True, extra
        if need > b and (push == np.inf or not (fall > 0.0 or push > 0.0)):
            # More time does not help; what is missing may be rounding.
            return steps, need / b - 1.0, need / b - 1.0 <= FITS, extra
        # Newton on the logarithm of the need, which is convex and falls.
        step = need * np.log(need / b) / fall if need < np.inf else 0.0
        if need > b:
            step = max(step, push)
        new = extra + step
        if right < np.inf and (not left < new < right or steps > MOST_NEWTON_STEPS):
            new = 0.5 * (left + right)
        if abs(new - extra) <= ROUNDING * extra or steps >= MOST_STEPS:
            return steps, min(abs(step) / (base + extra), abs(need / b - 1.0)), True, extra
        if new < extra:
            work.drop[part[0] : part[1]] = 0.0
        extra = new


@compiled(error_model="numpy")
def _blocks(
    fleet: LawDevices, work: Work, part: tuple[int, int], b: float, extra: float, block_hz: float
) -> int:  # pragma: no cover - compiled
    """The whole blocks that a cluster needs for a time; one more than there are is many."""
    most = b / block_hz * (1.0 + FITS)
    work.drop[part[0] : part[1]] = 0.0
    need, _, _ = _need(fleet, work, part, b, extra)
    if not need <= b * (1.0 + FITS):
        return int(most) + 1
    count = 0
    for n in range(part[0], part[1]):
        blocks = fleet.bandwidth_hz[n] / block_hz
        count += max(int(np.ceil(blocks * (1.0 - FITS))), 1)
    return count


@compiled(error_model="numpy")
def _search_blocks(
    fleet: LawDevices, work: Work, part: tuple[int, int], b: float, block_hz: float, low: float
) -> bool:  # pragma: no cover - compiled
    """Find one cluster's least time in whole blocks and fill in `bandwidth_hz`; whether it has one.

    `low` is the extra of its least time with bandwidth in any shares, which is no more.
    """
    most = int(b / block_hz * (1.0 + FITS))
    high, growth = low, 1e-3
    while _blocks(fleet, work, part, b, high, block_hz) > most:
        if growth > 1e30:
            return False
        low = high
        high += growth * high
        growth *= 2.0
    while high - low > ROUNDING * high:
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        if _blocks(fleet, work, part, b, middle, block_hz) > most:
            low = middle
        else:
            high = middle
    left = most - _blocks(fleet, work, part, b, high, block_hz)
    for n in range(part[0], part[1]):
        blocks = fleet.bandwidth_hz[n] / block_hz
        fleet.bandwidth_hz[n] = block_hz * max(np.ceil(blocks * (1.0 - FITS)), 1.0)
    _give_blocks(fleet, work, part, block_hz, left)
    return True


@compiled(error_model="numpy")
def _end_s(fleet: LawDevices, work: Work, n: int) -> float:  # pragma: no cover - compiled
    """When a device ends."""
    d = _device(fleet, work, n)
    seconds, k, cn0_hz = computing_s(d, work.drop[n]), d.k, d.cn0_hz
    if len(fleet.tx_power_w) > 0:
        part = fleet.tx_power_w[n] / d.p
        k, cn0_hz = k / part, cn0_hz * part
    return seconds + send_s(k, cn0_hz, fleet.bandwidth_hz[n])


@compiled(error_model="numpy")
def _give_blocks(
    fleet: LawDevices, work: Work, part: tuple[int, int], block_hz: float, left: int
) -> None:  # pragma: no cover - compiled
    """Give each block that is left over to the device that then ends last, the first of equals."""
    for _ in range(left):
        last, latest = part[0], -1.0
        for n in range(part[0], part[1]):
            end_s = _end_s(fleet, work, n)
            if end_s > latest:
                last, latest = n, end_s
        fleet.bandwidth_hz[last] += block_hz


@compiled(error_model="numpy")
def solve_clusters_by_laws(
    fleet: LawDevices, block_hz: float, fits: BoolArray
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Fill in the last arrays of all clusters' devices; return how the search ended.

    The most steps one took, and the greatest part by which one's time may be off. `fits` gets
    whether a cluster has an allocation at all. `block_hz`: 0 where any share can be given.
    """
    first = fleet.first
    size = len(fleet.k)
    work = Work(np.empty(size), np.empty(size), np.zeros(size))
    most_steps, residual = 0, 0.0
    for c in range(len(first) - 1):
        part, b = (first[c], first[c + 1]), fleet.edge_bandwidth_hz[c]
        fits[c] = True
        if part[0] == part[1]:
            continue
        if block_hz > 0.0:
            b = block_hz * np.floor(b / block_hz * (1.0 + FITS))
        steps, off, fits[c], extra = _search(fleet, work, part, b)
        if fits[c] and block_hz > 0.0:
            fits[c] = _search_blocks(fleet, work, part, b, block_hz, extra)
        if not fits[c]:
            continue
        most_steps, residual = max(most_steps, steps), max(residual, off)
        share = b / fleet.bandwidth_hz[part[0] : part[1]].sum() if block_hz == 0.0 else 1.0
        latest = 0.0
        for n in range(part[0], part[1]):
            fleet.bandwidth_hz[n] *= share
            if block_hz > 0.0:
                latest = max(latest, _end_s(fleet, work, n))
        for n in range(part[0], part[1]):
            seconds = computing_s(_device(fleet, work, n), work.drop[n])
            if block_hz > 0.0 and fleet.idle_w[n] > 0.0:
                # What rounding up to blocks has gained: computing for longer saves what waiting
                # would cost.
                seconds += latest - _end_s(fleet, work, n)
            fleet.cpu_hz[n] = min(max(fleet.w[n] / seconds, fleet.f_min[n]), fleet.f_max[n])
    return most_steps, residual
