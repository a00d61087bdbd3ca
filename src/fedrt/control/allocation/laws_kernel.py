"""The compiled search behind `other_laws`, one cluster after the other.

Kept apart because importing it loads numba. The mathematics is in `other_laws`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.device_kernel import (
    LawDevices,
    Work,
    bandwidth_for,
    computing_s,
    longest_upload,
    send_s,
    top_hz,
)
from fedrt.system.jit import compiled

BoolArray = NDArray[np.bool_]

# Newton's method gains digits quadratically once close; these only stop a stall at rounding.
MOST_STEPS = 1000
MOST_NEWTON_STEPS = 100
ROUNDING = 1e-15
# A need this close to the bandwidth, relative, is met.
MET = 1e-14


@compiled(error_model="numpy")
def _prepare(
    fleet: LawDevices, work: Work, part: tuple[int, int], b: float
) -> tuple[float, float]:  # pragma: no cover - compiled
    """Set the devices of a cluster to their top frequencies; base and extra of a time that is too
    short: each device computes at its top and then sends over all of the bandwidth.
    """
    base, extra = 0.0, 0.0
    for n in range(part[0], part[1]):
        fleet.cpu_hz[n], work.left_j[n] = top_hz(fleet, n)
        work.drop[n] = 0.0
        base = max(base, fleet.w[n] / fleet.cpu_hz[n])
    for n in range(part[0], part[1]):
        work.early_s[n] = base - fleet.w[n] / fleet.cpu_hz[n]
        extra = max(extra, send_s(fleet.k[n], fleet.cn0_hz[n], b) - work.early_s[n])
    return base, extra


@compiled(error_model="numpy")
def _need(
    fleet: LawDevices, work: Work, part: tuple[int, int], b: float, extra: float
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """The bandwidth that a cluster needs for a time, how fast it falls, and a step that is too
    short because one device alone needs more than there is; inf if no step helps it.
    """
    need, fall, push = 0.0, 0.0, 0.0
    for n in range(part[0], part[1]):
        t, gain = longest_upload(fleet, work, n, extra)
        hz, drop = bandwidth_for(fleet.k[n], fleet.cn0_hz[n], t)
        fleet.bandwidth_hz[n] = hz
        need += hz
        if hz < np.inf:
            fall += drop * gain
        if hz > b:
            short = send_s(fleet.k[n], fleet.cn0_hz[n], b) - t
            push = max(push, short / gain if gain > 0.0 else np.inf)
    return need, fall, push


@compiled(error_model="numpy")
def _search(
    fleet: LawDevices, work: Work, part: tuple[int, int], b: float
) -> tuple[int, float, bool]:  # pragma: no cover - compiled
    """Find one cluster's least time; the steps taken, the part of it that it may be off by, and
    whether there is one.
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
            return steps, 0.0, True
        if need > b and (push == np.inf or not (fall > 0.0 or push > 0.0)):
            # More time does not help; what is missing may be rounding.
            return steps, need / b - 1.0, False
        # Newton on the logarithm of the need, which is convex and falls.
        step = need * np.log(need / b) / fall if need < np.inf else 0.0
        if need > b:
            step = max(step, push)
        new = extra + step
        if right < np.inf and (not left < new < right or steps > MOST_NEWTON_STEPS):
            new = 0.5 * (left + right)
        if abs(new - extra) <= ROUNDING * extra or steps >= MOST_STEPS:
            return steps, min(abs(step) / (base + extra), abs(need / b - 1.0)), True
        if new < extra:
            work.drop[part[0] : part[1]] = 0.0
        extra = new


@compiled(error_model="numpy")
def solve_clusters_by_laws(
    fleet: LawDevices, fits: BoolArray
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Fill in `bandwidth_hz` and `cpu_hz` of all clusters; return how the search ended.

    The most steps one took, and the greatest part by which one's time may be off. `fits` gets
    whether a cluster has an allocation at all.
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
        steps, off, found = _search(fleet, work, part, b)
        # A limit that is met to rounding counts as met.
        fits[c] = found or off <= 1e-12
        if not fits[c]:
            continue
        most_steps, residual = max(most_steps, steps), max(residual, off)
        need = 0.0
        for n in range(part[0], part[1]):
            need += fleet.bandwidth_hz[n]
        for n in range(part[0], part[1]):
            fleet.bandwidth_hz[n] *= b / need
            seconds = computing_s(fleet, n, fleet.cpu_hz[n], work.drop[n])
            hz = fleet.w[n] / seconds
            fleet.cpu_hz[n] = min(max(hz, fleet.f_min[n]), fleet.f_max[n])
    return most_steps, residual
