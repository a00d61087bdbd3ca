"""Blocks of numbers rounded to a few levels, packed and unpacked. Importing this loads numba.

Every operation is rounded by itself, as float32 has it, and the product of a level and a scale is
exact: every implementation gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.messages import BLOCK
from fedrt.system.jit import compiled

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

NOT_FINITE = 0x7F800000
"""The bits of infinity; those of what is not a number lie above."""
SMALLEST = 0x0080
"""The least normal bfloat16 in its bits: a scale below it is 0."""
MAGIC = np.float32(1.5 * 2**23)
"""Adding it rounds to a whole number, half to even, which is then in the lowest bits."""
MAGIC_BITS = 0x4B400000


@compiled(nogil=True)
def block_scale(greatest: Any, share: Any, most: int, f: Floats, i: Any) -> Any:  # pragma: no cover
    """The scale of a block in the bits of a bfloat16, from the bits of its greatest number.

    It is that number times `share`, one over the number of levels, rounded up. `f` and `i` are one
    number, seen as float32 and as its bits.
    """
    i[0] = greatest
    f[0] = f[0] * share
    found = (np.int64(i[0]) + 0xFFFF) >> 16
    if found < SMALLEST:
        return 0
    return min(found, most)


@compiled(nogil=True)
def inverse_of(scale: Any, f: Floats, i: Any) -> Any:  # pragma: no cover - compiled
    """Leave the scale with these bits in `f`; return one over it, 0 for a scale of 0."""
    i[0] = scale << 16
    return np.float32(1.0) / f[0] if scale else np.float32(0.0)


@compiled(nogil=True)
def all_finite(numbers: Floats) -> bool:  # pragma: no cover - compiled
    """Whether all numbers of a vector are finite."""
    raw = numbers.view(np.int32)
    greatest = np.int32(0)
    for k in range(len(raw)):
        greatest = max(greatest, raw[k] & np.int32(0x7FFFFFFF))
    return bool(greatest < NOT_FINITE)


@compiled(nogil=True)
def encode_blocks(
    numbers: Floats, bits: int, share: Any, most: int, scales: Any, packed: Bytes
) -> None:  # pragma: no cover - compiled
    """Fill in the scales and packed levels of a vector of finite numbers."""
    levels, size = (1 << (bits - 1)) - 1, len(numbers)
    raw = numbers.view(np.int32)
    f, codes = np.empty(1, np.float32), np.zeros(BLOCK, np.uint8)
    i, rounded = f.view(np.int32), np.empty(BLOCK, np.float32)
    rounded_raw = rounded.view(np.int32)
    for b in range(len(scales)):
        start = b * BLOCK
        count = min(BLOCK, size - start)
        greatest = np.int32(0)
        for k in range(count):
            greatest = max(greatest, raw[start + k] & np.int32(0x7FFFFFFF))
        scale = block_scale(greatest, share, most, f, i)
        scales[b] = scale
        inverse = inverse_of(scale, f, i)
        for k in range(count):
            rounded[k] = numbers[start + k] * inverse + MAGIC
        offset = np.int32(levels - MAGIC_BITS)
        if scale == most:
            for k in range(count):
                level = min(max(rounded_raw[k] - MAGIC_BITS, -levels), levels)
                rounded_raw[k] = level + MAGIC_BITS
        for k in range(count):
            codes[k] = rounded_raw[k] + offset
        codes[count:] = 0
        first = b * (BLOCK // 8) * bits
        _pack(codes, bits, packed[first : first + (count * bits + 7) // 8])


@compiled(nogil=True)
def _pack(codes: Bytes, bits: int, packed: Bytes) -> None:  # pragma: no cover - compiled
    """Pack the codes of a block: the k-th has the bits from k x `bits` on, the lowest first."""
    size = len(packed)
    if bits == 8:
        packed[:] = codes[:size]
    elif bits == 4:
        pairs = codes.view(np.uint16)
        for k in range(size):
            packed[k] = (pairs[k] | (pairs[k] >> 4)) & 0xFF
    else:
        eights = codes.view(np.uint64)
        one, two, four = np.uint64(8 - bits), np.uint64(16 - 2 * bits), np.uint64(32 - 4 * bits)
        low, mid = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
        half, byte = np.uint64(0xFFFFFFFF), np.uint64(0xFF)
        for g in range((size + bits - 1) // bits):
            w = eights[g]
            w = (w & low) | ((w & ~low) >> one)
            w = (w & mid) | ((w & ~mid) >> two)
            w = (w & half) | ((w & ~half) >> four)
            for k in range(min(bits, size - g * bits)):
                packed[g * bits + k] = (w >> np.uint64(8 * k)) & byte


@compiled(nogil=True)
def _unpack(packed: Bytes, bits: int, codes: Bytes) -> None:  # pragma: no cover - compiled
    """The codes of a block from its bytes; `codes` has room for a multiple of eight."""
    size = len(packed)
    if bits == 8:
        codes[:size] = packed
    elif bits == 4:
        pairs = codes.view(np.uint16)
        for k in range(size):
            pairs[k] = (np.uint16(packed[k]) | (np.uint16(packed[k]) << 4)) & 0x0F0F
    else:
        eights = codes.view(np.uint64)
        one, two, four = np.uint64(8 - bits), np.uint64(16 - 2 * bits), np.uint64(32 - 4 * bits)
        part = np.uint64((1 << bits) - 1)
        wide = np.uint64((1 << 4 * bits) - 1)
        mid = np.uint64((1 << 2 * bits) - 1) * np.uint64(0x0000000100000001)
        low = part * np.uint64(0x0001000100010001)
        for g in range((size + bits - 1) // bits):
            w = np.uint64(0)
            for k in range(min(bits, size - g * bits)):
                w |= np.uint64(packed[g * bits + k]) << np.uint64(8 * k)
            w = (w & wide) | ((w & ~wide) << four)
            w = (w & mid) | ((w & ~mid) << two)
            eights[g] = (w & low) | ((w & ~low) << one)


@compiled(nogil=True)
def decode_blocks(
    scales: Any, packed: Bytes, bits: int, numbers: Floats
) -> bool:  # pragma: no cover - compiled
    """Fill in the numbers of a message; false if a code stands for no level.

    Or if the bits after the last code are not 0.
    """
    levels, size, good = (1 << (bits - 1)) - 1, len(numbers), True
    f, codes = np.empty(1, np.float32), np.zeros(BLOCK, np.uint8)
    i = f.view(np.int32)
    for b in range(len(scales)):
        start = b * BLOCK
        count = min(BLOCK, size - start)
        first = b * (BLOCK // 8) * bits
        held = (count * bits + 7) // 8
        _unpack(packed[first : first + held], bits, codes)
        inverse_of(np.int64(scales[b]), f, i)
        scale, greatest = f[0], np.uint8(0)
        for k in range(count):
            greatest = max(greatest, codes[k])
            numbers[start + k] = np.float32(np.int32(codes[k]) - levels) * scale
        if greatest > 2 * levels:
            good = False
        for k in range(count, (8 * held + bits - 1) // bits):
            if codes[k] != 0:
                good = False
    return good
