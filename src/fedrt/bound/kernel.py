"""The compiled searches behind `duality`: the best time prices of a device and an edge round.

Kept apart because importing it loads numba. The mathematics, and the plain formula that any answer
of this search is checked against, are in `duality`. Nothing here has to converge for the bound to
hold: every set of prices gives one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.system.jit import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_STEPS = 60
CLOSE = 1e-10


@compiled()
def device_price(
    tau: float,
    q: float,
    k: float,
    slow_s: float,
    fast_s: float,
    joule: float,
    low: float,
    high: float,
    cube: float,
    start: float,
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """The time price at which a device takes tau seconds, its slope, and its upload time.

    It takes A(nu) + q sqrt(k / (joule + nu)) seconds, A being the computing time: `slow_s` up to
    nu = low, `fast_s` from nu = high, cube / nu^(1/3) between. There it is convex and falling in
    nu, so Newton's steps from the left stay left, and one from the right lands left. 0 where tau
    is longer than the device takes for nothing; then the slope is 0 too.
    """
    spare = tau - slow_s
    if spare > 0.0:
        x = k * q * q / (spare * spare)
        if x <= joule:
            return 0.0, 0.0, np.sqrt(k / joule)
        if x <= joule + low:
            return x - joule, 2.0 * x / spare, spare / q
    spare = tau - fast_s
    x = k * q * q / (spare * spare)
    if x >= joule + high:
        return x - joule, 2.0 * x / spare, spare / q
    nu = min(max(start, low), high)
    slope, upload = 1.0, 0.0
    for _ in range(MOST_STEPS):
        compute = cube / np.cbrt(nu)
        upload = q * np.sqrt(k / (joule + nu))
        slope = compute / (3.0 * nu) + upload / (2.0 * (joule + nu))
        step = (compute + upload - tau) / slope
        nu = min(max(nu + step, low), high)
        if abs(step) <= 1e-13 * nu:
            break
    return nu, 1.0 / slope, upload / q


@compiled()
def price_edge_round(
    share: float,
    b: float,
    k: FloatArray,
    slow_s: FloatArray,
    fast_s: FloatArray,
    joule: FloatArray,
    low: FloatArray,
    high: FloatArray,
    cube: FloatArray,
    nu: FloatArray,
    state: FloatArray,
) -> tuple[float, float]:  # pragma: no cover - compiled
    """The seconds of a cluster's edge round when one costs `share`, and their slope in it.

    Fills `nu`, which adds up to `share`; `state` keeps (tau - base, q) for the next call. Two
    nested searches, Newton's steps within a bracket: tau for given q, where the sum of the nu
    falls, and q, where Q(nu) / q falls.
    """
    size = len(k)
    base = fast_s.max()
    extra, q = state[0], state[1]
    if not (extra > 0.0 and q > 0.0):
        q = np.sqrt(k.sum() / size * share / size) * size / b
        extra = k.sum() / b
    q_low, q_high = 0.0, np.inf
    weight, weight_u, weight_uu = 0.0, 0.0, 0.0
    for _ in range(MOST_STEPS):
        short, long = 0.0, np.inf
        for _ in range(MOST_STEPS):
            total, weight, weight_u, weight_uu = 0.0, 0.0, 0.0, 0.0
            idle_s = 0.0
            for n in range(size):
                nu[n], w, u = device_price(
                    base + extra,
                    q,
                    k[n],
                    slow_s[n],
                    fast_s[n],
                    joule[n],
                    low[n],
                    high[n],
                    cube[n],
                    nu[n],
                )
                total += nu[n]
                weight += w
                weight_u += w * u
                weight_uu += w * u * u
                if w == 0.0:
                    idle_s = max(idle_s, slow_s[n] + q * u)
            if weight == 0.0:
                long = extra
                extra = min(0.5 * extra, max(idle_s - base, 0.0) * (1.0 - 1e-6))
                continue
            if abs(total - share) <= CLOSE * share:
                break
            if total > share:
                short = extra
            else:
                long = extra
            extra = max(extra + (total - share) / weight, 0.1 * extra)
            if not short < extra < long:
                extra = 0.5 * (short + long) if long < np.inf else 2.0 * short
        whole = 0.0
        for n in range(size):
            whole += np.sqrt((joule[n] + nu[n]) * k[n])
        off = whole - b * q
        if abs(off) <= CLOSE * b * q or weight == 0.0:
            break
        if off > 0.0:
            q_low = q
        else:
            q_high = q
        fall = b - 0.5 * (weight_uu - weight_u * weight_u / weight)
        q = q + off / fall if fall > 0.0 else whole / b
        if not q_low < q < q_high:
            q = 0.5 * (q_low + q_high) if q_high < np.inf else 2.0 * q_low
    state[0], state[1] = extra, q
    total = nu.sum()
    if total > 0.0:
        nu *= share / total
    else:
        nu[:] = share / size
    free = b - 0.5 * weight_uu
    if weight == 0.0 or free <= 1e-12 * b:
        return base + extra, 0.0
    return base + extra, -1.0 / (weight + 0.5 * weight_u * weight_u / free)


@compiled()
def compute_price(nu: float, own: FloatArray) -> float:  # pragma: no cover - compiled
    """The least of energy cost plus nu x seconds over a device's CPU frequency."""
    if nu <= own[3]:
        return own[6] + nu * own[0]
    if nu >= own[4]:
        return own[7] + nu * own[1]
    return 1.5 * own[5] * np.cbrt(nu * nu)


@compiled()
def price_cluster(
    t: int,
    c: int,
    share: float,
    edge_rounds: int,
    servers: int,
    first: IntArray,
    k: FloatArray,
    bandwidth_hz: FloatArray,
    columns: FloatArray,
    nu: FloatArray,
    state: FloatArray,
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """The seconds of cluster c in global round t when one costs `share`, their slope, the value."""
    time_s, fall, value = 0.0, 0.0, 0.0
    begin = first[t * edge_rounds * servers]
    for r in range(edge_rounds):
        part = (t * edge_rounds + r) * servers + c
        lo, hi = first[part], first[part + 1]
        if lo == hi:
            continue
        own, mine = columns[:, lo:hi], nu[lo - begin : hi - begin]
        seconds, slope = price_edge_round(
            share,
            bandwidth_hz[part],
            k[lo:hi],
            own[0],
            own[1],
            own[2],
            own[3],
            own[4],
            own[5],
            mine,
            state[part],
        )
        time_s += seconds
        fall += slope * share
        whole = 0.0
        for n in range(hi - lo):
            whole += np.sqrt((own[2, n] + mine[n]) * k[lo + n])
            value += compute_price(mine[n], own[:, n])
        value += whole * whole / bandwidth_hz[part]
    return time_s, fall, value
