"""3x3 convolutions and batch norm of many copies, each copy's images in one piece of memory.

For bfloat16 on a GPU, where own kernels (kernels.py) take the place of the library's grouped
convolutions. The plain forms here say what those compute, and run where there is no GPU. Values
are (copies, batch, height, width, channels), in that order in memory too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

LEAST_CHANNELS, MOST_CHANNELS = 16, 128
"""What one matrix product of a kernel takes: powers of two between these."""


def fits(layer: nn.Conv2d) -> bool:
    """Whether the kernels can carry out this convolution; few inputs are padded to as many."""
    outputs = layer.out_channels
    return (
        layer.kernel_size == (3, 3)
        and layer.padding == (1, 1)
        and layer.stride in ((1, 1), (2, 2))
        and layer.dilation == (1, 1)
        and layer.groups == 1
        and LEAST_CHANNELS <= outputs <= MOST_CHANNELS
        and outputs.bit_count() == 1
        and _padded(layer.in_channels) <= MOST_CHANNELS
    )


def _padded(channels: int) -> int:
    return int(max(LEAST_CHANNELS, 1 << (channels - 1).bit_length()))


def convolve(x: Tensor, weight: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """The convolution of every copy, and what is known of its outputs' moments, as below."""
    extra = _padded(x.shape[4]) - x.shape[4]
    if extra:
        x = fn.pad(x, (0, extra))
        weight = fn.pad(weight, (0, 0, 0, 0, 0, extra))
    found: tuple[Tensor, Tensor] = _Convolution.apply(x, weight, stride)  # type: ignore[no-untyped-call]
    return found


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int) -> tuple[Tensor, Tensor]:
        inner = x.contiguous()
        # One matrix (channels, outputs) for each of the nine taps.
        taps = weight.to(x.dtype).permute(0, 3, 4, 2, 1).flatten(1, 2).contiguous()
        height, width = x.shape[2:4]
        size = (-(-height // stride), -(-width // stride))
        y, moments = convolve_copies(inner, taps, stride, 1, False, *size)
        ctx.save_for_backward(inner, taps)
        ctx.stride, ctx.dtype = stride, weight.dtype
        ctx.mark_non_differentiable(moments)
        return y, moments

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        inner, taps = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        of_inputs = None
        if ctx.needs_input_grad[0]:
            # Itself a convolution, of the gradient spread out by the stride, weights turned round.
            size = inner.shape[2:4]
            of_inputs = convolve_copies(gradient, taps, 1, ctx.stride, True, *size)[0]
        parts = weight_gradient_copies(inner, gradient, ctx.stride)
        return of_inputs, parts.sum(0).permute(0, 1, 4, 2, 3).to(ctx.dtype), None


@torch.library.custom_op("fedrt::convolve_copies", mutates_args=())
def convolve_copies(
    x: Tensor, weight: Tensor, stride: int, up: int, turned: bool, rows: int, columns: int
) -> tuple[Tensor, Tensor]:
    """The 3x3 convolution, padded by 1, of every copy's images with its nine matrices.

    x (copies, batch, height, width, channels), weight (copies, 9, channels, outputs), to
    (copies, batch, rows, columns, outputs). `up` first spreads x out with zeros between; `turned`
    takes the taps in reverse order, each transposed. Also, perhaps, the moments of equal shares of
    each copy's pixels, (copies, shares, 2, outputs): mean, and sum of squared deviations from it.
    """
    matrices = weight.flip(1).transpose(2, 3) if turned else weight
    copies, _, channels, outputs = matrices.shape
    kernel = matrices.reshape(copies, 3, 3, channels, outputs).permute(0, 4, 3, 1, 2)
    images = x.permute(0, 1, 4, 2, 3)
    if up > 1:
        height, width = x.shape[2:4]
        wide = images.new_zeros(*images.shape[:3], height * up, width * up)
        wide[..., ::up, ::up] = images
        images = wide
    y = torch.stack(
        [fn.conv2d(own, k, None, stride, 1) for own, k in zip(images, kernel, strict=True)]
    )
    y = y[..., :rows, :columns].permute(0, 1, 3, 4, 2).contiguous()
    return y, x.new_empty((copies, 0, 2, outputs), dtype=torch.float32)


@torch.library.custom_op("fedrt::weight_gradient_copies", mutates_args=())
def weight_gradient_copies(x: Tensor, gradient: Tensor, stride: int) -> Tensor:
    """The gradient of every copy's weights, to be added up over the first axis.

    (parts, copies, outputs, 3, 3, channels).
    """
    found = [
        torch.ops.aten.convolution_backward(
            d.permute(0, 3, 1, 2),
            own.permute(0, 3, 1, 2),
            x.new_empty(d.shape[3], own.shape[3], 3, 3),
            None,
            [stride] * 2,
            [1, 1],
            [1, 1],
            False,
            [0, 0],
            1,
            [False, True, False],
        )[1]
        for own, d in zip(x, gradient, strict=True)
    ]
    return torch.stack(found).permute(0, 1, 3, 4, 2).contiguous()[None]


@convolve_copies.register_kernel("cuda")
def _(
    x: Tensor, weight: Tensor, stride: int, up: int, turned: bool, rows: int, columns: int
) -> tuple[Tensor, Tensor]:
    from fedrt.learning import kernels

    size = (rows, columns)
    return kernels.convolve(x.contiguous(), weight.contiguous(), stride, up, turned, size)


@weight_gradient_copies.register_kernel("cuda")
def _(x: Tensor, gradient: Tensor, stride: int) -> Tensor:
    from fedrt.learning import kernels

    return kernels.weight_gradient(x.contiguous(), gradient.contiguous(), stride)


@convolve_copies.register_fake
def _(
    x: Tensor, weight: Tensor, stride: int, up: int, turned: bool, rows: int, columns: int
) -> tuple[Tensor, Tensor]:
    copies, batch = x.shape[:2]
    outputs = weight.shape[2] if turned else weight.shape[3]
    y = x.new_empty(copies, batch, rows, columns, outputs)
    shares = 0
    if x.is_cuda:
        from fedrt.learning import kernels

        shares = kernels.shares(batch * rows * columns, turned)
    return y, x.new_empty((copies, shares, 2, outputs), dtype=torch.float32)


@weight_gradient_copies.register_fake
def _(x: Tensor, gradient: Tensor, stride: int) -> Tensor:
    parts, dtype = 1, x.dtype
    if x.is_cuda:
        from fedrt.learning import kernels

        parts, dtype = kernels.cut(x.shape[4], gradient.shape[4]).parts, torch.float32
    shape = (parts, len(x), gradient.shape[4], 3, 3, x.shape[4])
    return x.new_empty(shape, dtype=dtype)


def moments_of(x: Tensor, shares: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and squared deviations' mean of every copy's channels, (copies, channels)."""
    if shares is None or shares.shape[1] == 0:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        variance, mean = torch.var_mean(wide, dim=(1, 2, 3), correction=0)
        return mean, variance
    means, squares = shares.unbind(2)
    mean = means.mean(1)
    between = (means - mean[:, None]).square().mean(1)
    count = x[0, ..., 0].numel()
    return mean, squares.sum(1) / count + between


def normalise(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """Batch norm of every copy with these moments, which are taken as known from x itself."""
    scale = torch.ones_like(mean) if weight is None else weight
    shift = torch.zeros_like(mean) if bias is None else bias
    y: Tensor = _Normalise.apply(x, mean, (variance + eps).rsqrt(), scale, shift)  # type: ignore[no-untyped-call]
    return y


class _Normalise(torch.autograd.Function):
    """Gradients go through the moments too, written out so that x is read twice and no more."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, mean: Tensor, narrow: Tensor, scale: Tensor, shift: Tensor
    ) -> Tensor:
        ctx.save_for_backward(x, mean, narrow, scale)
        y = (x - _wide(mean)) * _wide(narrow * scale) + _wide(shift)
        return y.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, mean, narrow, scale = ctx.saved_tensors
        gradient = gradients[0].to(mean.dtype)
        count = x[0, ..., 0].numel()
        normal = (x - _wide(mean)) * _wide(narrow)
        of_shift = gradient.sum((1, 2, 3))
        of_scale = (gradient * normal).sum((1, 2, 3))
        rest = gradient - _wide(of_shift / count) - normal * _wide(of_scale / count)
        return (rest * _wide(narrow * scale)).to(x.dtype), None, None, of_scale, of_shift


def _wide(each: Tensor) -> Tensor:
    """Per copy and channel, to go with (copies, batch, height, width, channels)."""
    return each[:, None, None, None]
