"""A device without training, and a coordinator's calls, that speak the protocol to a real edge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fedrt.devices.security import Files, Party, open_channel
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import chunks_of, gathered, head_of
from fedrt.devices.wire.party import own_party
from fedrt.devices.wire.raw import IN_STREAM, raw_chunk
from fedrt.devices.wire.services import call
from fedrt.messages import Raw
from fedrt.scenario import Scenario
from support.children import LIMIT_S

# isort: split
import grpc  # after fedrt.devices, which keeps it from TLS 1.2

REPORT = {"loss_sum": 1.0, "largest": 1.0, "train_s": 0.001}


class FakeDevice:
    """One stream to an edge server; what it sends is up to the test."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    async def write(self, **what: Any) -> None:
        """Send one message."""
        await self.stream.write(pb.FromDevice(**what))

    async def send(self, payload: Raw) -> None:
        """Send the chunks of a payload."""
        for each in chunks_of(payload):
            await self.stream.write(raw_chunk(IN_STREAM, each))

    async def read(self) -> Any:
        """The next message; an error if the stream has ended."""
        found = await self.stream.read()
        if found is grpc.aio.EOF:
            raise EOFError(await self.stream.details() or "ended")
        return found

    async def greet(self, scenario: Scenario, seed: int = 0, samples: int = 10) -> None:
        """Say who it is, and be welcome."""
        greeting = pb.Greeting(party=own_party(scenario, seed), samples=samples)
        await self.write(greeting=greeting)
        assert (await self.read()).WhichOneof("what") == "welcome"

    async def order(self) -> tuple[pb.Order, bytes]:
        """The next order, with its model."""
        while (message := await self.read()).WhichOneof("what") != "order":
            pass

        async def chunk() -> Raw:
            return (await self.read()).chunk

        order = message.order
        model = await gathered(order.model, 2**36, chunk)
        await gathered(order.correction, 2**36, chunk)
        return order, bytes(model)

    async def upload(self, key: pb.Key, message: Raw, variate: Raw = b"", **report: Any):
        """Send an update; the receipt."""
        heads = {"message": head_of(message), "variate": head_of(variate)}
        told = pb.Report(**(REPORT | report))
        await self.write(upload=pb.Upload(key=key, report=told, **heads))
        for payload in (message, variate):
            await self.send(payload)
        return await self.receipt()

    async def receipt(self) -> pb.Receipt:
        """The next receipt."""
        message = await self.read()
        assert message.WhichOneof("what") == "receipt", message
        return message.receipt

    async def ended(self) -> str:
        """Read until the stream ends; what the server says then."""
        try:
            while True:
                await self.read()
        except EOFError as error:
            return str(error)
        except grpc.aio.AioRpcError as error:
            return error.details() or error.code().name


@asynccontextmanager
async def device(address: str, files: Files, edge: int = 0) -> AsyncIterator[FakeDevice]:
    """A device that is connected and has not yet said anything."""
    async with open_channel(address, files, Party("edge", f"edge-{edge}")) as channel:
        stream = call(channel, "Devices", "Attend")()
        try:
            yield FakeDevice(stream)
        finally:
            stream.cancel()


class FakeCoordinator:
    """The coordinator's calls to one edge server, one edge round after the other."""

    def __init__(self, channel: Any, scenario: Scenario, inputs: pb.Inputs, seed: int = 0) -> None:
        self.channel, self.run, self.base, self.r = channel, "run", "start", -1
        party = own_party(scenario, seed)
        self.question = pb.Question(party=party, run=self.run, inputs=inputs)

    async def ask(self) -> pb.Answer:
        """Have the edge server join the run; who is connected."""
        return await call(self.channel, "Orders", "Ask")(self.question, timeout=LIMIT_S)

    async def train(self, devices: list[int], deadline_s: float = LIMIT_S) -> pb.TrainReport:
        """One edge round of some devices; the report."""
        self.r += 1
        key = pb.Key(run=self.run, session="s", t=0, r=self.r)
        each = [pb.DeviceOrder(number=n, local_steps=1, samples=10) for n in devices]
        order = pb.TrainOrder(key=key, base=self.base, label=f"000000-{self.r:02}-s")
        order.deadline_s, self.base = deadline_s, order.label
        order.devices.extend(each)
        return await call(self.channel, "Orders", "Train")(order, timeout=LIMIT_S)


@asynccontextmanager
async def coordinator(
    address: str, files: Files, scenario: Scenario, inputs: pb.Inputs
) -> AsyncIterator[FakeCoordinator]:
    """Calls to an edge server by who may order it."""
    async with open_channel(address, files, Party("edge", "edge-0")) as channel:
        yield FakeCoordinator(channel, scenario, inputs)
