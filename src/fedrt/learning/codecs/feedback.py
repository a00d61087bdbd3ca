"""Error feedback: what a message leaves out of an update is added to the device's next one.

With the update u and what was left before, e, a device sends the message of v = u + e and keeps
v less what its message decodes to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from fedrt.learning.codecs.formats import Format, UserFormat
from fedrt.messages import UPLOADS, message_bytes


def make_format(name: str, share: float | None = None) -> Format:
    """The message format of a codec; `share` is that of `top-k`. One with a colon is a user's."""
    form: Format = UserFormat(name) if ":" in name else UPLOADS[name].load()(name, share)
    return form


class ErrorFeedback:
    """A shipped update codec; a device's state is what it has yet to send.

    Training sends stacked updates (`learning.engines.sending`), to the same bits as `encode`.
    """

    def __init__(self, name: str, share: float | None = None) -> None:
        self.name, self.share = name, share
        self.format = make_format(name, share)

    def init(self, size: int) -> Tensor:
        """Nothing is left to send as a run starts."""
        return torch.zeros(size)

    def message_bytes(self, size: int) -> int:
        """The length of every message about an update of `size` numbers."""
        return message_bytes(self.name, size, self.share)

    def encode(self, update: Tensor, state: Tensor | None) -> tuple[bytes, Tensor | None]:
        """The message for an update, and what it leaves."""
        whole = update if state is None else update + state
        message = self.format.encode(whole)
        return message, whole - self.decode(message).to(whole)

    def decode(self, message: bytes) -> Tensor:
        """The update that the edge server reads from a message."""
        return self.format.decode(message)

    def __repr__(self) -> str:
        return repr(self.format)


class Received(NamedTuple):
    """What edge servers decode, and what devices have yet to send; one device in each row."""

    models: Tensor
    """The parameters of the models as the servers have them."""
    left: Tensor
    squares: Tensor
    """2 x devices: the squared norms of the updates, and of what is left."""


def receive(
    decoded_of: Callable[[Tensor], Tensor], starts: Tensor, trained: Tensor, states: Tensor
) -> Received:
    """Send what devices trained from `starts`, where `decoded_of` codes finite rows.

    A device whose update is not finite keeps its state, and its model is not finite either: its
    server refuses it.
    """
    updates = trained - starts
    whole = updates + states
    fine = whole.isfinite().all(1, keepdim=True)
    decoded = decoded_of(torch.where(fine, whole, 0.0))
    left = torch.where(fine, whole - decoded, states)
    models = torch.where(fine, starts + decoded, trained + (whole - whole))
    squares = torch.stack([updates.square().sum(1), left.square().sum(1)])
    return Received(models, left, squares)
