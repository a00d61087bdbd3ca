"""Direct convolutions of many copies on a processor, by kernels of our own.

A value (batch, copies x channels, height, width) lies in memory with the batch innermost, as for
`rows`, which does what these are not made for. Nothing is unfolded or laid out anew: see
`convolution_kernel`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedrt.learning.stacked.kernels.rows import has_rows, padded

LEAST = 4
"""Outputs, or channels where their gradient is asked for, that fill a tile."""


def is_direct(layer: nn.Conv2d, x: Tensor) -> bool:
    """Whether a layer is computed by these kernels: stride 1, and rows that fill vectors."""
    if not has_rows(layer, x) or layer.stride != (1, 1) or layer.out_channels < LEAST:
        return False
    if x.requires_grad and layer.in_channels < LEAST:
        return False
    assert not isinstance(layer.padding, str)
    from fedrt.learning.stacked.kernels.register_tiles import ACROSS, lanes

    columns = x.shape[3] + 2 * layer.padding[1] - layer.kernel_size[1] + 1
    length, vector = columns * len(x), lanes(x.element_size())
    return length >= ACROSS * vector and length % vector == 0


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, layer: nn.Conv2d) -> Tensor:
    """The layer's outputs for all copies: (batch, copies x outputs, height, width).

    Weights are (copies, outputs, channels, kernel height, kernel width), biases (copies, outputs).
    """
    inner = padded(x, layer, len(weight))
    bias = weight.new_zeros(weight.shape[:2]) if bias is None else bias
    y: Tensor = _Direct.apply(inner, weight, bias)  # type: ignore[no-untyped-call]
    return y.flatten(0, 1).permute(3, 0, 1, 2)


@dataclass(frozen=True)
class _Shape:
    """The sizes of all copies' convolutions."""

    copies: int
    outputs: int
    channels: int
    height: int
    width: int
    batch: int
    high: int
    wide: int

    @property
    def rows(self) -> int:
        """Rows of the outputs."""
        return self.height - self.high + 1

    @property
    def columns(self) -> int:
        """Columns of the outputs."""
        return self.width - self.wide + 1

    @property
    def sizes(self) -> tuple[int, int, int, int, int, int, int, int, int]:
        """As the kernels of the gradients take them."""
        length = self.columns * self.batch
        of_values = (self.copies, self.outputs, self.channels, self.height, self.rows, length)
        return (*of_values, self.high, self.wide, self.batch)


@lru_cache(maxsize=64)
def _where_inputs_begin(shape: _Shape) -> NDArray[np.int64]:
    """For every weight of an output, the inputs it meets first, counted from the copy's first."""
    channel, down, right = np.indices((shape.channels, shape.high, shape.wide)).reshape(3, -1)
    found: NDArray[np.int64] = (channel * shape.height + down) * shape.width + right
    return found * shape.batch


@lru_cache(maxsize=64)
def tiling(count: int) -> tuple[int, list[int], list[int]]:
    """The size of a tile for a number of items, the items of all tiles, and the repeated ones.

    The last tile ends with the last of them, and so may hold some that the one before has too.
    """
    from fedrt.learning.stacked.kernels.register_tiles import TILES

    # In small tiles vectors wait for one another: a tenth of the time.
    tile = min(TILES, key=lambda size: -(-count // size) * size * (1.1 if size < 5 else 1.0))
    starts = range(0, count, tile)
    places = [min(start, count - tile) + n for start in starts for n in range(tile)]
    again = [n for n, place in enumerate(places) if place < n // tile * tile]
    return tile, places, again


class _Direct(torch.autograd.Function):
    """Maps (copies, channels, height, width, batch) to (copies, outputs, rows, columns, batch)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        from fedrt.learning.stacked.kernels.convolution_kernel import forward
        from fedrt.learning.stacked.kernels.register_tiles import ACROSS, lanes

        copies, outputs, channels, high, wide = weight.shape
        height, width, batch = x.shape[2:]
        shape = _Shape(copies, outputs, channels, height, width, batch, high, wide)
        y = x.new_empty(copies, outputs, shape.rows, shape.columns, shape.batch)
        tile, places, again = tiling(outputs)
        own = weight.detach()
        own = (own[:, places] if again else own).reshape(copies, -1, tile, channels * high * wide)
        length, row = shape.columns * shape.batch, shape.width * shape.batch
        forward(
            _flat(x),
            _flat(own.transpose(2, 3).contiguous()),
            _flat(bias.contiguous()),
            _where_inputs_begin(shape),
            (copies, outputs, shape.rows, length, row, channels * shape.height * row),
            tile,
            ACROSS * lanes(x.element_size()),
            _flat(y),
        )
        ctx.shape = shape
        ctx.save_for_backward(x, weight)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        from fedrt.learning.stacked.kernels.convolution_kernel import weight_gradient

        x, weight = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        of_inputs = None
        if ctx.needs_input_grad[0]:
            of_inputs = _input_gradient(gradient, weight, x, ctx.shape)
        of_weights = torch.empty_like(weight, memory_format=torch.contiguous_format)
        weight_gradient(_flat(gradient), _flat(x), ctx.shape.sizes, _flat(of_weights))
        return of_inputs, of_weights, gradient.sum((2, 3, 4))


def _input_gradient(gradient: Tensor, weight: Tensor, x: Tensor, shape: _Shape) -> Tensor:
    """The gradient of all copies' inputs."""
    from fedrt.learning.stacked.kernels.convolution_kernel import input_gradient
    from fedrt.learning.stacked.kernels.register_tiles import ACROSS, lanes

    tile, places, again = tiling(shape.channels)
    own = weight.detach().permute(0, 3, 4, 2, 1)
    if again:
        own = own[:, :, :, places]
        own[:, :, :, again] = 0.0
    parts = (shape.copies, shape.high, shape.wide, -1, tile, shape.outputs)
    found = torch.zeros_like(x)
    input_gradient(
        _flat(gradient),
        _flat(own.reshape(parts).transpose(4, 5).contiguous()),
        shape.sizes,
        tile,
        ACROSS * lanes(x.element_size()),
        _flat(found),
    )
    return found


def _flat(tensor: Tensor) -> NDArray[Any]:
    """A contiguous tensor's numbers."""
    found: NDArray[Any] = tensor.detach().view(-1).numpy()
    return found
