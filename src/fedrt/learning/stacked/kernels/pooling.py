"""Pooling and other functions of space on values stored with the batch innermost."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

MOST = 256
"""Numbers of a window that a byte tells apart."""


def over_space(function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """A function of space, within each sample and channel, that leaves memory's order as it is.

    Samples and channels play the same part in it. Changed over, a value with the batch innermost
    is a channels-last one. Max pooling by windows side by side has a pass of its own: the library
    keeps eight bytes for each place and clears all gradients before it fills some, and takes twice
    the time.
    """
    if x.device.type != "cpu" or x.dim() != 4 or x.stride(0) != 1 or len(x) == 1:
        return function(x, *args, **kwargs)
    size = windows_side_by_side(function, args, kwargs)
    inner = x.permute(1, 2, 3, 0)
    fits = size is not None and x.shape[2] >= size[0] and x.shape[3] >= size[1]
    if fits and inner.is_contiguous() and x.dtype in (torch.float32, torch.float64):
        pooled: Tensor = _Pool.apply(inner, size)  # type: ignore[no-untyped-call]
        return pooled.permute(3, 0, 1, 2)
    return function(x.transpose(0, 1), *args, **kwargs).transpose(0, 1)


def windows_side_by_side(function: Any, args: Any, kwargs: Any) -> tuple[int, int] | None:
    """The windows' height and width where this is max pooling with as long strides, else None."""
    if function is fn.max_pool2d:
        function = nn.MaxPool2d(*args, **kwargs)
    if type(function) is not nn.MaxPool2d or function.return_indices or function.ceil_mode:
        return None
    size, stride, padding, dilation = (
        value if isinstance(value, tuple) else (value, value)
        for value in (function.kernel_size, function.stride, function.padding, function.dilation)
    )
    if size != stride or padding != (0, 0) or dilation != (1, 1) or size[0] * size[1] > MOST:
        return None
    return size


class _Pool(torch.autograd.Function):
    """Maps (planes, height, width, batch) to the greatest value of each window."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, size: tuple[int, int]) -> Tensor:
        # Here, since it loads numba: who trains nothing by rows does without.
        from fedrt.learning.stacked.kernels.pooling_kernel import pool

        planes, height, width, batch = x.shape
        y = x.new_empty(planes, height // size[0], width // size[1], batch)
        which = torch.empty(y.shape, dtype=torch.uint8)
        pool(x.detach().numpy(), size, y.numpy(), which.numpy())
        ctx.shape, ctx.size = x.shape, size
        ctx.save_for_backward(which)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        from fedrt.learning.stacked.kernels.pooling_kernel import unpool

        (which,) = ctx.saved_tensors
        whole = all(n % of == 0 for n, of in zip(ctx.shape[1:3], ctx.size, strict=True))
        found = gradients[0].new_empty(ctx.shape)
        if not whole:
            found.zero_()
        unpool(gradients[0].contiguous().numpy(), ctx.size, which.numpy(), found.numpy())
        return found, None
