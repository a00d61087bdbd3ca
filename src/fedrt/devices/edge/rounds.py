"""An edge round on an edge server: who was ordered what, and what has come back."""

from __future__ import annotations

import asyncio
import struct
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedrt.devices.wire.messages_pb2 import Key, TrainOrder, Upload
from fedrt.messages import Raw

if TYPE_CHECKING:
    from fedrt.learning.remote import LocalOrder

MOST_FAILURES = 3
"""How often a device may fail in one edge round before it is taken for broken, or worse."""
HEAD = struct.Struct("<IId")


@dataclass(frozen=True)
class ReceivedUpdate:
    """A device's update as it came in."""

    upload: Upload
    message: Raw
    variate: Raw
    upload_s: float
    at_s: float = 0.0
    """Seconds after the edge round began."""

    def packed(self) -> bytes:
        """The update as bytes, to be kept until it has been averaged."""
        head = self.upload.SerializeToString()
        return (
            HEAD.pack(len(head), len(self.message), self.upload_s)
            + head
            + self.message
            + self.variate
        )

    @staticmethod
    def unpacked(kept: bytes) -> ReceivedUpdate:
        """An update that was kept."""
        sizes = HEAD.unpack_from(kept)
        start = HEAD.size + sizes[0]
        head, message = kept[HEAD.size : start], kept[start : start + sizes[1]]
        return ReceivedUpdate(Upload.FromString(head), message, kept[start + sizes[1] :], sizes[2])


@dataclass
class OpenRound:
    """An edge round that devices are at."""

    order: TrainOrder
    locals: dict[int, LocalOrder]
    """For each device, by its number, what it is to do."""
    model: bytes
    remembered: dict[int, str]
    """For each device, the label of its last update that counted."""
    updates: dict[int, ReceivedUpdate] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    """For each device that cannot deliver, why."""
    receiving: defaultdict[int, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )
    tries: Counter[int] = field(default_factory=Counter)
    shape_s: float = 0.0
    """What it took to hold the uploads of devices to their rates."""
    began: float = field(default_factory=time.monotonic)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False

    @property
    def key(self) -> Key:
        return self.order.key

    def awaits(self, number: int) -> bool:
        """Whether a device has still to send its update."""
        return not self.closed and number in self.locals and number not in self.updates

    def add(self, number: int, update: ReceivedUpdate) -> None:
        """Count an update in; only the first of a device does."""
        self.updates.setdefault(number, update)
        self.failures.pop(number, None)
        self._look()

    def fail(self, number: int, why: str) -> bool:
        """Note why a device cannot deliver; whether it has not done so too often.

        The round does not wait for it any longer, but would still count its update.
        """
        self.failures[number] = why
        self.tries[number] += 1
        self._look()
        return self.tries[number] <= MOST_FAILURES

    def _look(self) -> None:
        if len(self.updates.keys() | self.failures.keys()) == len(self.locals):
            self.complete.set()
