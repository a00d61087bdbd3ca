"""Plain data as text that can stand inside a page: arrays as base64, nothing that ends a script."""

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


def number(value: Any) -> float | None:
    """A number for JSON; None for what JSON cannot say."""
    if not isinstance(value, int | float | np.number) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) else None


def page_json(data: Any) -> str:
    """Compact JSON that may stand between script tags, in ASCII whatever the names hold."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for char, escape in ESCAPES.items():
        text = text.replace(char, escape)
    return text
