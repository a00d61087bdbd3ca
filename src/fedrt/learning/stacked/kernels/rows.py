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

NARROW, MANY, FEW = 128, 64, 10
"""At most so many lines in a window and so many outputs: a few of these at a time for the weights'
gradient. For few rows the library has a product that takes both factors as they lie.

Measured: 20 outputs x 30 lines (the first layer of LeNet-5) in 0.35 instead of 0.95 ms; 50 x 505
lines, or 128 x 30, took 1.5 times as long in parts.
"""


def has_rows(layer: nn.Conv2d, x: Tensor) -> bool:
    """Whether a layer is computed in this form: on a processor, one group, no dilation."""
    plain = layer.groups == 1 and layer.dilation == (1, 1) and not isinstance(layer.padding, str)
    return plain and x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, layer: nn.Conv2d) -> Tensor:
    """The layer's outputs for all copies: (batch, copies x outputs, height, width).

    Weights are (copies, outputs, channels, kernel height, kernel width), biases (copies, outputs).
    """
    inner = padded(x, layer, len(weight))
    bias = weight.new_zeros(weight.shape[:2]) if bias is None else bias
    y: Tensor = _Rows.apply(inner, weight, bias, layer.stride)  # type: ignore[no-untyped-call]
    return y.flatten(0, 1).permute(3, 0, 1, 2)


def padded(x: Tensor, layer: nn.Conv2d, copies: int) -> Tensor:
    """A layer's inputs with their padding: (copies, channels, height, width, batch)."""
    assert not isinstance(layer.padding, str)
    high, wide = layer.padding
    inner = x.permute(1, 2, 3, 0)
    if high or wide:
        inner = fn.pad(inner, (0, 0, wide, wide, high, high))
    return inner.contiguous().view(copies, -1, *inner.shape[1:])


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

    def columns_of(self, spread: Tensor) -> Tensor:
        """`spread` without its ones: (height, kernel width, channels, columns, batch), a view."""
        parts = (self.height, self.kernel[1], self.channels, self.columns, self.batch)
        return spread[:, :-1].view(parts)

    def spread(self, x: Tensor) -> Tensor:
        """A copy's inputs once for each column of the kernel, and ones: (height, lines, length)."""
        found = x.new_empty(self.height, self.lines, self.length)
        into = self.columns_of(found)
        plane, row, column, one = x.stride()
        met = x.as_strided(into.shape, (row, column, plane, self.stride[1] * column, one))
        into.copy_(met)
        found[:, -1] = 1.0
        return found

    def gather(self, spread: Tensor, into: Tensor) -> None:
        """Add the gradient of `spread` up to that of a copy's inputs."""
        parts, stride = self.columns_of(spread).transpose(0, 2).unbind(1), self.stride[1]
        for column, part in enumerate(parts):
            stop = column + stride * (self.columns - 1) + 1
            into[:, :, column:stop:stride].add_(part)

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
        """The weights and biases from their flattened form."""
        split = flat.unflatten(2, (self.kernel[0], self.lines))  # type: ignore[no-untyped-call]
        turned = split[..., :-1].unflatten(3, (self.kernel[1], self.channels))
        return turned.permute(0, 1, 4, 2, 3).contiguous(), split[:, :, 0, -1].contiguous()


class _Rows(torch.autograd.Function):
    """Maps (copies, channels, height, width, batch) to (copies, outputs, rows, columns, batch)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, stride: Any) -> Tensor:
        copies, outputs, channels, *kernel = weight.shape
        height, width, batch = x.shape[2:]
        shape = _Shape(channels, height, width, batch, outputs, (kernel[0], kernel[1]), stride)
        flat = shape.flat(weight, bias)
        y = x.new_empty(copies, outputs, shape.rows, shape.length)
        spread = []
        for own, weights, into in zip(x, flat, y, strict=True):
            spread.append(shape.spread(own))
            factors = weights.expand(shape.rows, -1, -1)
            torch.bmm(factors, shape.windows(spread[-1]), out=into.transpose(0, 1))
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
            sizes = (shape.channels, shape.height, shape.width, shape.batch)
            of_inputs = gradient.new_zeros(len(flat), *sizes)
            for own, g, into in zip(flat, gradient, of_inputs, strict=True):
                _add_input_gradient(own, g, shape, into)
        of_flat = torch.zeros_like(flat)
        in_parts = flat.shape[2] <= NARROW and shape.outputs <= MANY
        few = FEW if in_parts else shape.outputs
        for wide, g, into in zip(spread, gradient, of_flat, strict=True):
            turned = shape.windows(wide).transpose(1, 2)
            for part, of_part in zip(g.split(few), into.split(few), strict=True):
                of_part.addbmm_(part.transpose(0, 1), turned)
        return of_inputs, *shape.unflat(of_flat), None


def _add_input_gradient(flat: Tensor, gradient: Tensor, shape: _Shape, into: Tensor) -> None:
    """Add the gradient of a copy's inputs: of their spread form, row by row, then gathered."""
    spread = flat.new_zeros(shape.height * shape.lines, shape.length)
    turned = flat.t().contiguous()
    for row, own in enumerate(gradient.unbind(1)):
        start = row * shape.stride[0] * shape.lines
        spread[start : start + len(turned)].addmm_(turned, own)
    shape.gather(spread.view(shape.height, shape.lines, shape.length), into)
