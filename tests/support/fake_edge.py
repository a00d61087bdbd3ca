"""An edge server that sends what it likes, for the agents of real devices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from fedrt.devices.security import Files, server_credentials
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import chunks_of, head_of
from fedrt.devices.wire.party import own_party
from fedrt.devices.wire.raw import IN_STREAM, raw_chunk
from fedrt.devices.wire.services import handlers
from fedrt.messages import Raw
from fedrt.scenario import Scenario

# isort: split
import grpc  # after fedrt.devices, which keeps it from TLS 1.2

LARGE = [("grpc.max_receive_message_length", 2**22), ("grpc.max_send_message_length", 2**22)]


class FakeEdge:
    """One stream of a device; what it is sent is up to the test."""

    def __init__(self, context: Any) -> None:
        self.context = context

    async def write(self, **what: Any) -> None:
        """Send one message."""
        await self.context.write(pb.ToDevice(**what))

    async def read(self) -> pb.FromDevice:
        """The device's next message; an error if it has closed the stream."""
        found = await self.context.read()
        if found is grpc.aio.EOF:
            raise EOFError
        return found

    async def welcome(self, scenario: Scenario, seed: int = 0) -> None:
        """Hear the greeting, and welcome the device."""
        assert (await self.read()).WhichOneof("what") == "greeting"
        await self.write(welcome=pb.Welcome(party=own_party(scenario, seed)))

    async def order(self, model: Raw, **more: Any) -> pb.Order:
        """Send an order with its model."""
        key = more.pop("key", None) or pb.Key(run="run", session="s", t=0, r=0)
        given = {"label": "000000-00-s", "local_steps": 1, "model": head_of(model)}
        order = pb.Order(key=key, **(given | more))
        await self.write(order=order)
        for chunk in chunks_of(model):
            await self.context.write(raw_chunk(IN_STREAM, chunk))
        return order

    async def upload(self) -> pb.Upload:
        """The next update of the device, which is read to its end."""
        while (message := await self.read()).WhichOneof("what") != "upload":
            assert message.WhichOneof("what") == "chunk", message
        upload = message.upload
        left = upload.message.length + upload.variate.length
        while left > 0:
            left -= len((await self.read()).chunk)
        return upload

    async def failure(self) -> str:
        """Why the device cannot carry out an order."""
        message = await self.read()
        assert message.WhichOneof("what") == "failure", message
        return message.failure.why


@asynccontextmanager
async def fake_edge(
    files: Files, serve: Callable[[FakeEdge], Awaitable[None]]
) -> AsyncIterator[str]:
    """The address of a server that serves each stream of a device with `serve`."""

    async def attend(_requests: Any, context: Any) -> None:
        await serve(FakeEdge(context))

    server = grpc.aio.server(options=LARGE)
    server.add_generic_rpc_handlers((handlers("Devices", {"Attend": attend}),))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(files))
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
