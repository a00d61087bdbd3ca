"""Passes over values with the batch innermost that no library has. Compiled: loads numba.

Values are (planes, height, width, batch); a plane is a channel of a copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.system.jit import compiled

Floats = NDArray[Any]
Bytes = NDArray[np.uint8]


@compiled()
def pool(
    x: Floats, size: tuple[int, int], into: Floats, which: Bytes
) -> None:  # pragma: no cover - compiled
    """The greatest of every window of that size, and which of the window it is, row by row.

    As torch has it: of equal ones the first, and what is no number is greatest.
    """
    planes, rows, columns, batch = into.shape
    for plane in range(planes):
        for row in range(rows):
            for column in range(columns):
                top, left = row * size[0], column * size[1]
                most, place = into[plane, row, column], which[plane, row, column]
                first = x[plane, top, left]
                for n in range(batch):
                    most[n], place[n] = first[n], 0
                for number in range(1, size[0] * size[1]):
                    down, right = divmod(number, size[1])
                    other = x[plane, top + down, left + right]
                    here = np.uint8(number)
                    for n in range(batch):
                        greater = (other[n] > most[n]) | (other[n] != other[n])
                        most[n] = other[n] if greater else most[n]
                        place[n] = here if greater else place[n]


@compiled()
def unpool(
    gradient: Floats, size: tuple[int, int], which: Bytes, into: Floats
) -> None:  # pragma: no cover - compiled
    """The gradient of what was pooled: each window's own at its greatest, else 0.

    What belongs to no window is left as it is.
    """
    planes, rows, columns, batch = gradient.shape
    zero = gradient.dtype.type(0)
    for plane in range(planes):
        for row in range(rows):
            for column in range(columns):
                own, place = gradient[plane, row, column], which[plane, row, column]
                for number in range(size[0] * size[1]):
                    down, right = divmod(number, size[1])
                    there = into[plane, row * size[0] + down, column * size[1] + right]
                    here = np.uint8(number)
                    for n in range(batch):
                        there[n] = own[n] if place[n] == here else zero
