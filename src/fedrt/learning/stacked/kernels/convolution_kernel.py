"""Direct convolutions of values with the batch innermost, and their gradients. Compiled.

Values are (copies, channels, height, width, batch), passed as flat arrays; kernels have stride 1. A
row of outputs is `length` = columns x batch numbers side by side. What weight (channel, down,
right) meets in it also lies side by side, from (channel, row + down, right) on: nothing is unfolded
or laid out anew. Loads numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedrt.learning.stacked.kernels.register_tiles import (
    MOST_WEIGHTS,
    TILES,
    correlate_tile,
    multiply_tile,
    outputs_beside,
)
from fedrt.system.jit import compiled

Floats = NDArray[Any]
Ints = NDArray[np.int64]
Sizes = tuple[int, int, int, int, int, int, int, int, int]
"""Copies, outputs, channels, height, rows, length, kernel height and width, batch."""

_first4, _first5, _first6 = (multiply_tile(outputs, onto=False) for outputs in TILES)
_onto4, _onto5, _onto6 = (multiply_tile(outputs, onto=True) for outputs in TILES)


@compiled()
def forward(
    x: Floats,
    w: Floats,
    bias: Floats,
    at_x: Ints,
    sizes: tuple[int, int, int, int, int, int],
    tile: int,
    width: int,
    into: Floats,
) -> None:  # pragma: no cover - compiled
    """The convolution: `into` is (copies, outputs, rows, length).

    `w` is (copies, tiles, weights, tile), `at_x` says where a weight's inputs begin; sizes are
    copies, outputs, rows, length, and the steps from a row and from a copy of `x` to the next. The
    last tile, or the last vectors of a row, may begin before the others end: they come out again.
    """
    copies, outputs, rows, length, x_row, x_copy = sizes
    count, tiles = len(at_x), -(-outputs // tile)
    at_w = np.arange(count) * tile
    plane = rows * length
    for copy in range(copies):
        for number in range(tiles):
            own = (copy * tiles + number) * count * tile
            first = copy * outputs + min(number * tile, outputs - tile)
            for row in range(rows):
                for start in range(0, length, width):
                    n = min(start, length - width)
                    a, b = copy * x_copy + row * x_row + n, first * plane + row * length + n
                    if tile == 4:
                        _first4(w, own, at_w, x, a, at_x, count, bias, first, into, b, plane)
                    elif tile == 5:
                        _first5(w, own, at_w, x, a, at_x, count, bias, first, into, b, plane)
                    else:
                        _first6(w, own, at_w, x, a, at_x, count, bias, first, into, b, plane)


@compiled()
def input_gradient(
    g: Floats,
    w: Floats,
    sizes: Sizes,
    tile: int,
    width: int,
    into: Floats,
) -> None:  # pragma: no cover - compiled
    """Add the gradient of the inputs to `into`, (copies, channels, height, x_row).

    `w` is (copies, down, right, tiles of channels, outputs, tile), with zeros for channels that the
    tile before has too. Vectors of a row that come again count as zeros then.
    """
    copies, outputs, channels, height, rows, length, high, wide, batch = sizes
    tiles, x_row = -(-channels // tile), length + (wide - 1) * batch
    at_w, at_g = np.arange(outputs) * tile, np.arange(outputs) * width
    some, plane = np.empty(outputs * width, dtype=g.dtype), height * x_row
    for copy in range(copies):
        for row in range(rows):
            for start in range(0, length, width):
                n = min(start, length - width)
                for o in range(outputs):
                    there = ((copy * outputs + o) * rows + row) * length + n
                    for place in range(width):
                        some[o * width + place] = g[there + place]
                    for place in range(start - n):
                        some[o * width + place] = 0.0
                for k in range(high * wide):
                    down, right = k // wide, k % wide
                    for number in range(tiles):
                        own = ((copy * high * wide + k) * tiles + number) * outputs * tile
                        first = copy * channels + min(number * tile, channels - tile)
                        b = first * plane + (row + down) * x_row + right * batch + n
                        if tile == 4:
                            _onto4(w, own, at_w, some, 0, at_g, outputs, w, 0, into, b, plane)
                        elif tile == 5:
                            _onto5(w, own, at_w, some, 0, at_g, outputs, w, 0, into, b, plane)
                        else:
                            _onto6(w, own, at_w, some, 0, at_g, outputs, w, 0, into, b, plane)


def _part(weights: int) -> Any:
    """The gradient of so many neighbouring weights, from `right` on, of all outputs."""
    beside = outputs_beside(weights)
    tile = correlate_tile(beside, weights)

    @njit
    def part(
        g: Floats, x: Floats, sizes: Sizes, right: int, into: Floats
    ) -> None:  # pragma: no cover - compiled
        copies, outputs, channels, height, rows, length, high, wide, batch = sizes
        x_row, step = length + (wide - 1) * batch, channels * high * wide
        for copy in range(copies):
            for start in range(0, outputs, beside):
                o = copy * outputs + min(start, outputs - beside)
                for channel in range(channels):
                    for down in range(high):
                        a = ((copy * channels + channel) * height + down) * x_row + right * batch
                        b = o * step + (channel * high + down) * wide + right
                        plane = rows * length
                        tile(g, o * plane, plane, x, a, x_row, batch, rows, length, into, b, step)

    return part


_part1, _part2, _part3, _part4, _part5 = (_part(1 + n) for n in range(MOST_WEIGHTS))


@compiled()
def weight_gradient(
    g: Floats, x: Floats, sizes: Sizes, into: Floats
) -> None:  # pragma: no cover - compiled
    """The gradient of the weights, (copies, outputs, channels, down, right)."""
    wide, right = sizes[7], 0
    while right < wide:
        left = wide - right
        weights = left if left <= 5 else 4
        if weights == 1:
            _part1(g, x, sizes, right, into)
        elif weights == 2:
            _part2(g, x, sizes, right, into)
        elif weights == 3:
            _part3(g, x, sizes, right, into)
        elif weights == 4:
            _part4(g, x, sizes, right, into)
        else:
            _part5(g, x, sizes, right, into)
        right += weights
