"""The compiled searches behind `priced`: over a cluster's bandwidth and its time.

Kept apart because importing it loads numba. The mathematics is in `priced`, which also looks at
what comes out: at the ends of float64 a search may divide by zero and fail.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.priced_device import MOST_STEPS, price_device
from fedrt.control.allocation.priced_spread import price_spread_device
from fedrt.system.jit import compiled

FloatArray = NDArray[np.float64]

# How closely a cluster's bandwidth (relative) and a price are met.
BANDWIDTH = 1e-11
PRICE = 1e-3
# A time this close to the least one, relative, is the least one; searches start this far above it,
# as the price of bandwidth has no finite value at it.
LEAST = 1e-10
START = 1e-6


class PricedDevices(NamedTuple):
    """The devices of all clusters as arrays; searches fill in `bandwidth_hz` and `cpu_hz`."""

    first: NDArray[np.int64]
    """Where each cluster's devices begin, and their number at the end."""
    b: FloatArray
    """Per cluster: its bandwidth."""
    lam: FloatArray
    """Per device, as all that follow: the worth of a joule."""
    p: FloatArray
    """The power of its radio."""
    q: FloatArray
    """The capacitance of its processor."""
    w: FloatArray
    """The cycles that it computes."""
    k: FloatArray
    """The hertz-seconds of its upload."""
    f_min: FloatArray
    f_max: FloatArray
    cap_j: FloatArray
    bandwidth_hz: FloatArray
    cpu_hz: FloatArray
    cn0_hz: FloatArray = np.zeros(0)
    """Where noise is spread over the bandwidth, C/N0; else empty."""
    least_upload_s: FloatArray = np.zeros(0)
    """Where it is, the seconds of an upload over any bandwidth; else empty."""


@compiled(error_model="numpy")
def _cluster(
    tau: float,
    nu: float,
    b: float,
    part: tuple[int, int],
    fleet: PricedDevices,
) -> tuple[float, float]:  # pragma: no cover - compiled
    """Fill in one cluster's allocation for the time tau; its prices of time and of bandwidth.

    Where no price of bandwidth makes the devices use all of it (radios that take no power), the
    search runs to the end of float64, and the price given back is the one it started from.
    """
    low, high = -np.inf, np.inf
    start, u, price, need = nu, np.log(nu), 0.0, b
    for _ in range(MOST_STEPS):
        nu = np.exp(u)
        need, fall, price = 0.0, 0.0, 0.0
        for n in range(part[0], part[1]):
            k = fleet.k[n]
            worth = (fleet.lam[n], fleet.p[n], fleet.q[n], fleet.w[n])
            ends = (fleet.f_min[n], fleet.f_max[n], fleet.cap_j[n])
            if len(fleet.cn0_hz) > 0:
                law = (fleet.least_upload_s[n], fleet.cn0_hz[n])
                f, mu, slope, hz, steep = price_spread_device(worth, law, ends, tau, nu)
            else:
                t, f, mu, slope = price_device(worth, k, ends, tau, nu)
                hz, steep = k / t, k / (t * t)
            fleet.cpu_hz[n], fleet.bandwidth_hz[n] = f, hz
            need += hz
            fall += steep * slope
            price += mu
        gap = np.log(need / b)
        if abs(gap) <= BANDWIDTH or not -690.0 < u < 690.0:
            break
        if gap > 0.0:
            low = u
        else:
            high = u
        # Newton on log(need) over log(nu), whose slope lies between -1/2 and 0.
        power = nu * fall / need
        step = min(max(gap / power, -4.0), 4.0) if power > 1e-9 else (4.0 if gap > 0.0 else -4.0)
        if not low < u + step < high:
            step = 0.5 * (low + high) - u
        if abs(step) <= 1e-15 * max(1.0, abs(u)):
            break
        u += step
    for n in range(part[0], part[1]):
        fleet.bandwidth_hz[n] *= b / need
    return price, nu if -690.0 < u < 690.0 else start


