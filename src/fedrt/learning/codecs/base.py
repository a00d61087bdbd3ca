"""The interface of an update codec, and how updates are sent through a user's own."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.learning.codecs.feedback import ErrorFeedback
from fedrt.messages import UNCOMPRESSED
from fedrt.scenario.entries import make_own, refuse
from fedrt.scenario.model import Learning

IntArray = NDArray[np.int64]


class Codec(Protocol):
    """Turns a device's update into a message in bytes, and a message into an update.

    The update is what training has changed in the device's parameters: a vector, the device's model
    less its edge server's. A model's buffers are sent beside it as they are.

    Two more methods may be there. `init(size)` gives the tensor that a device remembers from one
    message to the next, as a run starts, where updates have `size` numbers; without it nothing is
    remembered, and a state is None. `encode_stacked(updates, states)` does the same for many
    devices at once, one in each row: what their messages decode to, the length of each in bytes,
    and their new states. Without it messages are made device by device, on a processor.
    """

    def message_bytes(self, size: int) -> int:
        """The length of every message about an update of `size` numbers."""
        ...

    def encode(self, update: Tensor, state: Tensor | None) -> tuple[bytes, Tensor | None]:
        """The message for an update, and the device's state for its next message."""
        ...

    def decode(self, message: bytes) -> Tensor:
        """The update that the edge server reads from a message."""
        ...


class Sent(NamedTuple):
    """The models that reach the edge servers, and what their devices remember."""

    rows: Tensor
    """The models as the servers decode them, one in each row."""
    states: Tensor | None
    """What each device remembers now; None where the codec remembers nothing."""


def first_states(codec: Codec | None, devices: int, size: int, like: Tensor) -> Tensor | None:
    """The codec state of each device at the start of a run, one per row; None if it has none.

    They are kept where `like` is, those of shipped codecs in its type.
    """
    init: Any = getattr(codec, "init", None)
    if init is None:
        return None
    state = init(size)
    if not isinstance(state, Tensor):
        raise refuse(codec, "init must return a tensor")
    first = state.detach().to(like.device)
    if isinstance(codec, ErrorFeedback):
        first = first.to(like.dtype)
    if not bool(first.any()):
        return first.new_zeros((devices, *first.shape))
    return first.expand(devices, *first.shape).clone()


def send_own(
    codec: Codec, starts: Tensor, trained: Tensor, states: Tensor | None, size: int
) -> Sent:
    """Send the models of some devices through a user's codec.

    They started from the rows of `starts`; the first `size` numbers of a model are its parameters.
    A model that is not finite goes as it is, for its server to refuse: a codec need not know what
    to do with it, and its state stays.
    """
    place = torch.nonzero(trained.isfinite().all(1))[:, 0]
    if not len(place):
        return Sent(trained, states)
    own = starts[place, :size]
    mine = None if states is None else states[place]
    decoded, lengths, after = _through(codec, trained[place, :size] - own, mine)
    length = message_length(codec, size)
    if (lengths != length).any():
        found = int(lengths[lengths != length][0])
        raise refuse(
            codec, f"a message has {found} bytes: must have the {length} of message_bytes({size})"
        )
    rows = trained.clone()
    rows[place, :size] = own + decoded.to(own)
    if states is not None and after is not None:
        states = states.clone()
        states[place] = after.to(states)
    return Sent(rows, states)


def message_length(codec: Codec, size: int) -> int:
    """The length of a codec's messages, as it gives it."""
    length: Any = codec.message_bytes(size)
    if not isinstance(length, int | np.integer) or isinstance(length, bool) or length < 0:
        raise refuse(codec, f"message_bytes must return a whole number >= 0, not {length!r}")
    return int(length)


def _through(
    codec: Codec, updates: Tensor, states: Tensor | None
) -> tuple[Tensor, IntArray, Tensor | None]:
    """The decoded updates, the lengths of their messages, and the new codec states."""
    stacked: Any = getattr(codec, "encode_stacked", None)
    if stacked is not None:
        found = stacked(updates, states)
        if not isinstance(found, tuple) or len(found) != 3:
            raise refuse(codec, "encode_stacked must return (decoded, lengths, states)")
        decoded, lengths, after = found
        _check(codec, "encode_stacked", decoded, updates.shape)
        _check_state(codec, "encode_stacked", after, states)
        sizes = np.asarray(torch.as_tensor(lengths).cpu(), dtype=np.int64)
        if sizes.shape != (len(updates),):
            raise refuse(codec, "encode_stacked must return a length for each device")
        return decoded, sizes, after
    before = None if states is None else states.cpu()
    each = [
        _one_message(codec, update, None if before is None else before[n].clone())
        for n, update in enumerate(updates.cpu())
    ]
    decoded = torch.stack([update.to(updates.dtype) for update, _, _ in each])
    lengths = np.array([length for _, length, _ in each])
    after = None if states is None else torch.stack([state for _, _, state in each])
    return decoded.to(updates.device), lengths, after


def encode_checked(
    codec: Codec, update: Tensor, state: Tensor | None
) -> tuple[bytes, Tensor | None]:
    """A user's message for an update, and the new state; an error if either is something else."""
    found: Any = codec.encode(update, state)
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], bytes):
        raise refuse(codec, "encode must return (bytes, state)")
    message, after = found
    _check_state(codec, "encode", after, state)
    return message, after


def _one_message(codec: Codec, update: Tensor, state: Tensor | None) -> tuple[Tensor, int, Any]:
    message, after = encode_checked(codec, update, state)
    decoded: Any = codec.decode(message)
    _check(codec, "decode", decoded, update.shape)
    return decoded, len(message), after


def _check(codec: Codec, method: str, found: Any, shape: torch.Size) -> None:
    if not isinstance(found, Tensor) or found.shape != shape:
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise refuse(codec, f"{method} must give updates of shape {tuple(shape)}, not {got}")


def _check_state(codec: Codec, method: str, found: Any, given: Tensor | None) -> None:
    good = found is None if given is None else isinstance(found, Tensor)
    if not good or (given is not None and found.shape != given.shape):
        rule = "None, as there is no init" if given is None else "a tensor shaped as it came"
        raise refuse(codec, f"{method} must return as state {rule}")


def make_codec(learning: Learning) -> Codec | None:
    """The codec that a scenario names, None for none; a user's own gets its options."""
    choice = learning.codec
    if choice == UNCOMPRESSED:
        return None
    if isinstance(choice, str):
        return ErrorFeedback(choice, learning.top_k)
    made: Codec = make_own(choice, learning.codec_setting, ("encode", "decode", "message_bytes"))
    return made
