"""Sending the updates of many devices on a processor, in one pass. Importing this loads numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.learning.codecs.blocks_kernel import (
    MAGIC,
    MAGIC_BITS,
    NOT_FINITE,
    block_scale,
    inverse_of,
)
from fedrt.messages import BLOCK
from fedrt.system.jit import compiled

Floats = NDArray[np.float32]
HALF = 0
"""The number of levels that stands for float16."""
SMALL, LEAST_HALF, MOST_HALF = np.float32(0.75), np.float32(2.0**-14), np.float32(65504)
"""Adding the first rounds to steps of 2 ** -24, those of float16 below its least normal number."""


@compiled(nogil=True, fastmath={"reassoc"})
def _square(numbers: Floats, count: int) -> Any:  # pragma: no cover - compiled
    """The sum of squares of a block, in any order."""
    found = np.float32(0)
    for k in range(count):
        found += numbers[k] * numbers[k]
    return found


@compiled(nogil=True)
def _halve(
    whole: Floats, whole_raw: Any, coded: Floats, coded_raw: Any, count: int
) -> None:  # pragma: no cover - compiled
    """The numbers of a block as float16 has them: 11 bits, half to even, and steps of 2 ** -24."""
    for k in range(count):
        bits = whole_raw[k]
        even = (bits >> 13) & np.int32(1)
        coded_raw[k] = (bits + np.int32(0xFFF) + even) & np.int32(-8192)
    for k in range(count):
        small = (whole[k] + SMALL) - SMALL
        large = min(max(coded[k], -MOST_HALF), MOST_HALF)
        coded[k] = small if abs(whole[k]) < LEAST_HALF else large


@compiled(nogil=True)
def send_rows(
    models: Floats,
    edge: NDArray[np.int64],
    trained: Floats,
    states: Floats,
    row: NDArray[np.int64],
    size: int,
    levels: NDArray[np.int64],
    share: Floats,
    most: NDArray[np.int64],
    squares: NDArray[np.float64],
    devices: NDArray[np.int64],
) -> None:  # pragma: no cover - compiled
    """Replace what some devices trained by what their servers decode, and update their states.

    Device n started from the row edge[n] of `models`, has trained the row n of `trained`, and
    keeps in the row row[n] of `states` what it has yet to send. `squares` gets the squared norms
    of its update and of what is then left. A block with a number that is not finite becomes not a
    number where that is, and its state stays.
    """
    f, whole = np.empty(1, np.float32), np.empty(BLOCK, np.float32)
    i, whole_raw = f.view(np.int32), whole.view(np.int32)
    coded = np.empty(BLOCK, np.float32)
    coded_raw = coded.view(np.int32)
    for n in devices:
        top = np.int32(levels[n])
        update_square, left_square = 0.0, 0.0
        for s in range(0, size, BLOCK):
            end = min(s + BLOCK, size)
            start, mine, left = models[edge[n], s:end], trained[n, s:end], states[row[n], s:end]
            count = end - s
            for k in range(count):
                coded[k] = mine[k] - start[k]
            update_square += _square(coded, count)
            for k in range(count):
                whole[k] = coded[k] + left[k]
            greatest = np.int32(0)
            for k in range(count):
                greatest = max(greatest, whole_raw[k] & np.int32(0x7FFFFFFF))
            if greatest >= NOT_FINITE:
                update_square = np.inf
                for k in range(count):
                    mine[k] += whole[k] - whole[k]
                continue
            if top == HALF:
                _halve(whole, whole_raw, coded, coded_raw, count)
                for k in range(count):
                    mine[k] = start[k] + coded[k]
                for k in range(count):
                    left[k] = whole[k] - coded[k]
                left_square += _square(left, count)
                continue
            scale = block_scale(greatest, share[n], most[n], f, i)
            inverse = inverse_of(scale, f, i)
            step = f[0]
            for k in range(count):
                coded[k] = whole[k] * inverse + MAGIC
            if scale == most[n]:
                for k in range(count):
                    coded_raw[k] = min(max(coded_raw[k] - MAGIC_BITS, -top), top) + MAGIC_BITS
            for k in range(count):
                coded[k] = (coded[k] - MAGIC) * step
            for k in range(count):
                mine[k] = start[k] + coded[k]
            for k in range(count):
                left[k] = whole[k] - coded[k]
            left_square += _square(left, count)
        squares[0, n], squares[1, n] = update_square, left_square
