"""The codecs `int8` to `int2`: blocks of numbers rounded to a few levels of the greatest.

A block of 256 numbers has a scale, and each of its numbers becomes the nearest of the whole levels
-L to L, half to even: L is 7 under `int4`. The scale is the greatest absolute number over L,
rounded up to bfloat16, so that nothing is clipped. docs/codecs.md has the bytes.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedrt.learning.codecs.formats import MOST, as_float32, vector_of
from fedrt.learning.codecs.wire import refuse_body, seal, unseal
from fedrt.messages import BLOCK, CODECS, SCALE_BYTES, levels

SMALLEST = 0x0080
"""The least normal bfloat16 in its bits: a scale below it is 0."""
LARGEST = 0x7E00
"""The bits of 2 ** 125: no scale is greater, so that one over it is a normal number."""


class Grid(NamedTuple):
    """The levels of a codec, and what its scales are made with."""

    levels: int
    share: float
    """One over the number of levels, in float32."""
    most: int
    """The greatest scale in the bits of a bfloat16: its levels do not overflow."""


def grid_of(codec: str) -> Grid:
    """The levels of a codec."""
    count = levels(codec)
    over = int(np.float32(MOST / count).view(np.uint32)) >> 16
    # Rounded down: so many levels of the greatest scale are still a number.
    return Grid(count, float(np.float32(1 / count)), min(over, LARGEST))


GRIDS = {name: grid_of(name) for name, codec in CODECS.items() if codec.blocks}


class Blocks:
    """Numbers in blocks, with a few bits each."""

    share = None

    def __init__(self, name: str, share: float | None = None) -> None:
        bits = CODECS[name].bits
        assert bits is not None
        self.name, self.bits, self.grid = name, bits, GRIDS[name]

    def encode(self, numbers: Tensor) -> bytes:
        """The message of a vector."""
        from fedrt.learning.codecs.blocks_kernel import encode_blocks

        vector = vector_of(numbers, self.name)
        scales = np.empty(-(-len(vector) // BLOCK), dtype=np.uint16)
        packed = np.empty(-(-self.bits * len(vector) // 8), dtype=np.uint8)
        share = np.float32(self.grid.share)
        encode_blocks(vector, self.bits, share, self.grid.most, scales, packed)
        return seal(self.name, len(vector), scales.astype("<u2", copy=False), packed)

    def decode(self, message: bytes, numbers: int | None = None) -> Tensor:
        """The vector that a message stands for."""
        from fedrt.learning.codecs.blocks_kernel import decode_blocks

        count, body = unseal(message, self.name, numbers)
        border = SCALE_BYTES * -(-count // BLOCK)
        scales = np.frombuffer(body[:border], dtype="<u2").astype(np.uint16)
        packed = np.frombuffer(body[border:], dtype=np.uint8)
        if ((scales != 0) & ((scales < SMALLEST) | (scales > self.grid.most))).any():
            raise refuse_body(self.name, "has a scale that is no finite number >= 0 in its range")
        found = np.empty(count, dtype=np.float32)
        if not decode_blocks(scales, packed, self.bits, found):
            raise refuse_body(self.name, "has a code that stands for no level")
        return torch.from_numpy(found)

    def decoded(self, rows: Tensor) -> Tensor:
        """What the messages of many vectors decode to, one in each row."""
        levels = grid_rows((self.name,) * len(rows), rows.device)
        return rounded(as_float32(rows), *levels).to(rows.dtype)

    def __repr__(self) -> str:
        return self.name


@lru_cache(maxsize=256)
def grid_rows(names: tuple[str, ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The levels, shares and greatest scales of the codecs of all rows, as columns.

    Remembered: to bring them to a GPU is to wait for it.
    """
    count, share, most = zip(*(GRIDS[name] for name in names), strict=True) if names else [()] * 3
    return (
        torch.tensor(count, dtype=torch.float32, device=device)[:, None],
        torch.tensor(share, dtype=torch.float32, device=device)[:, None],
        torch.tensor(most, dtype=torch.int32, device=device)[:, None],
    )


def rounded(rows: Tensor, count: Tensor, share: Tensor, most: Tensor) -> Tensor:
    """Finite rows of float32 rounded to levels, in which rows may differ."""
    size = rows.shape[1]
    padded = torch.nn.functional.pad(rows, (0, -size % BLOCK))
    blocks = padded.view(len(rows), -1, BLOCK)
    return levels_of(blocks, blocks.abs().amax(2), count, share, most).flatten(1)[:, :size]


def levels_of(
    blocks: Tensor, greatest: Tensor, count: Tensor, share: Tensor, most: Tensor
) -> Tensor:
    """Blocks rounded to the levels of their scales, from their greatest absolute numbers.

    Only sums and products, each correctly rounded wherever it is computed: one over a scale comes
    from a table, as compiled divisions may be approximate. The products of a level and a scale are
    exact, so that it does not matter whether a compiler joins them with a sum.
    """
    bits = ((greatest * share).view(torch.int32) + 0xFFFF) >> 16
    bits = torch.minimum(torch.where(bits < SMALLEST, 0, bits), most)
    scale = (bits << 16).view(torch.float32)
    # A scale is (1 + m / 128) x 2 ** (e - 127), with m in its lowest seven bits and e above.
    power = ((254 - (bits >> 7)) << 23).view(torch.float32)
    inverse = torch.where(bits > 0, power * inverses(blocks.device)[bits & 127], 0.0)
    level = (blocks * inverse[..., None]).round().clamp(-count[..., None], count[..., None])
    return level * scale[..., None]


@cache
def inverses(device: torch.device) -> Tensor:
    """One over 1 + m / 128 in float32, for m from 0 to 127."""
    table = np.float32(1) / (np.float32(1) + np.arange(128, dtype=np.float32) / np.float32(128))
    return torch.from_numpy(table).to(device)


def receive_blocks(
    models: Tensor,
    edge: Tensor,
    trained: Tensor,
    states: Tensor,
    count: Tensor,
    share: Tensor,
    most: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """What servers decode of models that devices trained in float32, and what these have left.

    Device n started from the row edge[n] of `models`. The third tensor has the squared norms of
    the updates and of what is left. One function of tensors, to be compiled as a whole: a block of
    numbers is read and written once. Nothing is written in place, which a compiler may get wrong
    for the last block of a row.
    """
    rows, size = trained.shape
    lacking = -size % BLOCK

    def in_blocks(found: Tensor) -> Tensor:
        return torch.nn.functional.pad(found, (0, lacking)).view(rows, -1, BLOCK)

    mine, starts, before = in_blocks(trained), in_blocks(models[edge]), in_blocks(states)
    updates = mine - starts
    whole = updates + before
    greatest = whole.abs().amax(2)
    fine = (greatest < torch.inf)[..., None]
    decoded = levels_of(whole, greatest, count, share, most)
    left = torch.where(fine, whole - decoded, before)
    received = torch.where(fine, starts + decoded, mine + (whole - whole))
    squares = torch.stack([updates.square().sum(2).sum(1), left.square().sum(2).sum(1)])
    return received.view(rows, -1)[:, :size], left.view(rows, -1)[:, :size], squares
