"""Connections on which nothing arrives: the other side is gone, or only slow."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from support.children import LIMIT_S
from support.enrolment import serving, within

from fedrt.devices.security import Access, Limits, Party, open_channel

# isort: split
import grpc

EDGE = Party("edge", "edge-0")
RULES = {"t.Devices": Access("device")}


class Relay:
    """A relay between a device and a server, which can hold back what the device sends."""

    def __init__(self, address: str) -> None:
        self.host, _, self.port = address.partition(":")
        self.flowing = asyncio.Event()
        self.flowing.set()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(self.host, int(self.port))
        there = asyncio.create_task(self.pump(reader, server_writer, hold=True))
        back = asyncio.create_task(self.pump(server_reader, writer, hold=False))
        with suppress(asyncio.CancelledError):
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        for each in (there, back):
            each.cancel()
        for end in (writer, server_writer):
            end.close()

    async def pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, hold: bool
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(2**16):
                if hold:
                    await self.flowing.wait()
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def relayed(site, limits) -> AsyncIterator[tuple[Relay, grpc.aio.StreamStreamCall]]:
    """An open call of a device, by way of a relay."""
    async with serving(site.files("edge", "edge-0"), RULES, limits) as address:
        relay = Relay(address)
        server = await asyncio.start_server(relay.connect, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        files = site.files("device", "device-0")
        async with server, open_channel(f"127.0.0.1:{port}", files, EDGE, limits=limits) as channel:
            call = channel.stream_stream("/t.Devices/Talk")(timeout=LIMIT_S, wait_for_ready=True)
            await call.write(b"first")
            assert await call.read() == b"first"
            try:
                yield relay, call
            finally:
                relay.flowing.set()


def test_a_process_that_does_not_answer_is_given_up(site):
    async def work():
        limits = Limits(ping_s=0.2, stalled_s=1.0)
        async with relayed(site, limits) as (relay, call):
            relay.flowing.clear()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert caught.value.code() == grpc.StatusCode.UNAVAILABLE

    within(work())


def test_answers_may_wait_behind_a_slow_upload(site):
    """Ten pings go unanswered, as an upload on a slow link holds them back."""

    async def work():
        limits = Limits(ping_s=0.2)
        async with relayed(site, limits) as (relay, call):
            relay.flowing.clear()
            for _ in range(8):
                await call.write(bytes(2**16))
            await asyncio.sleep(10 * limits.ping_s)
            relay.flowing.set()
            for _ in range(8):
                assert await call.read() == bytes(2**16)

    within(work())


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="of Linux alone")
def test_the_system_gives_up_a_machine_that_acknowledges_nothing(site):
    """gRPC says so nowhere, but hands the limit to TCP, on both sides."""

    async def work():
        async with relayed(site, Limits(unreachable_s=12.345)):
            return [user_timeout(int(each)) for each in os.listdir("/proc/self/fd")]

    assert within(work()).count(12345) == 2


def user_timeout(number: int) -> int:
    """The milliseconds after which TCP gives a connection up; 0 for what is none.

    gRPC sets the limit of sockets that listen too, which means nothing.
    """
    try:
        with socket.socket(fileno=os.dup(number)) as found:
            found.getpeername()
            return found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    except OSError:
        return 0


def test_grpc_knows_every_option():
    """It says nothing about an option that it does not know."""
    (library,) = Path(grpc.__file__).parent.glob("_cython/cygrpc*.so")
    known = library.read_bytes()
    limits = Limits()
    names = {name for name, _ in limits.server_options() + limits.channel_options()}
    assert [name for name in sorted(names) if name.encode() not in known] == []
