"""The codec `top-k`: the numbers that are greatest in absolute value, each with its place.

Of equal numbers those that come first are sent. Places rise; a place has 4 bytes, a value 4 of
float32.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedrt.learning.codecs.formats import as_float32, vector_of
from fedrt.learning.codecs.wire import refuse_body, seal, unseal
from fedrt.messages import TOP_K, numbers_sent


class TopK:
    """The greatest numbers alone; all others count as 0."""

    def __init__(self, name: str, share: float | None = None) -> None:
        self.name, self.share = name, TOP_K if share is None else share

    def encode(self, numbers: Tensor) -> bytes:
        """The message of a vector."""
        vector = vector_of(numbers, self.name)
        kept = np.flatnonzero(greatest(torch.from_numpy(vector)[None], self.share)[0].numpy())
        return seal(self.name, len(vector), kept.astype("<u4"), vector[kept].astype("<f4"))

    def decode(self, message: bytes, numbers: int | None = None) -> Tensor:
        """The vector that a message stands for."""
        count, body = unseal(message, self.name, numbers, self.share)
        sent = numbers_sent(count, self.share)
        places = np.frombuffer(body, dtype="<u4", count=sent).astype(np.int64)
        values = np.frombuffer(body, dtype="<f4", offset=4 * sent, count=sent)
        if (np.diff(places) <= 0).any():
            raise refuse_body(self.name, "has places that do not rise")
        if sent and places[-1] >= count:
            raise refuse_body(self.name, f"has place {places[-1]}: must be below {count}")
        if not np.isfinite(values).all():
            raise refuse_body(self.name, "has a number that is not finite")
        found = np.zeros(count, dtype=np.float32)
        found[places] = values
        return torch.from_numpy(found)

    def decoded(self, rows: Tensor) -> Tensor:
        """What the messages of many vectors decode to, one in each row."""
        found = as_float32(rows)
        return torch.where(greatest(found, self.share), found, 0.0).to(rows.dtype)

    def __repr__(self) -> str:
        return f"{self.name} {self.share}"


def greatest(rows: Tensor, share: float) -> Tensor:
    """Which numbers of each row are sent."""
    size = rows.abs()
    sent = numbers_sent(rows.shape[1], share)
    if not sent:
        return torch.zeros_like(size, dtype=torch.bool)
    # Which of equal numbers a library's search finds is its own affair: only the border is used.
    if size.device.type == "cpu":
        place = size.shape[1] - sent
        border = torch.from_numpy(np.partition(size.numpy(), place, axis=1)[:, place : place + 1])
    else:
        border = size.topk(sent, dim=1, sorted=True).values[:, -1:]
    above, equal = size > border, size == border
    left = sent - above.sum(1, keepdim=True)
    return above | (equal & (equal.cumsum(1) <= left))
