"""The interface of a message format: how a vector of numbers is written as bytes."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.errors import InputError, MessageError
from fedrt.messages import user_codec
from fedrt.system.plugins import own_code

MOST = float(torch.finfo(torch.float32).max)


class Format(Protocol):
    """Writes vectors as messages and reads them; `messages.message_bytes` has the lengths."""

    @property
    def name(self) -> str:
        """The name of the codec, one of `messages.CODECS`, or a user's import path."""
        ...

    @property
    def share(self) -> float | None:
        """The share of the numbers that a message has; None where it has all of them."""
        ...

    def encode(self, numbers: Tensor) -> bytes:
        """The message of a vector; an error if a number is not finite."""
        ...

    def decode(self, message: bytes, numbers: int | None = None) -> Tensor:
        """The vector, in float32, that a message stands for.

        An error names what is wrong with a message that no sender writes, or that does not have
        the given number of numbers.
        """
        ...

    def decoded(self, rows: Tensor) -> Tensor:
        """What the messages of many vectors decode to, one in each row, without making them.

        The same numbers to the bit, in the type and on the device of the rows, which are finite.
        """
        ...


class UserFormat:
    """The messages of a user's codec that a policy may choose (`messages.user_codec`)."""

    share = None

    def __init__(self, name: str) -> None:
        self.name, self.codec = name, user_codec(name)
        self.text = f"scenario.control.codecs = {name!r}"

    def encode(self, numbers: Tensor) -> bytes:
        """The message of a vector; an error if it is not as long as the codec says."""
        with own_code(self.text):
            found: Any = self.codec.encode(numbers.cpu(), None)
            length = int(self.codec.message_bytes(len(numbers)))
        message = found[0] if isinstance(found, tuple) and len(found) == 2 else None
        if not isinstance(message, bytes):
            raise InputError(f"{self.text}: encode must return (bytes, state)")
        if len(message) != length:
            rule = f"must have the {length} of message_bytes({len(numbers)})"
            raise InputError(f"{self.text}: a message has {len(message)} bytes: {rule}")
        return message

    def decode(self, message: bytes, numbers: int | None = None) -> Tensor:
        """The vector that a message stands for."""
        try:
            found: Any = self.codec.decode(message)
        except Exception as error:
            raise MessageError(f"message: the codec cannot decode it: {error}") from None
        if not isinstance(found, Tensor) or numbers not in (None, len(found)) or found.ndim != 1:
            raise MessageError(f"message: does not decode to {numbers} numbers")
        return found.float()

    def decoded(self, rows: Tensor) -> Tensor:
        """What the messages of many vectors decode to, one in each row."""
        size = rows.shape[1]
        found = [self.decode(self.encode(row), size) for row in as_float32(rows)]
        return torch.stack(found).to(rows)

    def __repr__(self) -> str:
        return self.name


def as_float32(numbers: Tensor) -> Tensor:
    """The numbers in float32; what is finite stays so."""
    if numbers.dtype == torch.float32:
        return numbers
    return numbers.clamp(-MOST, MOST).float()


def vector_of(numbers: Tensor, codec: str) -> NDArray[np.float32]:
    """A vector as an array of float32; an error if it is no vector of finite numbers."""
    from fedrt.learning.codecs.blocks_kernel import all_finite

    if numbers.ndim != 1:
        raise MessageError(f"message of {codec}: of shape {tuple(numbers.shape)}: must be a vector")
    found: NDArray[np.float32] = numbers.detach().cpu().contiguous().numpy()
    if found.dtype != np.float32 and np.isfinite(found).all():
        found = as_float32(torch.from_numpy(found)).numpy()
    if found.dtype != np.float32 or not all_finite(found):
        raise MessageError(f"message of {codec}: not all numbers are finite: they must be")
    return found
