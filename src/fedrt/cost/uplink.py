"""The time and energy of sending an update from a device to its edge server."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

# Newton's steps for the bandwidth of a rate; they gain digits quadratically from a close start.
MOST_STEPS = 60


def hertz_seconds(bits: FloatArray | float, snr: FloatArray) -> FloatArray:
    """The bandwidth-time product of an upload, in Hz s: k = Lambda / log2(1 + SNR).

    log1p keeps its digits at very low SNR, where 1 + SNR rounds to 1.
    """
    return bits * np.log(2.0) / np.log1p(snr)


def upload_time_s(
    bits: FloatArray | float, snr: FloatArray, bandwidth_hz: FloatArray
) -> FloatArray:
    """The seconds of an upload at a fixed SNR: k / b."""
    return hertz_seconds(bits, snr) / bandwidth_hz


def rate_bps(bandwidth_hz: FloatArray, cn0_hz: FloatArray) -> FloatArray:
    """The rate with noise spread over the bandwidth: b log2(1 + C/N0 / b), in bit/s.

    It rises with b and is concave, up to C/N0 / ln 2 at any bandwidth.
    """
    return bandwidth_hz * np.log1p(cn0_hz / bandwidth_hz) / np.log(2.0)


def most_rate_bps(cn0_hz: FloatArray) -> FloatArray:
    """The rate that no bandwidth reaches: C/N0 / ln 2."""
    return cn0_hz / np.log(2.0)


def seconds_to_send(
    seen: Observation,
    bits: FloatArray | float,
    bandwidth_hz: FloatArray,
    tx_power_w: FloatArray | None = None,
) -> FloatArray:
    """The seconds of each device's upload by the law of the observation, whatever it is.

    `tx_power_w`: the power of each device where it is not the full one.
    """
    cn0_hz = seen.laws.cn0_hz
    if cn0_hz is None:
        return upload_time_s(bits, seen.snr, bandwidth_hz)
    if tx_power_w is not None:
        cn0_hz = cn0_hz * (tx_power_w / seen.tx_power_w)
    return bits / rate_bps(bandwidth_hz, cn0_hz)


def bandwidth_of_rate_hz(rate: FloatArray, cn0_hz: FloatArray) -> FloatArray:
    """The bandwidth that gives a rate in bit/s under the noise-density law; inf if none does.

    With y = C/N0 / b the equation is log(1 + y) = c y, c = rate ln 2 / (C/N0) < 1. Its left side
    is concave and its right side a line, so Newton's steps from right of the root stay there.
    """
    c = np.asarray(rate * np.log(2.0) / cn0_hz, dtype=np.float64)
    reached = c < 1.0
    c = np.where(reached, c, 0.5)
    # From above: with u = 2 / c, 1 + u log u <= u^2 gives y <= u log u; near c = 1, y is about
    # 2 (1 - c).
    y = np.where(c > 0.5, 2.0 * (1.0 - c) / np.maximum(c, 0.5) ** 2, 2.0 / c * np.log(2.0 / c))
    for _ in range(MOST_STEPS):
        step = (c * y - np.log1p(y)) / (c - 1.0 / (1.0 + y))
        y = y - step
        if (np.abs(step) <= 1e-15 * y).all():
            break
    return np.where(reached, cn0_hz / y, np.inf)


def upload_energy_j(upload_s: FloatArray, tx_power_w: FloatArray) -> FloatArray:
    """The joules of an upload: p t."""
    return tx_power_w * upload_s
