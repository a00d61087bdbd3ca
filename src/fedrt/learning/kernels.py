# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator,possibly-undefined"
# ruff: noqa: N803
"""Own GPU kernels for 3x3 convolutions of many copies, each copy's images in one piece.

Images are (copies, batch, height, width, channels). The forward kernel also gives each tile's mean
and squared deviations, which batch norm then need not read the outputs for. Loaded only where there
is a GPU; `copies.py` says what they compute. Sizes of tiles are what was fastest on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 128
"""Pixels a program of the forward kernel computes."""


@dataclass(frozen=True)
class Cut:
    """How a weight gradient is cut into programs."""

    tile: int
    """Pixels taken at a time."""
    parts: int
    """Shares of a copy's pixels, each a program's."""
    rows: int
    """Rows of taps a program does: one, or all three."""
    stages: int


def cut(channels: int, outputs: int) -> Cut:
    """For layers about as wide."""
    return Cut(64, 8, 3, 2) if max(channels, outputs) <= 32 else Cut(32, 4, 1, 3)


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
    SPAN: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    TILES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Taps of one row, or of all three rows, for one share of one copy's pixels."""
    part = tl.program_id(1)
    copy = tl.program_id(2).to(tl.int64)
    k = tl.arange(0, K)
    s = tl.arange(0, SPAN)
    first = tl.program_id(0)
    x += copy * B * H * W * C
    gradient += copy * B * HO * WO * K
    upper = tl.zeros((K, SPAN), tl.float32)
    if ROWS == 3:
        middle = tl.zeros((K, SPAN), tl.float32)
        lower = tl.zeros((K, SPAN), tl.float32)
    for tile in range(TILES):
        pixel = (part * TILES + tile) * TILE + tl.arange(0, TILE)
        image = pixel // (HO * WO)
        row = (pixel % (HO * WO)) // WO * STRIDE - 1 + first
        column = pixel % WO * STRIDE - 1
        here = image < B
        d = tl.load(gradient + pixel[:, None] * K + k[None, :], mask=here[:, None], other=0.0)
        d = tl.trans(d)
        j = column[:, None] + (s // C)[None, :]
        inside = here[:, None] & (j >= 0) & (j < W) & (s < 3 * C)[None, :]
        at = x + (((image * H + row) * W + column) * C)[:, None] + s[None, :]
        values = tl.load(at, mask=inside & ((row >= 0) & (row < H))[:, None], other=0.0)
        upper = tl.dot(d, values, upper, input_precision=PRECISION)
        if ROWS == 3:
            values = tl.load(at + W * C, mask=inside & (row + 1 < H)[:, None], other=0.0)
            middle = tl.dot(d, values, middle, input_precision=PRECISION)
            values = tl.load(at + 2 * W * C, mask=inside & (row + 2 < H)[:, None], other=0.0)
            lower = tl.dot(d, values, lower, input_precision=PRECISION)
    out += (part * tl.num_programs(2) + copy) * K * 9 * C
    at = out + k[:, None] * 9 * C + first * 3 * C + s[None, :]
    used = (k >= 0)[:, None] & (s < 3 * C)[None, :]
    tl.store(at, upper, mask=used)
    if ROWS == 3:
        tl.store(at + 3 * C, middle, mask=used)
        tl.store(at + 6 * C, lower, mask=used)


def convolve(
    x: Tensor, weight: Tensor, stride: int, up: int, turned: bool, size: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Outputs and moments of `copies.convolve_copies`."""
    copies, batch, height, width, channels = x.shape
    outputs = weight.shape[2] if turned else weight.shape[3]
    rows, columns = size
    y = x.new_empty(copies, batch, rows, columns, outputs)
    pixels = batch * rows * columns
    known = shares(pixels, turned)
    moments = x.new_empty((copies, known, 2, outputs), dtype=torch.float32)
    _convolve[(triton.cdiv(pixels, TILE), copies)](
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
        TILE,
        known > 0,
        _precision(x),
        num_warps=4,
    )
    return y, moments


def shares(pixels: int, turned: bool) -> int:
    """Tiles whose moments are given: all or none, as a last one that is not full would differ."""
    return 0 if turned or pixels % TILE else pixels // TILE


def weight_gradient(x: Tensor, gradient: Tensor, stride: int) -> Tensor:
    """Partial sums (parts, copies, outputs, 3, 3, channels) of the weights' gradient."""
    copies, batch, height, width, channels = x.shape
    _, _, rows, columns, outputs = gradient.shape
    how = cut(channels, outputs)
    out = x.new_empty((how.parts, copies, outputs, 3, 3, channels), dtype=torch.float32)
    tiles = triton.cdiv(triton.cdiv(batch * rows * columns, how.tile), how.parts)
    _weight_gradient[(3 // how.rows, how.parts, copies)](
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
        triton.next_power_of_2(3 * channels),
        how.rows,
        how.tile,
        tiles,
        _precision(x),
        num_warps=4,
        num_stages=how.stages,
    )
    return out


def _precision(x: Tensor) -> str:
    return "tf32" if x.dtype == torch.bfloat16 else "ieee"
