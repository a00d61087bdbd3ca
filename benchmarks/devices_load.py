"""Many devices on one edge server: whether a round loses an update, how long it takes, and memory.

    python benchmarks/devices_load.py [--devices 1000] [--idle 200] [--save FILE]

The edge server is a process of its own, a real `fedrt edge`. Devices are connections with
certificates of their own in one other process; training is replaced: each answers its order at once
with a whole model. Memory is what the system has resident for a process (RSS), torch included where
it is loaded: `before_torch` is before the coordinator first asks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from devices_fleet import Fleet, machine, small

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.fake_device import FakeCoordinator, FakeDevice, device

from fedrt.devices.security import Limits, Party, open_channel
from fedrt.devices.wire import messages_pb2 as pb

ROUNDS = 5
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


async def load(fleet: Fleet, idle: int) -> dict[str, Any]:
    """Connect, and have rounds of all devices."""
    scenario, address = fleet.scenario, f"127.0.0.1:{fleet.ports[0]}"
    count = scenario.fleet.num_devices
    found: dict[str, Any] = {"devices": count}
    accepted: list[int] = []
    async with AsyncExitStack() as stack:
        files, edge = fleet.files("coordinator"), Party("edge", "edge-0")
        channel = await stack.enter_async_context(open_channel(address, files, edge))
        await asyncio.wait_for(channel.channel_ready(), 60)
        chief = FakeCoordinator(channel, scenario, INPUTS)
        tasks, began = [], time.monotonic()

        def memory() -> float:
            return round(fleet.resident_bytes("edge-0") / MEGABYTE, 1)

        found["edge_mb"] = {"before_torch, no devices": memory()}
        for number in range(count):
            own = fleet.files(f"device-{number}")
            each = await stack.enter_async_context(device(address, own))
            await each.greet(scenario)
            tasks.append(asyncio.create_task(attend(each, accepted, number)))
            if number + 1 == idle:
                found["edge_mb"][f"before_torch, {idle} devices"] = memory()
        found["connect_s"] = round(time.monotonic() - began, 2)
        found["edge_mb"][f"before_torch, {count} devices"] = memory()
        await connected(chief, count)
        found["edge_mb"][f"torch loaded, {count} devices"] = memory()
        seconds = []
        for _ in range(ROUNDS):
            accepted.clear()
            began = time.monotonic()
            report = await chief.train(list(range(count)), 120)
            seconds.append(round(time.monotonic() - began, 3))
            delivered = sum(each.delivered for each in report.devices)
            while len(accepted) < delivered:  # receipts may still be on their way
                await asyncio.sleep(0.01)
            if not delivered == count == len(set(accepted)):
                raise SystemExit(f"{delivered} of {count} delivered, {len(accepted)} receipts")
        found["round_s"] = seconds
        found["edge_mb"]["after the rounds"] = memory()
        for task in tasks:
            task.cancel()
    return found


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
    found |= {"idle_agent_before_torch_mb": agent_mb, "machine": machine()}
    text = json.dumps(found, indent=1)
    print(text)
    if args.save is not None:
        args.save.write_text(text + "\n")


if __name__ == "__main__":
    main()
