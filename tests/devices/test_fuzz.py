"""Messages that no party of ours sends: random bytes, and messages with bytes changed."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from typing import Any

import pytest
from support.children import LIMIT_S
from support.parties import six
from support.running import running

from fedrt.devices.edge import serve as edge_serve
from fedrt.devices.security import Limits, Party, open_channel
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.party import own_party

# isort: split
import grpc

MOST_GROWTH = 20 * 2**20
"""Bytes by which this process may grow, both ends of the connections together."""
AT_ONCE = 8
PATIENCE_S = 0.2
"""A server waits for a gossip step that does not come; the caller does not."""
TRUSTED = {"Orders": ("coordinator", "coordinator"), "Peers": ("edge", "edge-1")}


def samples(scenario) -> dict[str, list[bytes]]:
    """Good messages, by the method that takes them."""
    party = own_party(scenario, 0)
    key = pb.Key(run="r", session="s", t=1, r=1)
    payload = pb.Payload(length=100, digest=bytes(16))
    greeting = pb.FromDevice(greeting=pb.Greeting(party=party, samples=10))
    upload = pb.Upload(key=key, message=payload, report=pb.Report(train_s=1.0))
    return {
        "Devices/Attend": [
            each.SerializeToString()
            for each in (
                greeting,
                pb.FromDevice(upload=upload),
                pb.FromDevice(chunk=bytes(100)),
                pb.FromDevice(failure=pb.Failure(key=key, why="no")),
            )
        ],
        "Peers/Fetch": [
            pb.Fetch(run="r", label="000000-mix-s", step=1).SerializeToString(),
            pb.Fetch(run="r", label="start").SerializeToString(),
        ],
        "Orders/Ask": [pb.Question(party=party, run="").SerializeToString()],
        "Orders/Train": [
            pb.TrainOrder(
                key=key, base="start", label="x", devices=[pb.DeviceOrder(number=0)]
            ).SerializeToString()
        ],
        "Orders/Mix": [pb.MixOrder(key=key, base="start", label="x").SerializeToString()],
        "Orders/Measure": [pb.DistanceOrder(key=key, base="start").SerializeToString()],
        "Orders/Model": [pb.ModelQuestion(run="r", label="start").SerializeToString()],
    }


def spoilt(text: bytes, chance: random.Random) -> bytes:
    """A message where it does not belong, with bytes changed, left out or put in, or noise."""
    kind = chance.randrange(5)
    if kind == 0:
        return chance.randbytes(chance.randrange(200))
    if kind == 3:
        return text
    found = bytearray(text)
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(found) + 1)
        if kind == 1:
            found[place:place] = chance.randbytes(chance.randrange(1, 9))
        elif kind == 2:
            del found[place : place + chance.randrange(1, 9)]
        elif found:
            found[place % len(found)] = chance.randrange(256)
    return bytes(found)


class Failures(logging.Handler):
    """Keeps what is logged with a traceback, and nothing else: all of it would be growth too."""

    def __init__(self, monkeypatch) -> None:
        super().__init__()
        self.lines: list[str] = []
        for name in ("fedrt", "grpc"):
            monkeypatch.setattr(logging.getLogger(name), "propagate", False)
            monkeypatch.setattr(logging.getLogger(name), "handlers", [self])

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.lines.append(record.getMessage())


class Sender:
    """Sends messages to an edge server as they are given, as bytes."""

    def __init__(self, fleet: Any) -> None:
        expect = Party("edge", "edge-0")
        self.channels = {
            service: open_channel(fleet.addresses[0], fleet.site.files(*who), expect)
            for service, who in ({"Devices": ("device", "device-0")} | TRUSTED).items()
        }

    async def send(self, method: str, texts: list[bytes]) -> str:
        """The status with which a call ends."""
        channel = self.channels[method.split("/")[0]]
        try:
            if method == "Devices/Attend":
                call = channel.stream_stream(f"/fedrt.v1.{method}")(timeout=LIMIT_S)
                for text in texts:
                    await call.write(text)
                await call.done_writing()
            else:
                seconds = PATIENCE_S if method == "Peers/Fetch" else LIMIT_S
                call = channel.unary_stream(f"/fedrt.v1.{method}")(texts[0], timeout=seconds)
            while await call.read() is not grpc.aio.EOF:
                pass
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass
        return (await call.code()).name

    async def close(self) -> None:
        for channel in self.channels.values():
            await channel.close()


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


@pytest.mark.parametrize(
    "count", [400, pytest.param(10_000, marks=pytest.mark.long)], ids=["short", "long"]
)
def test_an_edge_server_outlives_spoilt_messages(tmp_path, monkeypatch, count, record_property):
    """It neither fails nor grows nor fills its log, and does its work afterwards."""
    monkeypatch.setattr(edge_serve, "LIMITS", Limits(calls_per_s=1e6, burst=10**6))
    failures = Failures(monkeypatch)
    scenario = six()
    good = samples(scenario)
    chance = random.Random(0)
    ended: dict[str, int] = {}

    async def fuzz(sender: Sender, count: int) -> None:
        async def one() -> None:
            method = chance.choice(["Devices/Attend", *good])
            texts = [spoilt(chance.choice(good[method]), chance) for _ in range(3)]
            if method == "Devices/Attend" and chance.random() < 0.7:
                texts.insert(0, good[method][0])  # greeted, then the rest
            code = await sender.send(method, texts)
            ended[code] = ended.get(code, 0) + 1

        for _ in range(count // AT_ONCE):
            await asyncio.gather(*(one() for _ in range(AT_ONCE)))

    async def work(fleet) -> None:
        sender = Sender(fleet)
        await fuzz(sender, count // 3)  # until what is loaded once has been
        before = resident_bytes()
        await fuzz(sender, count)
        growth = resident_bytes() - before
        record_property("growth_bytes", growth)
        assert growth < MOST_GROWTH
        await sender.close()

    with running(tmp_path, scenario) as fleet:
        fleet.start_edge(0)
        asyncio.run_coroutine_threadsafe(work(fleet), fleet.loop).result(LIMIT_S)
        assert not fleet.tasks["edge-0"].done()
        record_property("ended", dict(ended))
        assert sum(ended.values()) >= count
        assert "UNKNOWN" not in ended  # how a call ends whose handler fails
        assert "INVALID_ARGUMENT" in ended
        fleet.start_edge(1)
        for number in range(6):
            fleet.start_device(number)
        assert fleet.coordinate()["global_rounds"] == 3
    assert failures.lines == []
