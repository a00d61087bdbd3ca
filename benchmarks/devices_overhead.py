"""What a round on real devices costs beside its training, and how fast models travel.

    python benchmarks/devices_overhead.py [--rounds 30] [--save FILE]

Everything over loopback with mutual TLS, every party a process of its own but for the small devices
that speak the protocol without training:

- `round_ms`: an edge round of two edge servers with four devices each, ordered at once, by devices
  that answer at once with the model that they got (24 kB): its order, averages, states and updates
  on disk. `global_round_ms` is what a real coordinator measures of a global round with real devices
  that train two steps of four samples: two edge rounds and a gossip.
- `upload of ...`: a model, from its digest and the first byte sent to its receipt: it has been
  checked and is on the edge server's disk.
- `wire of ...`: the same bytes up to an edge server, which checks their digest and refuses them as
  too late; in turns with `plain TLS of ...`, through a socket with TLS 1.3 to a process of its own,
  which takes them and keeps none. The sender's own digest, which a device makes once after
  training, is `digest of ...`: it is counted in `upload of ...` and not in `wire of ...`.

Every number is a median, with the 10th and the 90th percentile beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import socket
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from devices_fleet import Fleet, small, tell

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.fake_device import FakeCoordinator, FakeDevice, device

from fedrt.devices.security import Files, Party, open_channel
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import head_of

TITLES = {"digest": "digest", "wire": "wire", "plain": "plain TLS"}
INPUTS = pb.Inputs(shape=[1, 8, 8], num_classes=10)
MODELS = {
    "1.7 MB": 'learning={model="support.wide:Wide425",model_bits=13600320}',
    "100 MB": 'learning={model="support.wide:Wide25000",model_bits=800000320}',
}


def spread(values: list[float], digits: int = 2) -> dict[str, float]:
    """The median of some numbers, and how far they lie apart."""
    ordered = sorted(values)
    ends = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
    found = {"median": statistics.median(ordered), "p10": ends[0], "p90": ends[1]}
    return {name: round(each, digits) for name, each in found.items()} | {"n": len(ordered)}


async def attend(each: FakeDevice) -> None:
    """Answer every order at once."""
    while True:
        order, model = await each.order()
        await each.upload(order.key, model)


async def edge_rounds(fleet: Fleet, rounds: int) -> dict[str, float]:
    """Milliseconds of edge rounds whose training takes nothing."""
    async with AsyncExitStack() as stack:
        chiefs, tasks = [], []
        for c, port in enumerate(fleet.ports):
            edge, files = Party("edge", f"edge-{c}"), fleet.files("coordinator")
            address = f"127.0.0.1:{port}"
            channel = await stack.enter_async_context(open_channel(address, files, edge))
            await asyncio.wait_for(channel.channel_ready(), 60)
            chief = FakeCoordinator(channel, fleet.scenario, INPUTS)
            await chief.ask()
            mine = [n for n, home in enumerate(fleet.edge_of_device) if home == c]
            for number in mine:
                own = fleet.files(f"device-{number}")
                each = await stack.enter_async_context(device(address, own, c))
                await each.greet(fleet.scenario)
                tasks.append(asyncio.create_task(attend(each)))
            chiefs.append((chief, mine))
        found = []
        for _ in range(rounds + 3):
            began = time.perf_counter()
            reports = await asyncio.gather(*(chief.train(mine, 60) for chief, mine in chiefs))
            found.append(1000 * (time.perf_counter() - began))
            if not all(each.delivered for report in reports for each in report.devices):
                raise SystemExit("an update was lost")
        for task in tasks:
            task.cancel()
    return spread(found[3:])


async def uploads(fleet: Fleet, repeats: int) -> list[float]:
    """Seconds from the first byte of an upload to its receipt, and the bytes of it."""
    address, edge = f"127.0.0.1:{fleet.ports[0]}", Party("edge", "edge-0")
    found = []
    async with AsyncExitStack() as stack:
        files = fleet.files("coordinator")
        channel = await stack.enter_async_context(open_channel(address, files, edge))
        await asyncio.wait_for(channel.channel_ready(), 60)
        chief = FakeCoordinator(channel, fleet.scenario, INPUTS)
        await chief.ask()
        own = fleet.files("device-0")
        each = await stack.enter_async_context(device(address, own))
        await each.greet(fleet.scenario)
        for _ in range(repeats + 1):
            training = asyncio.create_task(chief.train([0], 120))
            order, model = await each.order()
            began = time.perf_counter()
            receipt = await each.upload(order.key, model)
            found.append(time.perf_counter() - began)
            if not receipt.accepted:
                raise SystemExit(receipt.why)
            await training
    return found[1:]


async def side_by_side(fleet: Fleet, length: int, repeats: int) -> dict[str, list[float]]:
    """Seconds for bytes up to an edge server, and through a plain socket, one after the other.

    The edge server gets an upload whole and then refuses it as too late; neither side keeps it.
    """
    payload = random.Random(0).randbytes(length)
    found: dict[str, list[float]] = {"digest": [], "wire": [], "plain": []}
    with plain_socket(fleet, length, repeats + 1) as stream:
        async with device(f"127.0.0.1:{fleet.ports[0]}", fleet.files("device-0")) as each:
            await each.greet(fleet.scenario)
            for _ in range(repeats + 1):
                began = time.perf_counter()
                head = pb.Upload(key=pb.Key(run="none"), message=head_of(payload))
                found["digest"].append(time.perf_counter() - began)
                began = time.perf_counter()
                await each.write(upload=head)
                await each.send(payload)
                await each.receipt()
                found["wire"].append(time.perf_counter() - began)
                found["plain"].append(await asyncio.to_thread(send_plainly, stream, payload))
    return {what: seconds[1:] for what, seconds in found.items()}


def receive_plainly(listener: socket.socket, files: Files, length: int, repeats: int) -> None:
    """The receiving end of a plain socket, in a process of its own: takes the bytes, keeps none."""
    context = context_of(files, ssl.PROTOCOL_TLS_SERVER)
    near, _ = listener.accept()
    with context.wrap_socket(near, server_side=True) as stream:
        for _ in range(repeats):
            left, place = length, bytearray(2**18)
            while left:
                left -= stream.recv_into(place, min(left, len(place)))
            stream.sendall(b"x")


def context_of(files: Files, side: int) -> ssl.SSLContext:
    """TLS 1.3 with certificates on both sides."""
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(files.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextmanager
def plain_socket(fleet: Fleet, length: int, repeats: int) -> Iterator[ssl.SSLSocket]:
    """A socket with TLS 1.3 to another process, which takes so many bytes so many times."""
    listener = socket.create_server(("127.0.0.1", 0))
    given = (listener, fleet.files("edge-0"), length, repeats)
    receiver = get_context("spawn").Process(target=receive_plainly, args=given, daemon=True)
    receiver.start()
    near = socket.create_connection(listener.getsockname())
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    context = context_of(fleet.files("device-0"), ssl.PROTOCOL_TLS_CLIENT)
    with context.wrap_socket(near) as stream:
        yield stream
    receiver.join(60)
    listener.close()


def send_plainly(stream: ssl.SSLSocket, payload: bytes) -> float:
    """Seconds for bytes through a socket with TLS 1.3, and one byte back."""
    view, began = memoryview(payload), time.perf_counter()
    for start in range(0, len(view), 2**18):
        stream.sendall(view[start : start + 2**18])
    stream.recv(1)
    return time.perf_counter() - began


def global_rounds(rounds: int) -> dict[str, Any]:
    """Milliseconds of whole global rounds by real parties, as the coordinator measures them."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), small(2, 4, rounds))
        try:
            for name in fleet.names:
                fleet.start(name)
            fleet.start("coordinator", "--policy", "ce-fedavg", "--wait", "180")
            if fleet.processes["coordinator"].wait(400):
                raise SystemExit((Path(folder) / "coordinator.log").read_text())
            stamps = timed_rounds(Path(folder) / "coordinator.log")
        finally:
            fleet.close()
    return spread(stamps[3:])


