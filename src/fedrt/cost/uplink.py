"""The time and energy of sending an update from a device to its edge server."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def hertz_seconds(bits: FloatArray | float, snr: FloatArray) -> FloatArray:
    """The bandwidth-time product of an upload, in Hz s: k = Lambda / log2(1 + SNR).

    log1p keeps its digits at very low SNR, where 1 + SNR rounds to 1.
    """
    return bits * np.log(2.0) / np.log1p(snr)


def upload_time_s(
    bits: FloatArray | float, snr: FloatArray, bandwidth_hz: FloatArray
) -> FloatArray:
    """The seconds of an upload: k / b."""
    return hertz_seconds(bits, snr) / bandwidth_hz


def upload_energy_j(upload_s: FloatArray, tx_power_w: FloatArray) -> FloatArray:
    """The joules of an upload: p k / b. Downloads are free."""
    return tx_power_w * upload_s
