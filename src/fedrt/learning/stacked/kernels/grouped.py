"""Grouped convolutions whose gradients stay grouped.

For many groups of 64 channels and for strides the GPU library computes the gradient of the inputs
group by group, hundreds of kernels with slices and layout changes around them. But that gradient is
itself a convolution, of the outputs' gradient (spread out by the stride) with the weights turned
round, and as a forward grouped convolution it is one kernel. Where a layer has fewer input than
output channels its inputs are padded, as the grouped kernels are for equal numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

EVEN_CHANNELS = 8
"""Grouped kernels exist for multiples of this."""


def has_grouped_gradient(layer: nn.Conv2d) -> bool:
    """Whether the gradient of this layer's inputs can be written as a convolution here."""
    if isinstance(layer.padding, str) or layer.dilation != (1, 1):
        return False
    return all(pad < size for size, pad in zip(layer.kernel_size, layer.padding, strict=True))


def convolve(
    x: Tensor, weight: Tensor, stride: tuple[int, ...], padding: tuple[int, ...], groups: int
) -> Tensor:
    """The grouped convolution of channels-last inputs."""
    channels, outputs = weight.shape[1], len(weight) // groups
    if channels < outputs and outputs % EVEN_CHANNELS == 0:
        extra = outputs - channels
        split = x.reshape(len(x), groups, channels, *x.shape[2:])
        x = fn.pad(split, (0, 0, 0, 0, 0, extra)).flatten(1, 2)
        weight = fn.pad(weight, (0, 0, 0, 0, 0, extra))
    x = x.contiguous(memory_format=torch.channels_last)
    y: Tensor = _Grouped.apply(x, weight, stride, padding, groups)  # type: ignore[no-untyped-call]
    return y


class _Grouped(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, stride: Any, padding: Any, groups: int
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding, ctx.groups = stride, padding, groups
        return fn.conv2d(x, weight, None, stride, padding, 1, groups)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        of_inputs = None
        if ctx.needs_input_grad[0]:
            of_inputs = input_gradient(gradient, weight, x, ctx.stride, ctx.padding, ctx.groups)
        of_weights = torch.ops.aten.convolution_backward(
            gradient,
            x,
            weight,
            None,
            list(ctx.stride),
            list(ctx.padding),
            [1, 1],
            False,
            [0, 0],
            ctx.groups,
            [False, True, False],
        )[1]
        return of_inputs, of_weights, None, None, None


def input_gradient(
    gradient: Tensor,
    weight: Tensor,
    x: Tensor,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    groups: int,
) -> Tensor:
    """The gradient of a convolution's inputs, as a convolution of its outputs' gradient."""
    size = weight.shape[2:]
    if tuple(stride) != (1, 1):
        # Zeros between the values, and after the last where the stride left inputs over.
        spans = [
            full + 2 * pad - k + 1 for full, pad, k in zip(x.shape[2:], padding, size, strict=True)
        ]
        wide = gradient.new_zeros(*gradient.shape[:2], *spans)
        wide = wide.contiguous(memory_format=torch.channels_last)
        wide[:, :, :: stride[0], :: stride[1]] = gradient
        gradient = wide
    per_group = weight.unflatten(0, (groups, -1))  # type: ignore[no-untyped-call]
    turned = per_group.transpose(1, 2).flatten(0, 1).flip(2, 3)
    turned = turned.contiguous(memory_format=torch.channels_last)
    around = [k - 1 - pad for k, pad in zip(size, padding, strict=True)]
    return fn.conv2d(gradient, turned, None, 1, around, 1, groups)
