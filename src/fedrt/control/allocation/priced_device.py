"""The compiled search over one device at prices of energy, bandwidth and time (`priced`).

Kept apart because importing it loads numba.
"""

from __future__ import annotations

import numpy as np

from fedrt.system.jit import compiled

MOST_STEPS = 200
# How closely a frequency is met, relative.
FREQUENCY = 1e-13


@compiled(error_model="numpy")
def root_hz(
    value_j: float, p: float, q: float, w: float, tau: float, s: float, left: float, right: float
) -> float:  # pragma: no cover - compiled
    """The frequency in (left, right) at which an increasing function is zero.

    With s > 0: tau - w/f - s / sqrt(p + q f^3), where the price of bandwidth meets that of energy.
    With s = 0: p (tau - w/f) + (q w / 2) f^2 - value_j, where the energy reaches `value_j`.
    """
    f = 0.5 * (left + right)
    for _ in range(MOST_STEPS):
        if s > 0.0:
            d = p + q * f * f * f
            v = s / np.sqrt(d)
            r = tau - w / f - v
            rise = w / (f * f) + 1.5 * q * f * f * v / d
        else:
            r = p * (tau - w / f) + 0.5 * q * w * f * f - value_j
            rise = p * w / (f * f) + q * w * f
        if r > 0.0:
            right = f
        else:
            left = f
        step = r / rise
        new = f - step
        if abs(step) <= FREQUENCY * f:
            return min(max(new, left), right)
        if not (left < new < right):
            new = 0.5 * (left + right)
        f = new
    return f


@compiled(error_model="numpy")
def price_device(
    worth_of: tuple[float, float, float, float],
    k: float,
    ends: tuple[float, float, float],
    tau: float,
    nu: float,
) -> tuple[float, float, float, float]:  # pragma: no cover - compiled
    """Upload time, frequency, price of time, and d(upload time)/d(nu) of one device.

    Minimises lam (p t + a f^2) + nu k / t with w/f + t <= tau and p t + a f^2 <= cap_j.
    """
    lam, p, q, w = worth_of
    f_min, f_max, cap_j = ends
    high, low = tau - w / f_max, tau - w / f_min
    a, worth = 0.5 * q * w, nu * k
    if worth >= lam * (p + q * f_max**3) * high * high:
        t, f, slope = high, f_max, 0.0
    elif low > 0.0 and worth <= lam * p * low * low:
        t, f = np.sqrt(worth / (lam * p)), f_min
        slope = t / (2.0 * nu)
    elif low > 0.0 and worth <= lam * (p + q * f_min**3) * low * low:
        t, f, slope = low, f_min, 0.0
    else:
        f = root_hz(0.0, p, q, w, tau, np.sqrt(worth / lam), max(f_min, w / tau), f_max)
        t = tau - w / f
        slope = k / (2.0 * t * lam * (p + q * f**3) + 3.0 * t * t * lam * q * f**4 / w)
    if p * t + a * f * f <= cap_j:
        return t, f, max(worth / (t * t) - lam * p, 0.0), slope
    if low > 0.0 and p * low + a * f_min * f_min >= cap_j:
        t = low if p == 0.0 else (cap_j - a * f_min * f_min) / p
        return t, f_min, 0.0, 0.0
    f = root_hz(cap_j, p, q, w, tau, 0.0, max(f_min, w / tau), f)
    t = tau - w / f
    cube = q * f**3
    return t, f, worth / (t * t) * cube / (p + cube), 0.0
