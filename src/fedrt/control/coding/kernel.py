"""The compiled searches behind `choice`: which codec each device of a cluster uses.

Kept apart because importing it loads numba. The mathematics is in `choice`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.kernel import crossing_drop_hz
from fedrt.system.jit import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_NODES = 3000
"""Choices of a cluster that are looked at before the best one so far is taken."""
PRICE_STEPS = 100
FITS = 1e-12


class CodedDevices(NamedTuple):
    """The devices of all clusters as arrays for the searches."""

    first: IntArray
    """Where each cluster's devices begin, and their number at the end."""
    b: FloatArray
    """Per cluster: its bandwidth."""
    kappa: FloatArray
    """Per device, as all that follow: the hertz-seconds of a bit."""
    w: FloatArray
    """The cycles that it computes."""
    a: FloatArray
    """Joules of computing over the frequency squared."""
    p: FloatArray
    """The power of its radio."""
    spare_j: FloatArray
    """What its allowance leaves for the upload at the lowest frequency; inf means no limit."""
    f_min: FloatArray
    f_max: FloatArray


@compiled()
def longest_upload_s(
    tau: float, w: float, a: float, p: float, spare_j: float, f_min: float, f_max: float
) -> float:  # pragma: no cover - compiled
    """The longest upload that a device can afford in an edge round of tau seconds; <= 0 for none.

    The greatest over f of min(tau - w/f, (spare_j - a (f^2 - f_min^2)) / p).
    """
    top, left_j = f_max, spare_j - a * (f_max - f_min) * (f_max + f_min)
    if left_j < 0.0:
        top, left_j = min(f_max, np.sqrt(f_min * f_min + spare_j / a)), 0.0
    t = tau - w / top
    if t <= 0.0 or p == 0.0 or p * t <= left_j:
        return t
    most = top - f_min
    if left_j == 0.0:
        most = spare_j / a / (top + f_min)
    over, pw = p * t - left_j, p * w
    x = crossing_drop_hz(0.0, top, a, pw, over, over + pw / top - a * top * top, most)
    f = top - x
    if x >= most:
        return min(tau - w / f_min, spare_j / p)
    return (left_j + a * x * (top + f)) / p


@compiled()
def _level(x: float, price: float, gain: FloatArray) -> int:  # pragma: no cover - compiled
    """The codec at which more bits no longer pay: gain falls from codec to codec."""
    level = 0
    while level < len(gain) and gain[level] >= price * x:
        level += 1
    return level


@compiled()
def _price(
    x: FloatArray, b: float, bits: FloatArray, gain: FloatArray
) -> float:  # pragma: no cover - compiled
    """The least price of bandwidth, up to rounding, at which the codecs chosen by it fit."""
    low, high = np.log(gain[-1] / x.max()) - 1.0, np.log(gain[0] / x.min()) + 1.0
    for _ in range(PRICE_STEPS):
        middle = 0.5 * (low + high)
        price, need = np.exp(middle), 0.0
        for n in range(len(x)):
            need += bits[_level(x[n], price, gain)] * x[n]
        if need <= b:
            high = middle
        else:
            low = middle
        if high - low <= 1e-12:
            break
    return np.exp(high)


@compiled()
def _improve(
    x: FloatArray, b: float, bits: FloatArray, distortion: FloatArray, level: IntArray
) -> float:  # pragma: no cover - compiled
    """Spend what bandwidth is left on more bits, best gains first; return the distortion."""
    used = 0.0
    for n in range(len(x)):
        used += bits[level[n]] * x[n]
    for _ in range(len(x)):
        best, chosen = 0.0, -1
        for n in range(len(x)):
            m = level[n]
            if m + 1 < len(bits) and used + (bits[m + 1] - bits[m]) * x[n] <= b:
                worth = (distortion[m] - distortion[m + 1]) / ((bits[m + 1] - bits[m]) * x[n])
                if worth > best:
                    best, chosen = worth, n
        if chosen < 0:
            break
        m = level[chosen]
        used += (bits[m + 1] - bits[m]) * x[chosen]
        level[chosen] = m + 1
    total = 0.0
    for n in range(len(x)):
        total += distortion[level[n]]
    return total