def timed_rounds(log: Path) -> list[float]:
    """The milliseconds of edge rounds and gossip that the coordinator prints for each round."""
    found = re.findall(r"^global round \d+: ([0-9.]+) s", log.read_text(), re.MULTILINE)
    return [1000 * float(each) for each in found]


def measure(rounds: int) -> dict[str, Any]:
    """Everything, one after the other."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), small(2, 4, 2))
        try:
            for c in range(2):
                fleet.start(f"edge-{c}")
            found["round_ms"] = asyncio.run(asyncio.wait_for(edge_rounds(fleet, rounds), 200))
        finally:
            fleet.close()
    found["global_round_ms"] = global_rounds(rounds)
    for what, setting in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            fleet = Fleet(Path(folder), small(1, 1, 2, setting))
            fleet.start("edge-0")
            try:
                large = what == "100 MB"
                repeats = 20 if large else rounds
                acknowledged = asyncio.run(asyncio.wait_for(uploads(fleet, repeats), 300))
                found[f"upload of {what}, ms"] = spread([1000 * s for s in acknowledged])
                length = int(float(what.split()[0]) * 1e6)
                taken = asyncio.run(asyncio.wait_for(side_by_side(fleet, length, repeats), 300))
            finally:
                fleet.close()
        for name, seconds in taken.items():
            found[f"{TITLES[name]} of {what}, ms"] = spread([1000 * s for s in seconds])
        parts = {name: statistics.median(seconds) for name, seconds in taken.items()}
        found[f"{what}: speed over plain TLS's"] = round(parts["plain"] / parts["wire"], 3)
        whole = parts["wire"] + parts["digest"]
        found[f"{what}: the same with the sender's digest"] = round(parts["plain"] / whole, 3)
    return found


def main() -> None:
    """Measure, and print or save it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    tell(measure(args.rounds), args.save)


if __name__ == "__main__":
    main()
