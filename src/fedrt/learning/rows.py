"""Convolutions of many copies on a processor, as matrix products with the batch innermost.

A value (batch, copies x channels, height, width) lies in memory as (copies x channels, height,
width, batch). Whatever the channels are, vectors are then full. For each column of the kernel a
convolution's inputs are laid out once, row by row of the image: `spread`, lines of (output width x
batch) numbers. What an output row is made from are the lines of kernel-height rows, one after the
other: a matrix as it lies there, without the many copies that unfolding patches would make. Three
products with such matrices are the convolution and its two gradients. Every row of the image has
one more line, of ones: its weights are the biases, which so cost no pass through memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

VECTOR = 16
"""Channels that fill a vector of the library's own convolutions."""


def pays(module: nn.Module) -> bool:
    """Whether a model is faster like this than by the library's own convolutions.

    Those fill their vectors with channels, so they waste much where these come in other numbers.
    Measured: convolutions to 20 and 50 channels (LeNet-5) take about half the time by rows, a step
    of ResNet-20 (16 to 64, batch norm) about twice as long.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Conv2d)]
    return bool(layers) and all(layer.out_channels % VECTOR for layer in layers)


def has_rows(layer: nn.Conv2d, x: Tensor) -> bool:
    """Whether a layer is carried out like this: on a processor, in one group, undilated."""
    plain = layer.groups == 1 and layer.dilation == (1, 1) and not isinstance(layer.padding, str)
    return plain and x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)


def over_space(function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """A function of space, within each sample and channel, that leaves memory's order as it is.

    Samples and channels play the same part in it. Changed over, a value with the batch innermost
    is a channels-last one.
    """
    if x.device.type == "cpu" and x.dim() == 4 and x.stride(0) == 1 and len(x) > 1:
        return function(x.transpose(0, 1), *args, **kwargs).transpose(0, 1)
    return function(x, *args, **kwargs)


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, layer: nn.Conv2d) -> Tensor:
    """The layer's outputs for all copies: (batch, copies x outputs, height, width).

    Weights are (copies, outputs, channels, kernel height, kernel width), biases (copies, outputs).
    """
    assert not isinstance(layer.padding, str)
    high, wide = layer.padding
    inner = x.permute(1, 2, 3, 0)
    if high or wide:
        inner = fn.pad(inner, (0, 0, wide, wide, high, high))
    inner = inner.contiguous().view(len(weight), -1, *inner.shape[1:])
    bias = weight.new_zeros(weight.shape[:2]) if bias is None else bias
    y: Tensor = _Rows.apply(inner, weight, bias, layer.stride)  # type: ignore[no-untyped-call]
    return y.flatten(0, 1).permute(3, 0, 1, 2)


@dataclass(frozen=True)
class _Shape:
    """The sizes of one copy's convolution."""

    channels: int
    height: int
    width: int
    batch: int
    outputs: int
    kernel: tuple[int, int]
    stride: tuple[int, int]

    @property
    def rows(self) -> int:
        """Rows of the outputs."""
        return (self.height - self.kernel[0]) // self.stride[0] + 1

    @property
    def columns(self) -> int:
        """Columns of the outputs."""
        return (self.width - self.kernel[1]) // self.stride[1] + 1

    @property
    def lines(self) -> int:
        """Lines of `spread` that belong to one row of the image."""
        return self.kernel[1] * self.channels + 1

    @property
    def length(self) -> int:
        """Numbers in a line."""
        return self.columns * self.batch

    def shifted(self, x: Tensor, column: int) -> Tensor:
        """What a column of the kernel meets in a copy's inputs: (height, channels, columns, batch).

        A view of (channels, height, width, batch).
        """
        stop = column + self.stride[1] * (self.columns - 1) + 1
        return x[:, :, column : stop : self.stride[1]].transpose(0, 1)

    def of_column(self, spread: Tensor, column: int) -> Tensor:
        """The place of that in `spread`."""
        start = column * self.channels
        part = spread[:, start : start + self.channels]
        return part.unflatten(2, (self.columns, self.batch))  # type: ignore[no-untyped-call]

    def spread(self, x: Tensor) -> Tensor:
        """A copy's inputs once for each column of the kernel, and ones: (height, lines, length)."""
        found = x.new_empty(self.height, self.lines, self.length)
        for column in range(self.kernel[1]):
            self.of_column(found, column).copy_(self.shifted(x, column))
        found[:, -1] = 1.0
        return found

    def gathered(self, spread: Tensor) -> Tensor:
        """The gradient of a copy's inputs from that of `spread`."""
        found = spread.new_zeros(self.channels, self.height, self.width, self.batch)
        for column in range(self.kernel[1]):
            self.shifted(found, column).add_(self.of_column(spread, column))
        return found

    def windows(self, spread: Tensor) -> Tensor:
        """What every output row is made from, as views: (rows, kernel height x lines, length)."""
        return spread.as_strided(
            (self.rows, self.kernel[0] * self.lines, self.length),
            (self.stride[0] * self.lines * self.length, self.length, 1),
        )

    def flat(self, weight: Tensor, bias: Tensor) -> Tensor:
        """Weights as they meet the lines of a window: (copies, outputs, kernel height x lines)."""
        found = weight.new_zeros(*bias.shape, self.kernel[0], self.lines)
        turned = found[..., :-1].unflatten(3, (self.kernel[1], self.channels))  # type: ignore[no-untyped-call]
        turned.copy_(weight.permute(0, 1, 3, 4, 2))
        found[:, :, 0, -1] = bias
        return found.flatten(2)

    def unflat(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and biases out of that."""
        split = flat.unflatten(2, (self.kernel[0], self.lines))  # type: ignore[no-untyped-call]
        turned = split[..., :-1].unflatten(3, (self.kernel[1], self.channels))
        return turned.permute(0, 1, 4, 2, 3).contiguous(), split[:, :, 0, -1].contiguous()


class _Rows(torch.autograd.Function):
    """(copies, channels, height, width, batch) -> (copies, outputs, rows, columns, batch)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, stride: Any) -> Tensor:
        copies, outputs, channels, *kernel = weight.shape
        height, width, batch = x.shape[2:]
        shape = _Shape(channels, height, width, batch, outputs, (kernel[0], kernel[1]), stride)
        flat = shape.flat(weight, bias)
        spread = [shape.spread(own) for own in x]
        y = x.new_empty(copies, outputs, shape.rows, shape.length)
        for own, wide, into in zip(flat, spread, y, strict=True):
            factors = own.expand(shape.rows, -1, -1)
            torch.bmm(factors, shape.windows(wide), out=into.transpose(0, 1))
        ctx.shape = shape
        ctx.save_for_backward(flat, *spread)
        return y.view(copies, outputs, shape.rows, shape.columns, shape.batch)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        shape: _Shape = ctx.shape
        flat, *spread = ctx.saved_tensors
        gradient = gradients[0].contiguous().flatten(3)
        of_inputs = None
        if ctx.needs_input_grad[0]:
            pairs = zip(flat, gradient, strict=True)
            of_inputs = torch.stack([_input_gradient(own, g, shape) for own, g in pairs])
        of_flat = torch.zeros_like(flat)
        for wide, g, into in zip(spread, gradient, of_flat, strict=True):
            into.addbmm_(g.transpose(0, 1), shape.windows(wide).transpose(1, 2))
        return of_inputs, *shape.unflat(of_flat), None


def _input_gradient(flat: Tensor, gradient: Tensor, shape: _Shape) -> Tensor:
    """The gradient of a copy's inputs: of their spread form, row by row, then gathered."""
    spread = flat.new_zeros(shape.height * shape.lines, shape.length)
    turned = flat.t().contiguous()
    for row in range(shape.rows):
        start = row * shape.stride[0] * shape.lines
        spread[start : start + len(turned)].addmm_(turned, gradient[:, row])
    return shape.gathered(spread.view(shape.height, shape.lines, shape.length))
