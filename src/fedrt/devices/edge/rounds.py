"""An edge round on an edge server: who was ordered what, and what has come back."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedrt.devices.edge.drafts import ReceivedUpdate
from fedrt.devices.wire.messages_pb2 import DeviceReport, Key, TrainOrder, TrainReport
from fedrt.errors import FedrtError
from fedrt.rounds import ACCEPTED, NOT_STEPPED

if TYPE_CHECKING:
    from fedrt.learning.remote import LocalOrder
    from fedrt.learning.remote.orders import Averaged

MOST_FAILURES = 3
"""How often a device may fail in one edge round before it is taken for broken, or worse."""


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
    refused: dict[int, int] = field(default_factory=dict)
    """For each of these whose update was refused as it came, a place in `rounds.REASONS`."""
    receiving: defaultdict[int, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )
    tries: Counter[int] = field(default_factory=Counter)
    shape_s: float = 0.0
    """What it took to hold the uploads of devices to their rates."""
    began: float = field(default_factory=time.monotonic)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False
    lost: FedrtError | None = None
    """Why the round cannot go on here."""

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
        self.refused.pop(number, None)
        self._look()

    def fail(self, number: int, why: str) -> bool:
        """Note why a device cannot deliver; whether it has not done so too often.

        The round does not wait for it any longer, but would still count its update.
        """
        self.failures[number] = why
        self.tries[number] += 1
        self._look()
        return self.tries[number] <= MOST_FAILURES

    def lose(self, why: FedrtError) -> None:
        """End the round: what was acknowledged is on disk, and the order may be given again."""
        self.lost = why
        self.complete.set()

    def _look(self) -> None:
        if len(self.updates.keys() | self.failures.keys()) == len(self.locals):
            self.complete.set()

    def report(self, averaged: Averaged) -> TrainReport:
        """What came of the round, for the coordinator."""
        updates, came = self.updates, averaged.devices.tolist()
        last_s = max((update.at_s for update in updates.values()), default=0.0)
        slowest_s = max((each.upload.report.enforce_s for each in updates.values()), default=0.0)
        report = TrainReport(edge_s=time.monotonic() - self.began, delivered_s=last_s)
        report.enforce_s = self.shape_s + slowest_s
        for each in self.order.devices:
            update = updates.get(each.number)
            found = DeviceReport(
                number=each.number, refused=ACCEPTED, stepped_up=NOT_STEPPED, delivered=False
            )
            if update is None:
                found.refused = self.refused.get(each.number, ACCEPTED)
                found.why = self.failures.get(each.number, "no update by the deadline")
            else:
                place = came.index(each.number)
                found.delivered, found.upload_s = True, update.upload_s
                found.report.CopyFrom(update.upload.report)
                found.upload_bytes = update.length
                found.refused = int(averaged.refused[place])
                if averaged.stepped_up is not None:
                    found.stepped_up = int(averaged.stepped_up[place])
            report.devices.append(found)
        return report
