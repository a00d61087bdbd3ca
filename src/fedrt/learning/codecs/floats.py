"""The codecs `float32` and `float16`: every number in the given type; and numbers without a codec.

What float16 cannot hold becomes its greatest number.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedrt.errors import MessageError
from fedrt.learning.codecs.formats import as_float32, vector_of
from fedrt.learning.codecs.wire import refuse_body, seal, unseal
from fedrt.messages import UPLOADS, VALUE_BYTES

MOST_HALF = float(torch.finfo(torch.float16).max)


class Floats:
    """Numbers as they are, in 4 or 2 bytes each, little-endian."""

    share = None

    def __init__(self, name: str, share: float | None = None) -> None:
        self.name, self.half = name, UPLOADS[name].bits == 16

    def encode(self, numbers: Tensor) -> bytes:
        """The message of a vector."""
        vector = vector_of(numbers, self.name)
        if self.half:
            vector = vector.clip(-MOST_HALF, MOST_HALF)
        body = vector.astype("<f2" if self.half else "<f4", copy=False)
        return seal(self.name, len(vector), body)

    def decode(self, message: bytes, numbers: int | None = None) -> Tensor:
        """The vector that a message stands for."""
        count, body = unseal(message, self.name, numbers)
        found = np.frombuffer(body, dtype="<f2" if self.half else "<f4", count=count)
        if not np.isfinite(found).all():
            raise refuse_body(self.name, "has a number that is not finite")
        return torch.from_numpy(found.astype(np.float32))

    def decoded(self, rows: Tensor) -> Tensor:
        """What the messages of many vectors decode to, one in each row."""
        found = as_float32(rows)
        if self.half:
            found = found.clamp(-MOST_HALF, MOST_HALF).half()
        return found.to(rows.dtype)

    def __repr__(self) -> str:
        return self.name


class Uncompressed(Floats):
    """The numbers alone, 4 bytes each, where any codec's message would be longer."""

    def encode(self, numbers: Tensor) -> bytes:
        """The message of a vector."""
        return vector_of(numbers, self.name).astype("<f4", copy=False).tobytes()

    def decode(self, message: bytes, numbers: int | None = None) -> Tensor:
        """The vector that a message stands for."""
        count = len(message) // VALUE_BYTES if numbers is None else numbers
        if len(message) != VALUE_BYTES * count:
            rule = f"{VALUE_BYTES * count} for {count} numbers"
            raise MessageError(f"message without a codec: has {len(message)} bytes: must be {rule}")
        found = np.frombuffer(message, dtype="<f4")
        if not np.isfinite(found).all():
            raise refuse_body(self.name, "has a number that is not finite")
        return torch.from_numpy(found.astype(np.float32))
