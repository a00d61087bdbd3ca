"""Conversions between what people type and the SI units used inside."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", float, NDArray[np.float64])


def linear_from_db(value_db: Number) -> Number:
    """The power ratio of a value in decibel: 10^(dB/10)."""
    return 10.0 ** (value_db / 10.0)


def db_from_linear(ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """The decibel value of a power ratio: 10 log10(ratio)."""
    return 10.0 * np.log10(ratio)


def readable_si(value: float, unit: str) -> str:
    """A value with three significant digits and an SI prefix, e.g. `1.25 MHz`."""
    for scale, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
