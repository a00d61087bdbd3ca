"""Encoding of the page's data: JSON that is safe inside a script, arrays as base64."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = {"f4": "f32", "f8": "f64", "i4": "i32", "u1": "u8"}
# What could end the script element, open a comment in it, or end a line of a script.
ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def packed(array: NDArray[Any], kind: str = "f4") -> dict[str, str]:
    """An array as `{"f32": base64}`, little-endian, row by row, without its shape."""
    data = np.ascontiguousarray(array, dtype=np.dtype(kind).newbyteorder("<"))
    return {KINDS[kind]: base64.b64encode(data.tobytes()).decode("ascii")}


def counted(rounds: NDArray[Any]) -> dict[str, str]:
    """Rounds as the terminal counts them, from 1, packed; tables count them from 0."""
    return packed(rounds + 1, "i4")


def number(value: Any) -> float | None:
    """A number for JSON; None if it is not finite."""
    if not isinstance(value, int | float | np.number) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def finite(value: Any) -> float:
    """A finite number; a ValueError for anything else."""
    found = number(value)
    if found is None:
        raise ValueError("it must be a finite number")
    return found


def plain_data(value: Any) -> Any:
    """Data for JSON, with numbers as text where JSON cannot hold them."""
    return json.loads(json.dumps(value), parse_constant=str)


def page_json(data: Any) -> str:
    """Compact JSON that may stand between script tags, in ASCII whatever the names hold.

    Numbers that JSON cannot say, as sums of huge ones in damaged files may be, are null.
    """
    try:
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    except ValueError:
        finite_only = json.loads(json.dumps(data), parse_constant=lambda name: None)
        text = json.dumps(finite_only, separators=(",", ":"), allow_nan=False)
    for char, escape in ESCAPES.items():
        text = text.replace(char, escape)
    return text
