"""Conversions between the units that users type and SI units."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError
from fedrt.validation import shown

Number = TypeVar("Number", float, NDArray[np.float64])

SECONDS_IN = {"d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0}
DURATION = re.compile(
    "".join(rf"(?:([0-9]+(?:\.[0-9]+)?) *{unit} *)?" for unit in ("d", "h", "m(?:in)?", "s"))
)


def linear_from_db(value_db: Number) -> Number:
    """The power ratio of a value in decibels: 10^(dB/10)."""
    return 10.0 ** (value_db / 10.0)


def readable_si(value: float, unit: str) -> str:
    """A value with three significant digits and an SI prefix, e.g. `1.25 MHz`."""
    for scale, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def readable_time(seconds: float) -> str:
    """A time as text, in a suitable unit."""
    size, unit = time_unit(seconds)
    return f"{seconds:.3g} s" if unit == "s" else f"{seconds / size:.2f} {unit}"


def signed_percent(change: float, decimals: int = 1) -> str:
    """A relative change as a signed percentage; without a sign if it rounds to zero.

    From ten times on it is given as a multiple.
    """
    if change >= 9:
        return f"x {1 + change:,.{1 if change < 99 else 0}f}"
    text = f"{change:+.{decimals}%}"
    return text[1:] if float(text[1:-1]) == 0 else text


def number_range(values: Sequence[float], unit: str) -> str:
    """Whole numbers as one if they are equal, or as the least and the greatest."""
    low, high = min(values), max(values)
    return f"{low:.0f} {unit}" if low == high else f"{low:.0f} to {high:.0f} {unit}"


def precise_time(seconds: float) -> str:
    """A time with five digits, for times close to a deadline."""
    size, unit = time_unit(seconds)
    return f"{seconds / size:#.5g} {unit}"


def time_unit(seconds: float) -> tuple[float, str]:
    """The unit that suits a time, and its length in seconds."""
    for unit, size in SECONDS_IN.items():
        if seconds >= 2 * size:
            return size, unit
    return 1.0, "s"


def read_duration(text: str, option: str) -> float:
    """The seconds of `90s`, `45m`, `10h`, `2d` or several such parts from large to small."""
    found = DURATION.fullmatch(text.strip())
    sizes = (SECONDS_IN["d"], SECONDS_IN["h"], SECONDS_IN["min"], SECONDS_IN["s"])
    numbers = found.groups(default="0") if found else ()
    seconds = sum(float(number) * size for number, size in zip(numbers, sizes, strict=False))
    if not 0 < seconds < math.inf:
        rule = "a time > 0 with units, like 90s, 45m, 10h, 2d or 1h30m"
        raise InputError(f"{option} {shown(text)}: must be {rule}")
    return seconds
