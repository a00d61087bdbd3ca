"""The compiled searches behind `duality`: the best time prices of a device and an edge round.

Kept apart because importing it loads numba. The mathematics, and the plain formula that any answer
of this search is checked against, are in `duality`. Nothing here has to converge for the bound to
hold: every set of prices gives one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrt.system.jit import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_STEPS = 60
# How close the prices of an edge round come to their share and their bandwidth. Where codecs are
# chosen the searches halve a lot, and what the bound loses falls with the square of the distance.
CLOSE, CODED_CLOSE = 1e-10, 1e-7
# Of times and prices, as parts of them: what is left between two is not searched any further.
ROUNDING = 1e-15


class PricedRun(NamedTuple):
    """A whole run as arrays for the searches; rows are those of `duality.WholeRun`."""

    edge_rounds: int
    servers: int
    first: IntArray
    """The first device of each row, and the number of devices at the end."""
    k: FloatArray
    """Per device and edge round: the hertz-seconds of its upload; where codecs are chosen, those
    of the last search, of the mean root of its bits."""
    bandwidth_hz: FloatArray
    """Per row."""
    columns: FloatArray
    """Per device and edge round: the constants of `duality.device_columns`."""
    state: FloatArray
    """Per row: where the last search of its prices ended."""
    root_bits: FloatArray
    """The roots of the codecs' bits; empty where nothing is chosen from a menu."""
    distortion: FloatArray
    """Of the codecs."""
    root_bit_hz_s: FloatArray
    """Per device and edge round: the root of the hertz-seconds of a bit."""
    distortion_s: FloatArray
    """Per edge round: the price of distortion, in seconds."""


