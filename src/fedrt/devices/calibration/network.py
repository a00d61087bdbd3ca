"""Bytes on the wire of an upload, counted on loopback, and uploads to a device's edge server."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from fedrt.devices.common.settings import DeviceSettings
from fedrt.devices.edge.seats import GoneError, Seat
from fedrt.devices.edge.uploads import MOST_UNASKED
from fedrt.devices.security import Files, Limits, Party, open_channel, server_credentials
from fedrt.devices.security.authority import Authority, enrol_party, make_authority_folder
from fedrt.devices.security.connections import why_unavailable
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import MOST_MESSAGE, chunks_of, head_of
from fedrt.devices.wire.party import difference, own_party
from fedrt.devices.wire.raw import IN_STREAM, raw_chunk
from fedrt.devices.wire.services import call, handlers
from fedrt.errors import FedrtError

SEGMENT, PACKET = 1448, 1514
"""Bytes of TCP's payload in a full packet of 1500 bytes, and of the packet on Ethernet."""
REACH_S = 5.0
"""Within which an edge server has to answer; else the upload is not measured."""
UPLOAD_S = 300.0
TRIPS = 5
EDGE, DEVICE = Party("edge", "edge-0"), Party("device", "device-0")


class UnreachableError(FedrtError):
    """The edge server cannot be measured."""


@dataclass(frozen=True)
class UploadTimes:
    """Uploads of one device to its edge server."""

    length: int
    """Bytes of each."""
    seconds: list[float]
    """From the first byte to the receipt."""
    round_trip_s: float
    """The same of a single byte: what an upload takes beyond its bits."""

    def wire_bps(self, header_factor: float) -> float:
        """Bit/s on the wire, of the median upload."""
        net_s = max(statistics.median(self.seconds) - self.round_trip_s, 1e-9)
        return 8 * self.length * header_factor / net_s


async def send(stream: Any, payload: bytes) -> float:
    """Upload some bytes that no order asked for; seconds to the receipt."""
    head = pb.Upload(key=pb.Key(run="calibrate"), message=head_of(payload))
    began = time.monotonic()
    await stream.write(pb.FromDevice(upload=head))
    for chunk in chunks_of(payload):
        await stream.write(raw_chunk(IN_STREAM, chunk))
    while (message := await stream.read()) is not grpc.aio.EOF:
        if message.WhichOneof("what") == "receipt":
            return time.monotonic() - began
    raise UnreachableError("has ended the stream")


async def end(stream: Any) -> None:
    """Close a stream, and let the other side do so too."""
    with suppress(TimeoutError, grpc.RpcError, asyncio.InvalidStateError):
        async with asyncio.timeout(REACH_S):
            await stream.done_writing()
            while await stream.read() is not grpc.aio.EOF:
                pass
    stream.cancel()


async def measure_uploads(settings: DeviceSettings, payload: bytes, repeats: int) -> UploadTimes:
    """Upload an update to the device's edge server, some times; it refuses all of them."""
    payload = payload[:MOST_UNASKED]
    expect = Party("edge", settings.own_edge)
    channel = open_channel(settings.edge, settings.files, expect)
    try:
        async with asyncio.timeout(REACH_S):
            stream = call(channel, "Devices", "Attend")()
            party = own_party(settings.scenario, settings.seed)
            await stream.write(pb.FromDevice(greeting=pb.Greeting(party=party, samples=1)))
            message = await stream.read()
            if message is grpc.aio.EOF:
                raise UnreachableError(await stream.details() or "has ended the stream")
            why = difference(party, message.welcome.party, expect.name)
            if why is not None:
                raise UnreachableError(why)
        async with asyncio.timeout(UPLOAD_S):
            trips = [await send(stream, b"\0") for _ in range(TRIPS)]
            seconds = [await send(stream, payload) for _ in range(repeats)]
        await end(stream)
        return UploadTimes(len(payload), seconds, min(trips))
    except TimeoutError:
        raise UnreachableError(f"{expect.name} does not answer at {settings.edge}") from None
    except grpc.aio.AioRpcError as error:
        raise UnreachableError(why_unavailable(error, expect)) from None
    finally:
        await channel.close()


async def tls_factor(payload: bytes) -> float:
    """Bytes that TLS and gRPC make of an upload over its own, counted between two sockets.

    Loopback with certificates made for it, which are gone afterwards.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_authority_folder(folder / "ca", name="calibration", days=1)
        for party in (EDGE, DEVICE):
            enrol_party(Authority(folder / "ca"), party, folder / party.name, days=1)
        files = {
            party: Files.in_folder(folder / party.name, party.name) for party in (EDGE, DEVICE)
        }
        async with (
            _server(files[EDGE]) as port,
            _counted(port) as (door, counts),
            open_channel(f"127.0.0.1:{door}", files[DEVICE], EDGE) as channel,
        ):
            stream = call(channel, "Devices", "Attend")()
            await send(stream, b"\0")
            before = sum(counts)
            await send(stream, payload)
            after = sum(counts)
            await end(stream)
    return (after - before) / len(payload)


@asynccontextmanager
async def _server(files: Files) -> AsyncIterator[int]:
    """A server on loopback that takes uploads in and says so."""

    async def attend(_requests: Any, context: Any) -> None:
        seat = Seat(0, context, 0)
        with suppress(GoneError):
            while True:
                upload = (await seat.read()).upload
                await seat.gather(upload, upload.message.length, None)
                await seat.receipt(upload.key)

    server = grpc.aio.server(options=Limits(message_bytes=MOST_MESSAGE).server_options())
    server.add_generic_rpc_handlers([handlers("Devices", {"Attend": attend})])
    port = server.add_secure_port("127.0.0.1:0", server_credentials(files))
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


@asynccontextmanager
async def _counted(port: int) -> AsyncIterator[tuple[int, list[int]]]:
    """A door to a port of this machine; the bytes that went in through it, piece by piece."""
    counts: list[int] = []
    carrying: set[asyncio.Task[None]] = set()
    sinks: list[asyncio.StreamWriter] = []

    async def carry(source: Any, sink: Any, seen: list[int] | None) -> None:
        with suppress(OSError):
            while data := await source.read(2**16):
                if seen is not None:
                    seen.append(len(data))
                sink.write(data)
                await sink.drain()
        sink.close()

    async def accept(source: Any, sink: Any) -> None:
        far_source, far_sink = await asyncio.open_connection("127.0.0.1", port)
        sinks.extend((sink, far_sink))
        for way in (carry(source, far_sink, counts), carry(far_source, sink, None)):
            carrying.add(asyncio.create_task(way))

    door = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield door.sockets[0].getsockname()[1], counts
    finally:
        door.close()
        for task in carrying:
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)
        for sink in sinks:
            sink.close()
            with suppress(OSError):
                await sink.wait_closed()
