"""The file of a record: many small arrays as one, compressed.

An npz file takes some 300 bytes for the name and the head of each array, and a record of few
devices has eighty arrays of a few numbers. Records of many devices stay npz files of named arrays,
for compressing numbers takes long and saves little; both are read.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

COMPACT = "record"
"""The array that stands for all others."""
MOST_BYTES = 2**20
"""Numbers of a record that are put into one array."""
MOST_HEAD = 2**20
HEAD = struct.Struct("<I")
KINDS = "biufU"
"""The kinds of arrays that a record may have: booleans, numbers and texts."""


def compact(arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The arrays of a record as its file has them."""
    if sum(array.nbytes for array in arrays.values()) > MOST_BYTES:
        return dict(arrays)
    table = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
    head = json.dumps(table, separators=(",", ":")).encode()
    body = b"".join(array.tobytes() for array in arrays.values())
    raw = zlib.compress(HEAD.pack(len(head)) + head + body, 9)
    return {COMPACT: np.frombuffer(raw, dtype=np.uint8)}


def expanded(arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The arrays of a record from those of its file; a ValueError if they are damaged."""
    if set(arrays) != {COMPACT}:
        return dict(arrays)
    packed = zlib.decompressobj()
    most = HEAD.size + MOST_HEAD + MOST_BYTES
    try:
        raw = packed.decompress(arrays[COMPACT].tobytes(), most)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not packed.eof or len(raw) < HEAD.size:
        raise ValueError("it ends too early, or is too long")
    (length,) = HEAD.unpack_from(raw)
    table = json.loads(raw[HEAD.size : HEAD.size + length])
    if not isinstance(table, dict):
        raise ValueError("its arrays have no names")
    return dict(_taken(table, memoryview(raw)[HEAD.size + length :]))


def _taken(table: Mapping[str, Any], body: memoryview) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, (kind, shape) in table.items():
        dtype = np.dtype(str(kind))
        if dtype.kind not in KINDS or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"its {name} is no array of numbers")
        size = dtype.itemsize * int(np.prod(shape, dtype=object))
        if size > len(body):
            raise ValueError("it has fewer numbers than it announces")
        yield name, np.frombuffer(body[:size], dtype=dtype).reshape(shape).copy()
        body = body[size:]
    if body:
        raise ValueError("it has more numbers than it announces")