@compiled()
def device_price(
    extra: float,
    q: float,
    k: float,
    base: float,
    slow_s: float,
    fast_s: float,
    joule: float,
    low: float,
    high: float,
    cube: float,
    start: float,
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """The time price at which a device takes base + extra seconds, its slope, and its upload time.

    The two are given apart because uploads may be too short to be told from a sum. It takes
    A(nu) + q sqrt(k / (joule + nu)) seconds, A being the computing time: `slow_s` up to nu = low,
    `fast_s` from nu = high, cube / nu^(1/3) between. There it is convex and falling in nu, so
    Newton's steps from the left stay left, and one from the right lands left. 0 where that is
    longer than the device takes for nothing; then the slope is 0 too.
    """
    spare = extra + (base - slow_s)
    if spare > 0.0:
        x = k * q * q / (spare * spare)
        if x <= joule:
            return 0.0, 0.0, np.sqrt(k / joule)
        if x <= joule + low:
            return x - joule, 2.0 * x / spare, spare / q
    spare = extra + (base - fast_s)
    x = k * q * q / (spare * spare)
    if x >= joule + high:
        return x - joule, 2.0 * x / spare, spare / q
    nu = min(max(start, low), high)
    slope, upload = 1.0, 0.0
    for _ in range(MOST_STEPS):
        compute = cube / np.cbrt(nu)
        upload = q * np.sqrt(k / (joule + nu))
        slope = compute / (3.0 * nu) + upload / (2.0 * (joule + nu))
        step = ((compute - base) + upload - extra) / slope
        nu = min(max(nu + step, low), high)
        if abs(step) <= 1e-13 * nu:
            break
    return nu, 1.0 / slope, upload / q


@compiled()
def coded_device_price(
    extra: float, q: float, n: int, price: float, start: float, base: float, run: PricedRun
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """`device_price` of a device that chooses its codec, at a price of distortion.

    It changes to fewer bits where nu passes a threshold, and its time then falls by a jump. Where
    the time lies within a jump, nu is the threshold: the device then mixes both codecs, its slope
    is 0, and its upload takes what is left.
    """
    slow_s, fast_s, joule = run.columns[0, n], run.columns[1, n], run.columns[2, n]
    low, high, cube = run.columns[3, n], run.columns[4, n], run.columns[5, n]
    bit = run.root_bit_hz_s[n] ** 2
    roots, distortion = run.root_bits, run.distortion
    threshold, nu, slope, upload = 0.0, 0.0, 0.0, 0.0
    for m in range(len(roots) - 1, -1, -1):
        least = threshold
        threshold = np.inf
        if m > 0:
            gain = price * (distortion[m - 1] - distortion[m]) / (roots[m] - roots[m - 1])
            threshold = (gain / (2.0 * q)) ** 2 / bit - joule
            if threshold <= 0.0:
                threshold = 0.0
                continue
        k = bit * roots[m] ** 2
        own = (base, slow_s, fast_s, joule, low, high, cube)
        nu, slope, upload = device_price(extra, q, k, *own, start)
        if nu < least:
            compute = slow_s
            if least >= high:
                compute = fast_s
            elif least > low:
                compute = cube / np.cbrt(least)
            return least, 0.0, (extra + (base - compute)) / q
        if nu <= threshold:
            return nu, slope, upload
    return nu, slope, upload


@compiled()
def price_edge_round(
    share: float, row: int, nu: FloatArray, run: PricedRun
) -> tuple[float, float]:  # pragma: no cover - compiled
    """The seconds of a cluster's edge round when one costs `share`, and their slope in it.

    Fills `nu`, which adds up to `share`; `state` keeps (tau - base, q) for the next call. Two
    nested searches, Newton's steps within a bracket: tau - base for given q, where the sum of the
    nu falls, and q, where Q(nu) / q falls.
    """
    lo, hi = run.first[row], run.first[row + 1]
    size, b, state, k = hi - lo, run.bandwidth_hz[row], run.state[row], run.k[lo:hi]
    slow_s, fast_s, joule = run.columns[0, lo:hi], run.columns[1, lo:hi], run.columns[2, lo:hi]
    low, high, cube = run.columns[3, lo:hi], run.columns[4, lo:hi], run.columns[5, lo:hi]
    coded, price = len(run.root_bits) > 0, run.distortion_s[row // run.servers]
    close = CODED_CLOSE if coded else CLOSE
    base, prices = fast_s.max(), joule.sum()
    extra, q = state[0], state[1]
    if not (extra > 0.0 and q > 0.0):
        q = np.sqrt(k.sum() / size * share / size) * size / b
        extra = k.sum() / b
    q_low, q_high = 0.0, np.inf
    total, weight, weight_u, weight_uu = 0.0, 0.0, 0.0, 0.0
    for _ in range(MOST_STEPS):
        short, long = 0.0, np.inf
        for _ in range(MOST_STEPS):
            total, weight, weight_u, weight_uu = 0.0, 0.0, 0.0, 0.0
            idle, idle_weight = 0.0, 0.0
            for n in range(size):
                if coded:
                    nu[n], w, u = coded_device_price(extra, q, lo + n, price, nu[n], base, run)
                    k[n] = (joule[n] + nu[n]) * u * u
                else:
                    own = (base, slow_s[n], fast_s[n], joule[n], low[n], high[n], cube[n])
                    nu[n], w, u = device_price(extra, q, k[n], *own, nu[n])
                total += nu[n]
                weight += w
                weight_u += w * u
                weight_uu += w * u * u
                if nu[n] == 0.0 and (slow_s[n] - base) + q * u > idle:
                    idle = (slow_s[n] - base) + q * u
                    idle_weight = 2.0 * joule[n] / (q * u)
            if total == 0.0:  # nobody is in a hurry: a step from where the last device begins to be
                extra, weight = idle, idle_weight
            blur = ROUNDING * (weight * (base + extra) + prices)
            if abs(total - share) <= close * share + blur:
                break
            if total > share:
                short = extra
            else:
                long = extra
            if long - short <= ROUNDING * extra:
                break  # no time in between can be told apart
            if weight > 0.0:
                extra = max(extra + (total - share) / weight, 0.1 * extra)
            if weight == 0.0 or not short < extra < long:
                extra = 0.5 * (short + long) if long < np.inf else 2.0 * short
        whole = 0.0
        for n in range(size):
            whole += np.sqrt((joule[n] + nu[n]) * k[n])
        off = whole - b * q
        if abs(off) <= close * b * q or total == 0.0:
            break
        if off > 0.0:
            q_low = q
        else:
            q_high = q
        if q_high - q_low <= ROUNDING * q:
            break
        fall = b
        if weight > 0.0:
            fall -= 0.5 * (weight_uu - weight_u * weight_u / weight)
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
def coded_roots(
    z: float, weight: FloatArray, price: float, root_bits: FloatArray, distortion: FloatArray
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """Sums over devices that choose their codecs at z, the root of the price of a hertz.

    Each takes the least of 2 z weight root_bits + price distortion. The sums of weight root_bits,
    of the distortions, and of these least values.
    """
    roots, total, value = 0.0, 0.0, 0.0
    for n in range(len(weight)):
        least, best = np.inf, 0
        for m in range(len(root_bits)):
            cost = 2.0 * z * weight[n] * root_bits[m] + price * distortion[m]
            if cost < least:
                least, best = cost, m
        roots += weight[n] * root_bits[best]
        total += distortion[best]
        value += least
    return roots, total, value


@compiled()
def coded_price(
    weight: FloatArray, b: float, price: float, root_bits: FloatArray, distortion: FloatArray
) -> tuple[float, float]:  # pragma: no cover - compiled
    """The brackets of the z at which the value of a cluster's uploads is greatest.

    The value is concave in z; at its top z b is the sum of weight root_bits, which falls in z.
    """
    low, high = weight.sum() * root_bits.min() / b, weight.sum() * root_bits.max() / b
    while high - low > 1e-13 * high:
        z = 0.5 * (low + high)
        if not low < z < high:
            break
        roots, _, _ = coded_roots(z, weight, price, root_bits, distortion)
        if roots > z * b:
            low = z
        else:
            high = z
    return low, high


@compiled()
def upload_value(
    joule: FloatArray, nu: FloatArray, row: int, part: tuple[int, int], run: PricedRun
) -> float:  # pragma: no cover - compiled
    """The least price of a cluster's uploads in an edge round, over codecs and bandwidths.

    Any z >= 0 gives a value that is not above it.
    """
    lo, hi = part
    b = run.bandwidth_hz[row]
    if len(run.root_bits) == 0:
        whole = 0.0
        for n in range(hi - lo):
            whole += np.sqrt((joule[n] + nu[n]) * run.k[lo + n])
        return whole * whole / b
    weight = np.sqrt(joule + nu) * run.root_bit_hz_s[lo:hi]
    price = run.distortion_s[row // run.servers]
    z, _ = coded_price(weight, b, price, run.root_bits, run.distortion)
    _, _, value = coded_roots(z, weight, price, run.root_bits, run.distortion)
    return value - z * z * b


@compiled()
def price_cluster(
    t: int, c: int, share: float, run: PricedRun, nu: FloatArray, valued: bool
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """The seconds of cluster c in global round t when one costs `share`, their slope, the value.

    `nu` is of the round's devices. The value is 0 unless it is asked for.
    """
    time_s, fall, value = 0.0, 0.0, 0.0
    first = run.first
    begin = first[t * run.edge_rounds * run.servers]
    for r in range(run.edge_rounds):
        row = (t * run.edge_rounds + r) * run.servers + c
        lo, hi = first[row], first[row + 1]
        if lo == hi:
            continue
        own, mine = run.columns[:, lo:hi], nu[lo - begin : hi - begin]
        seconds, slope = price_edge_round(share, row, mine, run)
        time_s += seconds
        fall += slope * share
        if valued:
            for n in range(hi - lo):
                value += compute_price(mine[n], own[:, n])
            value += upload_value(own[2], mine, row, (lo, hi), run)
    return time_s, fall, value
