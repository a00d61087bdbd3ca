"""The compiled search over one device where noise is spread over the bandwidth.

Kept apart because importing it loads numba. The problem is that of `priced_device`, with b(t) in
the place of k / t: the bandwidth with which an upload takes t seconds. It has no closed form in t,
but all of it has one in the SNR y over that bandwidth, g being C/N0 and t0 = B ln 2 / g the seconds
over any bandwidth:

    b = g / y,  t = t0 y / log(1 + y),  dt/dy = t0 N / log(1 + y)^2,  N = log(1 + y) - y / (1 + y)

b(t) is convex and falls, without end as t falls to t0. Its slope -h(t) takes the place of -k / t^2
in every condition, and nothing else changes.
"""

from __future__ import annotations

import numpy as np

from fedrt.control.allocation.priced_device import FREQUENCY, MOST_STEPS, root_hz
from fedrt.system.jit import compiled

# Below this SNR a difference of logarithms is taken from its series.
SMALL = 1e-3
LEAST_LOG_SNR = -60.0


@compiled(error_model="numpy")
def snr_of_time(ratio: float) -> float:  # pragma: no cover - compiled
    """The SNR y at which an upload takes `ratio` > 1 times as long as over any bandwidth.

    y / log(1 + y) = ratio. c y - log(1 + y), c = 1 / ratio, is convex, so Newton's steps from right
    of its root stay there.
    """
    c = 1.0 / ratio
    y = 2.0 * (1.0 - c) / (c * c) if c > 0.5 else 1.0 / (c * c)
    for _ in range(MOST_STEPS):
        step = (c * y - np.log1p(y)) / (c - 1.0 / (1.0 + y))
        y -= step
        if not abs(step) > 1e-15 * y:
            break
    return y


@compiled(error_model="numpy")
def hertz_at_snr(
    y: float, least_s: float, cn0: float
) -> tuple[float, float, float, float, float]:  # pragma: no cover - compiled
    """At an SNR y: the seconds of the upload, its bandwidth, h, -d log(h) / dt, and dt/dy."""
    log = np.log1p(y)
    if y < SMALL:
        rest = y * y * (0.5 - y * (2.0 / 3.0 - y * (0.75 - 0.8 * y)))
    else:
        rest = log - y / (1.0 + y)
    rise = least_s * rest / (log * log)
    bend = (2.0 / y + y / (1.0 + y) ** 2 / rest - 2.0 / (log * (1.0 + y))) / rise
    return least_s * y / log, cn0 / y, cn0 / (y * y * rise), bend, rise


@compiled(error_model="numpy")
def hertz_at_time(
    t: float, least_s: float, cn0: float
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """The bandwidth with which an upload takes t seconds, h, and -d log(h) / dt."""
    if t <= least_s:
        return np.inf, np.inf, np.inf
    _, hz, steep, bend, _ = hertz_at_snr(snr_of_time(t / least_s), least_s, cn0)
    return hz, steep, bend


@compiled(error_model="numpy")
def snr_of_slope(
    target: float, most: float, least_s: float, cn0: float
) -> float:  # pragma: no cover - compiled
    """The SNR of at most exp(`most`) at which h is `target`: Newton's steps in its logarithm."""
    low, high, x = LEAST_LOG_SNR, most, most
    for _ in range(MOST_STEPS):
        y = np.exp(x)
        _, _, steep, bend, rise = hertz_at_snr(y, least_s, cn0)
        gap = np.log(steep / target)
        if gap > 0.0:
            low = x
        else:
            high = x
        new = x + gap / (bend * rise * y)
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - x) <= 1e-14 * max(1.0, abs(x)):
            break
        x = new
    return np.exp(x)


@compiled(error_model="numpy")
def _balanced_hz(
    worth_of: tuple[float, float, float, float],
    law: tuple[float, float],
    ends: tuple[float, float],
    tau: float,
    nu: float,
) -> float:  # pragma: no cover - compiled
    """The frequency between two at which the prices of bandwidth and of energy meet.

    It is the root of the increasing log(lam (p + q f^3)) - log(nu h(tau - w / f)).
    """
    lam, p, q, w = worth_of
    left, right = ends
    f = 0.5 * (left + right)
    for _ in range(MOST_STEPS):
        _, steep, bend = hertz_at_time(tau - w / f, law[0], law[1])
        cube = p + q * f * f * f
        gap = np.log(lam * cube / (nu * steep)) if steep < np.inf else -np.inf
        if gap > 0.0:
            right = f
        else:
            left = f
        new = f - gap / (3.0 * q * f * f / cube + bend * w / (f * f))
        if abs(new - f) <= FREQUENCY * f:
            return min(max(new, left), right)
        if not left < new < right:
            new = 0.5 * (left + right)
        if right - left <= FREQUENCY * right:
            break
        f = new
    return f


@compiled(error_model="numpy")
def price_spread_device(
    worth_of: tuple[float, float, float, float],
    law: tuple[float, float],
    ends: tuple[float, float, float],
    tau: float,
    nu: float,
) -> tuple[float, float, float, float, float]:  # pragma: no cover - compiled
    """Frequency, price of time, d(upload time)/d(nu), bandwidth and h of one device.

    Minimises lam (p t + a f^2) + nu b(t) with w/f + t <= tau and p t + a f^2 <= cap_j.
    """
    lam, p, q, w = worth_of
    f_min, f_max, cap_j = ends
    least_s, cn0 = law
    high, low, a = tau - w / f_max, tau - w / f_min, 0.5 * q * w
    t, f, slope = high, f_max, 0.0
    hz, steep, bend = hertz_at_time(high, least_s, cn0)
    if nu * steep < lam * (p + q * f_max**3):
        hz, steep, bend = hertz_at_time(low, least_s, cn0)
        if nu * steep <= lam * p:
            y = snr_of_slope(lam * p / nu, np.log(cn0 / hz), least_s, cn0)
            t, hz, steep, bend, _ = hertz_at_snr(y, least_s, cn0)
            f, slope = f_min, 1.0 / (nu * bend)
        elif nu * steep <= lam * (p + q * f_min**3):
            t, f = low, f_min
        else:
            left = max(f_min, w / (tau - least_s))
            f = _balanced_hz(worth_of, law, (left, f_max), tau, nu)
            t = tau - w / f
            hz, steep, bend = hertz_at_time(t, least_s, cn0)
            slope = steep / (3.0 * lam * q * f**4 / w + nu * steep * bend)
    if p * t + a * f * f <= cap_j:
        return f, max(nu * steep - lam * p, 0.0), slope, hz, steep
    if low > 0.0 and p * low + a * f_min * f_min >= cap_j:
        hz, steep, bend = hertz_at_time((cap_j - a * f_min * f_min) / p, least_s, cn0)
        return f_min, 0.0, 0.0, hz, steep
    f = root_hz(cap_j, p, q, w, tau, 0.0, max(f_min, w / tau), f)
    hz, steep, bend = hertz_at_time(tau - w / f, least_s, cn0)
    cube = q * f**3
    return f, nu * steep * cube / (p + cube), 0.0, hz, steep
