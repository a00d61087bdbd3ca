"""Own GPU kernels for 3x3 convolutions of many copies, each copy's images in one piece.

Images are (copies, batch, height, width, channels), so a copy's tile is read in long runs; a
library's grouped convolution has the copies among the channels and reads 32 bytes at a time. The
forward kernel also gives each tile's mean and squared deviations, which batch norm then need not
read the outputs for. Loaded only where there is a GPU; `copies.py` says what they compute.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 128
"""Pixels a program computes at a time."""
PARTS = 8
"""Shares of a copy's pixels whose weight gradients are added up by programs of their own."""


@triton.jit
def _convolve(
    x,
    weight,
    y,
    moments,
    B: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    HO: tl.constexpr,
    WO: tl.constexpr,
    C: tl.constexpr,
    K: tl.constexpr,
    STRIDE: tl.constexpr,
    UP: tl.constexpr,
    TURNED: tl.constexpr,
    TILE: tl.constexpr,
    MOMENTS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One tile of one copy: for each of nine taps the shifted pixels times the tap's matrix."""
    copy = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * TILE + tl.arange(0, TILE)
    image = pixel // (HO * WO)
    row = (pixel % (HO * WO)) // WO * STRIDE - 1
    column = pixel % WO * STRIDE - 1
    here = image < B
    c = tl.arange(0, C)
    k = tl.arange(0, K)
    x += copy * B * H * W * C
    weight += copy * 9 * C * K
    total = tl.zeros((TILE, K), tl.float32)
    for tap in tl.static_range(9):
        i = row + tap // 3
        j = column + tap % 3
        inside = here & (i >= 0) & (j >= 0) & (i < H * UP) & (j < W * UP)
        if UP > 1:
            inside = inside & (i % UP == 0) & (j % UP == 0)
            i = i // UP
            j = j // UP
        at = ((image * H + i) * W + j) * C
        values = tl.load(x + at[:, None] + c[None, :], mask=inside[:, None], other=0.0)
        if TURNED:
            matrix = tl.load(weight + (8 - tap) * C * K + k[None, :] * C + c[:, None])
        else:
            matrix = tl.load(weight + tap * C * K + c[:, None] * K + k[None, :])
        total = tl.dot(values, matrix, total, input_precision=PRECISION)
    y += copy * B * HO * WO * K
    tl.store(y + pixel[:, None] * K + k[None, :], total.to(y.dtype.element_ty), mask=here[:, None])
    if MOMENTS:
        mean = tl.sum(total, 0) / TILE
        off = total - mean[None, :]
        moments += (copy * tl.num_programs(0) + tl.program_id(0)) * 2 * K
        tl.store(moments + k, mean)
        tl.store(moments + K + k, tl.sum(off * off, 0))


@triton.jit
def _weight_gradient(
    x,
    gradient,
    out,
    B: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    HO: tl.constexpr,
    WO: tl.constexpr,
    C: tl.constexpr,
    K: tl.constexpr,
    STRIDE: tl.constexpr,
    TILE: tl.constexpr,
    TILES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One row of three taps, for one share of one copy's pixels."""
    up = tl.program_id(0)
    part = tl.program_id(1)
    copy = tl.program_id(2).to(tl.int64)
    c = tl.arange(0, C)
    k = tl.arange(0, K)
    x += copy * B * H * W * C
    gradient += copy * B * HO * WO * K
    left = tl.zeros((K, C), tl.float32)
    middle = tl.zeros((K, C), tl.float32)
    right = tl.zeros((K, C), tl.float32)
    for tile in range(TILES):
        pixel = (part * TILES + tile) * TILE + tl.arange(0, TILE)
        image = pixel // (HO * WO)
        i = (pixel % (HO * WO)) // WO * STRIDE - 1 + up
        j = pixel % WO * STRIDE - 1
        here = image < B
        d = tl.load(gradient + pixel[None, :] * K + k[:, None], mask=here[None, :], other=0.0)
        inside = here & (i >= 0) & (i < H)
        at = x + (((image * H + i) * W + j) * C)[:, None] + c[None, :]
        first = tl.load(at, mask=(inside & (j >= 0))[:, None], other=0.0)
        second = tl.load(at + C, mask=(inside & (j + 1 < W))[:, None], other=0.0)
        third = tl.load(at + 2 * C, mask=(inside & (j + 2 < W))[:, None], other=0.0)
        left = tl.dot(d, first, left, input_precision=PRECISION)
        middle = tl.dot(d, second, middle, input_precision=PRECISION)
        right = tl.dot(d, third, right, input_precision=PRECISION)
    out += (part * tl.num_programs(2) + copy) * K * 9 * C
    at = out + k[:, None] * 9 * C + up * 3 * C + c[None, :]
    tl.store(at, left)
    tl.store(at + C, middle)
    tl.store(at + 2 * C, right)


def convolve(
    x: Tensor,
    weight: Tensor,
    stride: int,
    up: int,
    turned: bool,
    size: tuple[int, int],
    *,
    tile: int = TILE,
    warps: int = 4,
) -> tuple[Tensor, Tensor]:
    """Outputs and moments of `copies.convolve_copies`."""
    copies, batch, height, width, channels = x.shape
    outputs = weight.shape[2] if turned else weight.shape[3]
    rows, columns = size
    y = x.new_empty(copies, batch, rows, columns, outputs)
    pixels = batch * rows * columns
    known = shares(pixels, turned, tile)
    moments = x.new_empty((copies, known, 2, outputs), dtype=torch.float32)
    _convolve[(triton.cdiv(pixels, tile), copies)](
        x,
        weight,
        y,
        moments,
        batch,
        height,
        width,
        rows,
        columns,
        channels,
        outputs,
        stride,
        up,
        turned,
        tile,
        known > 0,
        _precision(x),
        num_warps=warps,
    )
    return y, moments


def shares(pixels: int, turned: bool, tile: int = TILE) -> int:
    """Tiles whose moments are given: all or none, as a last one that is not full would differ."""
    return 0 if turned or pixels % tile else pixels // tile


def weight_gradient(
    x: Tensor, gradient: Tensor, stride: int, *, tile: int = TILE, parts: int = PARTS, warps: int = 4
) -> Tensor:
    """Partial sums (parts, copies, outputs, 3, 3, channels) of the weights' gradient."""
    copies, batch, height, width, channels = x.shape
    _, _, rows, columns, outputs = gradient.shape
    out = x.new_empty((parts, copies, outputs, 3, 3, channels), dtype=torch.float32)
    tiles = triton.cdiv(triton.cdiv(batch * rows * columns, tile), parts)
    _weight_gradient[(3, parts, copies)](
        x,
        gradient,
        out,
        batch,
        height,
        width,
        rows,
        columns,
        channels,
        outputs,
        stride,
        tile,
        tiles,
        _precision(x),
        num_warps=warps,
    )
    return out


def _precision(x: Tensor) -> str:
    return "tf32" if x.dtype == torch.bfloat16 else "ieee"
