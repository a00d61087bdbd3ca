"""Many devices on one edge server: whether a round loses an update, how long it takes, and memory.

    python benchmarks/devices_load.py [--devices 1000] [--idle 200] [--save FILE]

The edge server is a process of its own, a real `fedrt edge`. Devices are connections with
certificates of their own in one other process; training is replaced: each answers its order at once
with a whole model. Memory is what the system has resident (RSS) for the edge server's process and,
while it has one, the process with its model, which alone loads torch: `before_torch` is before the
coordinator first asks, `idle again` after rounds of the devices that are connected by then, when
the model's process has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from devices_fleet import Fleet, children_of, small, tell

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.fake_device import FakeCoordinator, FakeDevice, device

from fedrt.devices.security import Limits, Party, open_channel
from fedrt.devices.wire import messages_pb2 as pb

ROUNDS, FEW_ROUNDS = 5, 2
INPUTS = pb.Inputs(shape=[1, 8, 8], num_classes=10)
MEGABYTE = 2**20


async def attend(each: FakeDevice, accepted: list[int], number: int) -> None:
    """Answer every order at once."""
    while True:
        order, model = await each.order()
        receipt = await each.upload(order.key, model)
        if receipt.accepted:
            accepted.append(number)


async def connected(chief: FakeCoordinator, count: int) -> None:
    """Wait until the edge server has so many devices."""
    while len((await chief.ask()).seats) < count:
        await asyncio.sleep(0.2)


class Load:
    """An edge server with more and more devices, and what is measured of it."""

    def __init__(self, fleet: Fleet, chief: FakeCoordinator) -> None:
        self.fleet, self.chief = fleet, chief
        self.accepted: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.edge_mb = {"before_torch, no devices": self.memory()}

    def memory(self) -> float:
        """The megabytes of the edge server now."""
        return round(self.fleet.resident_bytes("edge-0") / MEGABYTE, 1)

    async def connect(self, stack: AsyncExitStack, count: int) -> None:
        """Connect devices until there are so many."""
        for number in range(len(self.tasks), count):
            own = self.fleet.files(f"device-{number}")
            address = f"127.0.0.1:{self.fleet.ports[0]}"
            each = await stack.enter_async_context(device(address, own))
            await each.greet(self.fleet.scenario)
            self.tasks.append(asyncio.create_task(attend(each, self.accepted, number)))

    async def rounds(self, count: int) -> list[float]:
        """Seconds of rounds of all devices that are connected; an error if an update is lost."""
        seconds, size = [], len(self.tasks)
        await connected(self.chief, size)
        for _ in range(count):
            self.accepted.clear()
            began = time.monotonic()
            report = await self.chief.train(list(range(size)), 120)
            seconds.append(round(time.monotonic() - began, 3))
            delivered = sum(each.delivered for each in report.devices)
            while len(self.accepted) < delivered:  # receipts may still be on their way
                await asyncio.sleep(0.01)
            if not delivered == size == len(set(self.accepted)):
                raise SystemExit(f"{delivered} of {size} delivered, {len(self.accepted)} receipts")
        return seconds

    async def rest(self) -> None:
        """Wait until the edge server has ended the process with its model."""
        while children_of(self.fleet.processes["edge-0"].pid):
            await asyncio.sleep(1)


async def load(fleet: Fleet, idle: int) -> dict[str, Any]:
    """Connect, and have rounds of all devices."""
    count = fleet.scenario.fleet.num_devices
    async with AsyncExitStack() as stack:
        files, edge = fleet.files("coordinator"), Party("edge", "edge-0")
        given = (f"127.0.0.1:{fleet.ports[0]}", files, edge)
        channel = await stack.enter_async_context(open_channel(*given))
        await asyncio.wait_for(channel.channel_ready(), 60)
        held = Load(fleet, FakeCoordinator(channel, fleet.scenario, INPUTS))
        await held.connect(stack, idle)
        held.edge_mb[f"before_torch, {idle} devices"] = held.memory()
        await held.rounds(FEW_ROUNDS)
        held.edge_mb[f"after rounds, {idle} devices"] = held.memory()
        await held.rest()
        held.edge_mb[f"idle again, {idle} devices"] = held.memory()
        began = time.monotonic()
        await held.connect(stack, count)
        connect_s = round(time.monotonic() - began, 2)
        round_s = await held.rounds(ROUNDS)
        held.edge_mb[f"after rounds, {count} devices"] = held.memory()
        await held.rest()
        held.edge_mb[f"idle again, {count} devices"] = held.memory()
        for task in held.tasks:
            task.cancel()
    found = {"devices": count, "edge_mb": held.edge_mb}
    return found | {f"connect_{count - idle}_s": connect_s, "round_s": round_s}


def idle_agent_mb(fleet: Fleet) -> float:
    """The memory of a device's agent that is connected and has had no order."""
    fleet.start("device-0")
    log = fleet.folder / "device-0.log"
    end = time.monotonic() + 120
    while "connected to" not in log.read_text() and time.monotonic() < end:
        time.sleep(0.2)
    time.sleep(1)
    found = fleet.resident_bytes("device-0") / MEGABYTE
    fleet.kill("device-0")
    return round(found, 1)


def main() -> None:
    """Measure, and print or save it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--idle", type=int, default=200)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    Limits().for_this_process()
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), small(1, args.devices, 2))
        fleet.start("edge-0")
        try:
            agent_mb = idle_agent_mb(fleet)
            found = asyncio.run(asyncio.wait_for(load(fleet, args.idle), 500))
        finally:
            fleet.close()
    found |= {"idle_agent_before_torch_mb": agent_mb}
    tell(found, args.save)


if __name__ == "__main__":
    main()