@compiled(error_model="numpy")
def allocate_in_time(
    tau: FloatArray,
    least_s: FloatArray,
    nu: FloatArray,
    fleet: PricedDevices,
    price: FloatArray,
) -> None:  # pragma: no cover - compiled
    """Allocate every cluster for its time `tau`; return the prices of time, inf at the least time.

    There the allocation is left as it is. `nu` is where each cluster's search starts and ended.
    """
    first, b = fleet.first, fleet.b
    for c in range(len(b)):
        price[c] = 0.0
        if first[c] == first[c + 1]:
            continue
        if tau[c] <= least_s[c] * (1.0 + LEAST):
            price[c] = np.inf
            continue
        part = (first[c], first[c + 1])
        price[c], nu[c] = _cluster(tau[c], nu[c], b[c], part, fleet)


@compiled(error_model="numpy")
def _next_time(
    tau: float, y: float, before: tuple[float, float], left: float, right: float
) -> float:  # pragma: no cover - compiled
    """The next guess for a zero of a decreasing function: by secant, or else the middle."""
    if before[0] > 0.0 and before[1] != y and y < np.inf and before[1] < np.inf:
        new = tau - y * (tau - before[0]) / (y - before[1])
        if left < new < right:
            return new
    if right < np.inf:
        return 0.5 * (left + right)
    return tau + 2.0 * max(tau - left, 0.02 * tau)


@compiled(error_model="numpy")
def allocate_at_price(
    target: FloatArray,
    tau: FloatArray,
    least_s: FloatArray,
    nu: FloatArray,
    fleet: PricedDevices,
) -> None:  # pragma: no cover - compiled
    """Allocate every cluster for the time at which its price of time is `target`; updates `tau`."""
    first, b = fleet.first, fleet.b
    for c in range(len(b)):
        if first[c] == first[c + 1]:
            tau[c] = 0.0
            continue
        part = (first[c], first[c + 1])
        floor = least_s[c] * (1.0 + START)
        left, right, here = floor, np.inf, max(tau[c], floor)
        before = (0.0, 0.0)
        for turn in range(MOST_STEPS):
            price, nu[c] = _cluster(here, nu[c], b[c], part, fleet)
            y = np.log(max(price, 1e-300) / target[c])
            if abs(y) <= PRICE:
                break
            if y > 0.0:
                left = here
            elif here == floor:
                break  # even the least time is worth no more
            else:
                right = here
            new = _next_time(here, y, before, left, right)
            if turn == 1 and y < 0.0 and left == floor:
                new = floor
            if abs(new - here) <= 1e-9 * here:
                break
            before, here = (here, y), new
        tau[c] = here


@compiled(error_model="numpy")
def allocate_by_deadline(
    offset_s: FloatArray,
    least_s: FloatArray,
    nu: FloatArray,
    fleet: PricedDevices,
) -> float:  # pragma: no cover - compiled
    """Allocate all clusters for the common deadline at which their prices of time add up to 1."""
    b = fleet.b
    price, tau = np.zeros(len(b)), np.zeros(len(b))
    left, right = 0.0, np.inf
    for c in range(len(b)):
        left = max(left, offset_s[c] + least_s[c])
    span = left - offset_s.min()
    left += START * span
    floor, here, before = left, left, (0.0, 0.0)
    for _ in range(MOST_STEPS):
        for c in range(len(b)):
            tau[c] = here - offset_s[c]
        allocate_in_time(tau, least_s, nu, fleet, price)
        y = np.log(max(price.sum(), 1e-300))
        if abs(y) <= PRICE or (y < 0.0 and here == floor):
            break
        if y > 0.0:
            left = here
        else:
            right = here
        new = _next_time(here, y, before, left, right)
        if abs(new - here) <= 1e-9 * here:
            break
        before, here = (here, y), new
    return here
