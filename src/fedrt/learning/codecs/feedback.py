"""Error feedback: what a message leaves out of an update is added to the device's next one.

With the update u and what was left before, e, a device sends the message of v = u + e and keeps
v less what its message decodes to.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedrt.learning.codecs.formats import Format
from fedrt.messages import message_bytes


class ErrorFeedback:
    """The update codec of a message format; a device's state is what it has yet to send."""

    def __init__(self, format_: Format) -> None:
        self.format = format_

    def init(self, size: int) -> Tensor:
        """Nothing is left to send as a run starts."""
        return torch.zeros(size)

    def encode(self, update: Tensor, state: Tensor | None) -> tuple[bytes, Tensor | None]:
        """The message for an update, and what it leaves."""
        whole = update if state is None else update + state.to(update)
        message = self.format.encode(whole)
        return message, whole - self.decode(message).to(whole)

    def decode(self, message: bytes) -> Tensor:
        """The update that the edge server reads from a message."""
        return self.format.decode(message)

    def message_bytes(self, size: int) -> int:
        """The length of a message about an update with `size` numbers."""
        return message_bytes(self.format.name, size, self.format.share)

    def encode_stacked(
        self, updates: Tensor, states: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same for many devices, one in each row: decoded updates, lengths, states."""
        whole = updates if states is None else updates + states.to(updates)
        decoded = self.format.decoded(whole)
        lengths = torch.full((len(updates),), self.message_bytes(updates.shape[1]))
        return decoded, lengths, whole - decoded

    def __repr__(self) -> str:
        return repr(self.format)