@compiled()
def _search(
    x: FloatArray,
    b: float,
    bits: FloatArray,
    distortion: FloatArray,
    price: float,
    level: IntArray,
    found: float,
) -> tuple[float, bool]:  # pragma: no cover - compiled
    """Improve `level`, of distortion `found`, to the least that fits; whether it is proven least.

    Devices come in the order of falling x, and then bits never fall from one to the next: swapping
    two codecs that do costs bandwidth and changes no distortion. A branch ends where the
    distortion so far and the Lagrangian bound on the rest reach the best one found.
    """
    size, menu = len(x), len(bits)
    rest = np.zeros(size + 1)
    rest_x = np.zeros(size + 1)
    for n in range(size - 1, -1, -1):
        least = np.inf
        for m in range(menu):
            least = min(least, distortion[m] + price * bits[m] * x[n])
        rest[n] = rest[n + 1] + least
        rest_x[n] = rest_x[n + 1] + x[n]
    trial = np.zeros(size, dtype=np.int64)
    used, held = np.zeros(size + 1), np.zeros(size + 1)
    depth, nodes = 0, 0
    trial[0] = -1
    while depth >= 0:
        trial[depth] += 1
        m = trial[depth]
        if m >= menu or used[depth] + bits[m] * rest_x[depth] > b:
            depth -= 1
            continue
        nodes += 1
        if nodes > MOST_NODES:
            return found, False
        spent = used[depth] + bits[m] * x[depth]
        total = held[depth] + distortion[m]
        if total + rest[depth + 1] - price * (b - spent) >= found * (1.0 - FITS):
            continue
        if depth + 1 == size:
            # The bound above counts the bandwidth to spare as if it took distortion away.
            if total < found:
                found = total
                level[:] = trial
            continue
        used[depth + 1], held[depth + 1] = spent, total
        depth += 1
        trial[depth] = m - 1
    return found, True


@compiled()
def cluster_coding(
    tau: float,
    part: tuple[int, int],
    b: float,
    fleet: CodedDevices,
    menu: tuple[FloatArray, FloatArray, FloatArray],
    codec: IntArray,
) -> tuple[float, bool]:  # pragma: no cover - compiled
    """The least sum of distortions with which a cluster ends within tau; inf where none does.

    Fills in the codecs of its devices, and says whether the sum is proven to be the least. `menu`:
    bits, distortions, and the distortion that every further bit takes away.
    """
    bits, distortion, gain = menu
    lo, hi = part
    size = hi - lo
    x = np.empty(size)
    for n in range(lo, hi):
        t = longest_upload_s(
            tau,
            fleet.w[n],
            fleet.a[n],
            fleet.p[n],
            fleet.spare_j[n],
            fleet.f_min[n],
            fleet.f_max[n],
        )
        if t <= 0.0:
            return np.inf, True
        x[n - lo] = fleet.kappa[n] / t
    order = np.argsort(-x)
    in_order = x[order]
    whole, room = in_order.sum(), b * (1.0 + FITS)
    if bits[0] * whole > room:
        return np.inf, True
    if bits[-1] * whole <= room or len(bits) == 1:
        codec[lo:hi] = len(bits) - 1
        return size * distortion[-1], True
    price = _price(in_order, room, bits, gain)
    level = np.empty(size, dtype=np.int64)
    for n in range(size):
        level[n] = _level(in_order[n], price, gain)
    found = _improve(in_order, room, bits, distortion, level)
    found, proven = _search(in_order, room, bits, distortion, price, level, found)
    for n in range(size):
        codec[lo + order[n]] = level[n]
    return found, proven


@compiled()
def least_distortions(
    tau: FloatArray,
    fleet: CodedDevices,
    menu: tuple[FloatArray, FloatArray, FloatArray],
    codec: IntArray,
    total: FloatArray,
) -> bool:  # pragma: no cover - compiled
    """Fill `codec` and each cluster's `total` with the least distortion for its time tau.

    Return whether all of them are proven.
    """
    all_proven = True
    for c in range(len(fleet.b)):
        total[c] = 0.0
        if fleet.first[c] == fleet.first[c + 1]:
            continue
        part = (fleet.first[c], fleet.first[c + 1])
        total[c], proven = cluster_coding(tau[c], part, fleet.b[c], fleet, menu, codec)
        all_proven = all_proven and proven
    return all_proven


@compiled()
def earliest_end(
    offset_s: FloatArray,
    ends_s: tuple[float, float],
    limit: float,
    fleet: CodedDevices,
    menu: tuple[FloatArray, FloatArray, FloatArray],
    codec: IntArray,
    close: float,
) -> float:  # pragma: no cover - compiled
    """The least end T by which all clusters can end with distortions of at most `limit` in all.

    Cluster c has T - offset_c seconds. The distortion only falls as T grows, so halving finds T
    between `ends_s`, the second of which must be late enough; `codec` is left as for T.
    """
    low, high = ends_s
    total = np.zeros(len(fleet.b))
    trial = codec.copy()
    tau = np.zeros(len(fleet.b))
    while high - low > close * high:
        end = 0.5 * (low + high)
        for c in range(len(tau)):
            tau[c] = end - offset_s[c]
        least_distortions(tau, fleet, menu, trial, total)
        if total.sum() <= limit:
            high = end
            codec[:] = trial
        else:
            low = end
    return high
