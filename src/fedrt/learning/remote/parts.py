"""The model, the method and the bytes that all parties of a run have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.errors import InputError, MessageError
from fedrt.learning.codecs import ErrorFeedback, Format, make_format, message_length
from fedrt.learning.engines.method import Method, make_method
from fedrt.learning.engines.sending import BUFFER_BYTES
from fedrt.learning.material import DTYPES, few_threads
from fedrt.learning.models.architectures import model_for
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.notes import refuse_other_lengths
from fedrt.learning.remote.orders import ModelInputs
from fedrt.messages import UPLOADS, Raw, message_bytes
from fedrt.scenario.model import Scenario
from fedrt.validation import shown


@dataclass(frozen=True)
class CommonParts:
    """The model of a scenario under a seed, and how it travels."""

    scenario: Scenario
    seed: int
    inputs: ModelInputs
    model: FlatModel
    method: Method
    first_model: Tensor

    @property
    def size(self) -> int:
        """The number of parameters; a model's other numbers are buffers."""
        return self.model.num_parameters

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of a model's numbers in bytes: little-endian."""
        return np.dtype("<f8" if self.first_model.dtype == torch.float64 else "<f4")

    @property
    def model_bytes(self) -> int:
        """The length of a whole model."""
        return self.model.size * self.dtype.itemsize

    @property
    def digest(self) -> str:
        """A digest of the architecture: names, kinds and shapes of all that a model holds."""
        held = [(place.name, place.kind, tuple(place.shape)) for place in self.model.layout]
        return sha256(repr((self.dtype.str, held)).encode()).hexdigest()[:32]

    def pack(self, numbers: Tensor | NDArray[Any]) -> bytes:
        """The bytes of a model or of a part of one."""
        found = numbers.cpu().numpy() if isinstance(numbers, Tensor) else numbers
        return found.astype(self.dtype, copy=False).tobytes()

    def unpack(self, raw: Raw, what: str, size: int | None = None) -> Tensor:
        """The numbers in bytes that somebody sent; an error if they are not finite or too many."""
        size = self.model.size if size is None else size
        return read_numbers(raw, what, size, self.dtype).to(self.first_model.dtype)

    def upload_bytes(self, codec: str | None) -> int:
        """The length of a device's message under a codec; None: the scenario's own."""
        own, buffers = self.method.codec, BUFFER_BYTES * (self.model.size - self.size)
        if codec is not None:
            return message_bytes(self._known(codec), self.size, self.share) + buffers
        return self.model_bytes if own is None else message_length(own, self.size) + buffers

    @property
    def share(self) -> float | None:
        """The share of numbers that `top-k` sends; None: its own."""
        codec = self.method.codec
        return codec.share if isinstance(codec, ErrorFeedback) else None

    def join(self, update: bytes, state: Tensor) -> bytes:
        """A device's message: that of its update, and the buffers beside it."""
        return update + state[self.size :].cpu().numpy().astype("<f4", copy=False).tobytes()

    def received(self, message: Raw, codec: str | None, start: Tensor) -> Tensor:
        """The model that a message stands for, where the device started from `start`.

        An error names what is wrong with a message that no device sends.
        """
        length = self.upload_bytes(codec)
        if len(message) != length:
            raise MessageError(f"message: has {len(message)} bytes: must have {length}")
        if codec is None and self.method.codec is None:
            return self.unpack(message, "message")
        cut = length - BUFFER_BYTES * (self.model.size - self.size)
        update = self._decoded(bytes(message[:cut]), codec)
        found = torch.empty_like(start)
        found[: self.size] = start[: self.size] + update.to(start)
        what, buffers = "message: its buffers", self.model.size - self.size
        found[self.size :] = read_numbers(message[cut:], what, buffers, np.dtype("<f4"))
        if not bool(found.isfinite().all()):
            raise MessageError("message: the model that it makes is not finite")
        return found

    def format_of(self, codec: str) -> Format:
        """The format of messages that a codec writes."""
        return make_format(self._known(codec), self.share)

    def _known(self, codec: str) -> str:
        """The name of a codec; an error if it is a user's that the scenario does not name."""
        if codec not in UPLOADS and codec not in (self.scenario.control.codecs or ()):
            raise MessageError(f"codec {shown(codec)}: must be one of the scenario's")
        return codec

    def _decoded(self, message: bytes, codec: str | None) -> Tensor:
        own = self.method.codec
        if codec is not None:
            return self.format_of(codec).decode(message, self.size)
        if isinstance(own, ErrorFeedback):
            return own.format.decode(message, self.size)
        assert own is not None
        try:
            found: Any = own.decode(message)
        except Exception as error:
            raise MessageError(f"message: the codec cannot decode it: {error}") from None
        if not isinstance(found, Tensor) or found.shape != (self.size,):
            raise MessageError(f"message: does not decode to {self.size} numbers")
        return found


@contextmanager
def some_threads(count: int) -> Iterator[None]:
    """Let torch use so many threads of the processor in the block, or in a function."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread in the block, or in a function.

    To code, check and average models is to read and write each number once or twice: threads that
    wait for each other cost more than they bring, most of all where others want the processor. No
    number of a model depends on how many there are.
    """
    with some_threads(1):
        yield


def read_numbers(raw: Raw, what: str, size: int, dtype: np.dtype[Any]) -> Tensor:
    """So many finite numbers from bytes; an error if they are anything else."""
    if len(raw) != size * dtype.itemsize:
        rule = f"{size * dtype.itemsize}, for {size} numbers"
        raise MessageError(f"{what}: has {len(raw)} bytes: must have {rule}")
    found = np.frombuffer(raw, dtype=dtype)
    if not np.isfinite(found).all():
        raise MessageError(f"{what}: has a number that is not finite")
    return torch.from_numpy(found.astype(dtype.newbyteorder("=")))


DRAWING = Lock()
"""Held while a party draws from torch's own random numbers: others in the process do as well."""


def open_parts(scenario: Scenario, seed: int, inputs: ModelInputs) -> CommonParts:
    """The model and the method of a scenario under a seed."""
    if inputs.problem is not None:
        raise InputError(inputs.problem)
    learning = scenario.learning
    dtype = DTYPES[learning.dtype]
    with DRAWING:
        module = model_for(learning, inputs.shape, inputs.num_classes, seed, inputs.integers)
    model = FlatModel(module, dtype, torch.device("cpu"))
    if not isinstance(learning.model_bits, str):
        refuse_other_lengths(learning, learning.model_bits, model)
    few_threads(model)
    return CommonParts(scenario, seed, inputs, model, make_method(scenario), model.state())
