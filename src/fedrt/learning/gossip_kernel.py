"""Gossip steps of all edge servers on a processor. Compiled: importing it loads numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.learning.codecs.blocks_kernel import (
    MAGIC,
    MAGIC_BITS,
    NOT_FINITE,
    block_scale,
    inverse_of,
)
from fedrt.messages import BLOCK
from fedrt.system.jit import compiled


@compiled(nogil=True)
def gossip_step(
    models: NDArray[Any],
    own: NDArray[np.float64],
    first: NDArray[np.int64],
    neighbour: NDArray[np.int64],
    weight: NDArray[np.float64],
    after: NDArray[Any],
) -> None:  # pragma: no cover - compiled
    """Fill `after` with the models of the first servers after one gossip step.

    Those that have weights: `models` may go on with neighbours that stand elsewhere. The neighbours
    of c are those from first[c] on.

    Without leave to change arithmetic the compiler rounds every product and every sum.
    """
    columns = models.shape[1]
    total = np.empty(columns)
    for c in range(len(own)):
        for k in range(columns):
            total[k] = own[c] * np.float64(models[c, k])
        for link in range(first[c], first[c + 1]):
            j, w = neighbour[link], weight[link]
            for k in range(columns):
                total[k] += w * np.float64(models[j, k])
        for k in range(columns):
            after[c, k] = total[k]


@compiled(nogil=True)
def coded_step(
    models: NDArray[Any],
    copies: NDArray[np.float32],
    reverse: NDArray[np.int64],
    first: NDArray[np.int64],
    weight: NDArray[np.float64],
) -> None:  # pragma: no cover - compiled
    """Move the models, in place, as the copies say; arguments as of `coded_gossip.CodedLinks`."""
    servers, columns = models.shape
    total = np.empty(columns)
    for c in range(servers):
        for k in range(columns):
            total[k] = models[c, k]
        for link in range(first[c], first[c + 1]):
            other, w = reverse[link], weight[link]
            for k in range(columns):
                total[k] += w * (np.float64(copies[other, k]) - np.float64(copies[link, k]))
        for k in range(columns):
            models[c, k] = total[k]


@compiled(nogil=True)
def code_blocks(
    models: NDArray[np.float32],
    copies: NDArray[np.float32],
    server: NDArray[np.int64],
    levels: int,
    share: np.float32,
    most: int,
) -> None:  # pragma: no cover - compiled
    """Add to each copy what the message of its server's difference to it decodes to.

    For the codecs that round blocks of numbers to `levels` on each side of zero. Where a difference
    is not finite the copy becomes so too.
    """
    f, coded = np.empty(1, np.float32), np.empty(BLOCK, np.float32)
    i, raw = f.view(np.int32), coded.view(np.int32)
    for link in range(len(copies)):
        for s in range(0, models.shape[1], BLOCK):
            mine, copy = models[server[link], s : s + BLOCK], copies[link, s : s + BLOCK]
            count, greatest = len(mine), np.int32(0)
            for k in range(count):
                coded[k] = mine[k] - copy[k]
            for k in range(count):
                greatest = max(greatest, raw[k] & np.int32(0x7FFFFFFF))
            if greatest >= NOT_FINITE:
                for k in range(count):
                    copy[k] += coded[k] - coded[k]
                continue
            scale = block_scale(greatest, share, most, f, i)
            inverse = inverse_of(scale, f, i)
            step = f[0]
            for k in range(count):
                coded[k] = coded[k] * inverse + MAGIC
            if scale == most:
                for k in range(count):
                    raw[k] = min(max(raw[k] - MAGIC_BITS, -levels), levels) + MAGIC_BITS
            for k in range(count):
                copy[k] += (coded[k] - MAGIC) * step
