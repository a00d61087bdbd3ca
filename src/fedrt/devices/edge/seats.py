"""Connected devices: each has a seat, over which orders go out and updates come in."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import grpc

from fedrt.devices.actuators.base import UplinkShare
from fedrt.devices.actuators.tc import address_of
from fedrt.devices.edge.drafts import UpdateDraft
from fedrt.devices.edge.rounds import OpenRound
from fedrt.devices.security.gate import UnreadableMessageError
from fedrt.devices.wire.chunks import BrokenPayloadError, chunks_of, digested, head_of
from fedrt.devices.wire.messages_pb2 import FromDevice, Key, Order, Receipt, ToDevice, Upload
from fedrt.devices.wire.raw import IN_STREAM, raw_chunk
from fedrt.errors import FedrtError
from fedrt.messages import Raw

GREETING_S = 20.0
"""Within which a device that connects has to say who it is."""
CHUNK_S = 120.0
"""Within which the next chunk of an upload has to come."""


DRAIN_S, DRAINED = 0.1, 1000
"""How long, and how many messages, are read of a device that is sent away."""


def ignore(_chunk: Raw) -> None:
    """Keep nothing of an update that does not count."""


class GoneError(FedrtError):
    """A device has gone away."""


class Seat:
    """A connected device."""

    def __init__(self, number: int, context: Any, samples: int) -> None:
        self.number, self.context, self.samples = number, context, samples
        self.writing = asyncio.Lock()
        self.address = address_of(context.peer())
        self.since = time.monotonic()

    async def order(self, round_: OpenRound) -> None:
        """Send the device its order, with the model."""
        local = round_.locals[self.number]
        planned = {each.number: each for each in round_.order.devices}[self.number]
        correction = local.correction or b""
        head = Order(
            key=round_.key,
            label=round_.order.label,
            remember=round_.remembered.get(self.number, ""),
            local_steps=local.local_steps,
            codec=local.codec,
            cpu_hz=planned.cpu_hz,
            bandwidth_hz=planned.bandwidth_hz,
            tx_power_w=planned.tx_power_w,
            rate_bps=planned.rate_bps,
            model=head_of(round_.model),
            correction=head_of(correction),
        )
        async with self.writing:
            await self.context.write(ToDevice(order=head))
            for payload in (round_.model, correction):
                for chunk in chunks_of(payload):
                    await self.context.write(raw_chunk(IN_STREAM, chunk))

    def share(self, round_: OpenRound) -> UplinkShare:
        """The rate that the plan of a round gives the device."""
        planned = {each.number: each.rate_bps for each in round_.order.devices}
        return UplinkShare(self.number, planned[self.number], self.address)

    async def receipt(self, key: Key, why: str = "") -> None:
        """Tell the device whether its update counts."""
        found = Receipt(key=key, accepted=not why, why=why)
        async with self.writing:
            await self.context.write(ToDevice(receipt=found))

    async def read(self, seconds: float | None = None) -> FromDevice:
        """The next message of the device; an error if it has gone."""
        async with asyncio.timeout(seconds):  # wait_for would make a task of every read
            found = await self.context.read()
        if found is grpc.aio.EOF:
            raise GoneError("the device has closed its stream")
        return found

    async def drain(self) -> None:
        """Read what a device that is sent away has sent already.

        Otherwise gRPC keeps that, and the connection, for as long as the device likes.
        """
        try:
            async with asyncio.timeout(DRAIN_S):
                for _ in range(DRAINED):
                    with suppress(UnreadableMessageError):
                        if await self.context.read() is grpc.aio.EOF:
                            return
        except (TimeoutError, grpc.RpcError, asyncio.InvalidStateError):
            return

    async def gather(self, upload: Upload, most: int, draft: UpdateDraft | None) -> float:
        """Take in the update that follows its head, to a file if there is one; the seconds."""
        began = time.monotonic()

        async def chunk() -> Raw:
            found = await self.read(CHUNK_S)
            if found.WhichOneof("what") != "chunk":
                raise BrokenPayloadError("another message in the middle of an upload")
            part: Raw = found.chunk
            return part

        for head in (upload.message, upload.variate):
            await digested(head, most, chunk, draft.add if draft is not None else ignore)
        return time.monotonic() - began
