"""How well real devices are held to a plan: rates by `tc`, CPU shares by `cgroup` and `duty`.

    python benchmarks/devices_shapes.py [--repeats 3] [--rounds 10] [--save FILE]

Needs root, tc and nsenter. Makes network namespaces of its own, one for an edge server, one for
each device and one with a bridge between them, and removes them whatever happens. Real TCP, TLS and
gRPC: devices send random bytes as updates when they are ordered to.

- `table`: one device, at one rate after the other. `ratio`: from the order to the last byte at the
  edge server, over bytes x header factor / rate; `upload_ratio` the same from the update's head on,
  which is what edge servers report. The header factor is what the class of HTB has counted, over
  the bytes of the updates of 1 MB and more.
- `changing`: devices that upload at once, each at another rate in every round.
- `apply_ms`: to set the rates of all devices of a round, and to read them back.
- `cpu`: work of a given CPU time over the seconds that it takes at a share, over those expected.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from devices_fleet import tell

from fedrt.devices.actuators.base import CpuActuator, UplinkShare
from fedrt.devices.actuators.cgroup import CgroupQuota, find_home
from fedrt.devices.actuators.choices import CGROUPS, OWN_GROUP
from fedrt.devices.actuators.duty import DutyCycle
from fedrt.devices.actuators.leftovers import Leftovers
from fedrt.devices.actuators.tc import TrafficControl
from fedrt.devices.edge.seats import Seat
from fedrt.devices.security import Files, Limits, Party, open_channel, server_credentials
from fedrt.devices.security.authority import Authority, enrol_party, make_authority_folder
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import MOST_MESSAGE, chunks_of, head_of
from fedrt.devices.wire.raw import IN_STREAM, raw_chunk
from fedrt.devices.wire.services import call, handlers

import grpc  # isort: skip

PORT = 7100
RATES_MBPS = (0.5, 1, 2, 5, 10, 20, 50)
SIZES = (50_000, 200_000, 1_000_000, 4_000_000)
LONGEST_S = 5.0
"""Uploads that would take longer are left out."""
LARGE = 1_000_000
"""Updates of so many bytes tell the header factor."""
OWN = "fedrt-shapes-"
SPANS_S = ((0.0, 0.1), (0.1, 0.5), (0.5, LONGEST_S * 1.1))
SHARES, CPU_WALL_S, STEP_S = (0.05, 0.1, 0.2, 0.35, 0.5), 1.0, 0.01


# ---- the network


def run(*words: str) -> None:
    """Run a command; an error if it fails."""
    subprocess.run(words, check=True, capture_output=True, text=True)


@contextmanager
def network(devices: int) -> Iterator[list[str]]:
    """Namespaces of an edge server and devices on one bridge; removed afterwards. Their names."""
    remove_dead()
    tag = f"{OWN}{os.getpid()}"
    names = [f"{tag}-edge", *(f"{tag}-{n}" for n in range(devices))]
    bridge = f"{tag}-bridge"
    try:
        run("ip", "netns", "add", bridge)
        run("ip", "-n", bridge, "link", "add", "bridge0", "type", "bridge")
        run("ip", "-n", bridge, "link", "set", "bridge0", "up")
        for place, name in enumerate(names):
            run("ip", "netns", "add", name)
            ends = ("eth0", "netns", name, "type", "veth", "peer", "name", f"p{place}")
            run("ip", "link", "add", *ends, "netns", bridge)
            run("ip", "-n", bridge, "link", "set", f"p{place}", "up", "master", "bridge0")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "address", "add", f"10.77.0.{place + 1}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
        yield names
    finally:
        for name in (*names, bridge):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def remove_dead() -> None:
    """Remove the namespaces of an earlier process that was killed."""
    folder = Path("/run/netns")
    for path in folder.iterdir() if folder.is_dir() else ():
        found = re.fullmatch(rf"{OWN}([0-9]+)-.*", path.name)
        if found and not Path(f"/proc/{found[1]}").exists():
            run("ip", "netns", "del", path.name)


def inside(namespace: str, *words: str) -> subprocess.Popen[str]:
    """Start this script as a party in a namespace."""
    command = ["nsenter", f"--net=/run/netns/{namespace}", sys.executable, __file__, *words]
    return subprocess.Popen(command, text=True)


# ---- the parties


async def serve_device(number: int, folder: Path) -> None:
    """Answer every order with as many random bytes as it has local steps."""
    files = Files.in_folder(folder / f"device-{number}", f"device-{number}")
    rounds = json.loads((folder / "rounds.json").read_text())
    lengths = {length for each in rounds for length in each["lengths"]}
    payloads = {length: os.urandom(length) for length in lengths}
    heads = {length: head_of(payload) for length, payload in payloads.items()}
    async with open_channel(f"10.77.0.1:{PORT}", files, Party("edge", "edge-0")) as channel:
        await asyncio.wait_for(channel.channel_ready(), 60)
        stream = call(channel, "Devices", "Attend")()
        await stream.write(pb.FromDevice(greeting=pb.Greeting(samples=number)))
        while (message := await stream.read()) is not grpc.aio.EOF:
            if message.WhichOneof("what") != "order":
                continue
            length = message.order.local_steps
            upload = pb.Upload(key=message.order.key, message=heads[length])
            await stream.write(pb.FromDevice(upload=upload))
            for chunk in chunks_of(payloads[length]):
                await stream.write(raw_chunk(IN_STREAM, chunk))


class Edge:
    """Orders devices, and measures what comes back."""

    def __init__(self, devices: int, uplinks: TrafficControl) -> None:
        self.seats: dict[int, Seat] = {}
        self.devices, self.uplinks = devices, uplinks
        self.ready, self.end = asyncio.Event(), asyncio.Event()

    async def attend(self, _requests: Any, context: Any) -> None:
        seat = Seat(-1, context, 0)
        seat.number = (await seat.read()).greeting.samples
        self.seats[seat.number] = seat
        if len(self.seats) == self.devices:
            self.ready.set()
        await self.end.wait()

    async def one(self, number: int, length: int) -> dict[str, float]:
        """One upload, from its order on."""
        seat, began = self.seats[number], time.monotonic()
        await seat.context.write(pb.ToDevice(order=pb.Order(local_steps=length)))
        head = (await seat.read()).upload
        first = time.monotonic()
        update = await seat.gather(head, length, 0)
        order_s = time.monotonic() - began
        await seat.receipt(head.key)
        return {"order_s": order_s, "upload_s": update.upload_s, "wait_s": first - began}

    async def round(self, rates_bps: list[float], lengths: list[int]) -> dict[str, Any]:
        """Set rates, and have all devices upload at once."""
        shares = [UplinkShare(n, rate, self.seats[n].address) for n, rate in enumerate(rates_bps)]
        began = time.monotonic()
        await asyncio.to_thread(self.uplinks.apply, shares)
        apply_s = time.monotonic() - began
        found = await asyncio.gather(*(self.one(n, each) for n, each in enumerate(lengths)))
        return {"apply_s": apply_s, "uploads": found, "sent_bytes": await self.sent_bytes()}

    async def sent_bytes(self) -> int:
        """What the classes of all devices have let through so far, with all headers."""
        words = ("tc", "-s", "class", "show", "dev", f"fedrt{PORT}")
        said = await asyncio.to_thread(subprocess.check_output, words, text=True)
        return sum(map(int, re.findall(r"Sent ([0-9]+) bytes", said)))


async def serve_edge(devices: int, folder: Path) -> None:
    """Carry out the rounds of a file, and save what was measured."""
    files = Files.in_folder(folder / "edge-0", "edge-0")
    options = Limits(message_bytes=MOST_MESSAGE).server_options()
    server = grpc.aio.server(options=options)
    uplinks = TrafficControl("eth0", PORT, Leftovers(folder / "state"))
    uplinks.open()
    edge = Edge(devices, uplinks)
    server.add_generic_rpc_handlers([handlers("Devices", {"Attend": edge.attend})])
    server.add_secure_port(f"0.0.0.0:{PORT}", server_credentials(files))
    await server.start()
    await asyncio.wait_for(edge.ready.wait(), 60)
    found = []
    for each in json.loads((folder / "rounds.json").read_text()):
        found.append(await edge.round(each["rates_bps"], each["lengths"]))
    (folder / "found.json").write_text(json.dumps(found))
    edge.end.set()
    await server.stop(1)
    uplinks.undo()


# ---- what is measured


def measured(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Carry rounds out in a network of its own."""
    devices = max(len(each["rates_bps"]) for each in rounds)
    with tempfile.TemporaryDirectory() as place, network(devices) as names:
        folder = Path(place)
        make_authority_folder(folder / "ca", name="benchmark", days=3650)
        for name in ("edge-0", *(f"device-{n}" for n in range(devices))):
            party = Party(name.partition("-")[0], name)
            enrol_party(Authority(folder / "ca"), party, folder / name)
        (folder / "rounds.json").write_text(json.dumps(rounds))
        children = []
        try:
            children.append(inside(names[0], "--edge", str(devices), str(folder)))
            for number in range(devices):
                own = ("--device", str(number), str(folder))
                children.append(inside(names[number + 1], *own))
            if children[0].wait():
                raise SystemExit("the edge server failed")
            return json.loads((folder / "found.json").read_text())
        finally:
            for child in children:
                child.kill()
                child.wait()


def uploads_of(
    rounds: list[dict[str, Any]], found: list[dict[str, Any]], factor: float
) -> list[dict[str, float]]:
    """Every upload with the seconds expected of it, and its ratios to them."""
    rows = []
    for asked, got in zip(rounds, found, strict=True):
        for rate, length, each in zip(
            asked["rates_bps"], asked["lengths"], got["uploads"], strict=True
        ):
            expected_s = 8 * length * factor / rate
            ratios = {"ratio": "order_s", "upload_ratio": "upload_s"}
            own = {name: each[key] / expected_s for name, key in ratios.items()}
            rows.append({"rate_bps": rate, "bytes": length, "expected_s": expected_s, **own})
    return rows


def header_factor(rounds: list[dict[str, Any]], found: list[dict[str, Any]]) -> float:
    """Bytes on the wire over those of updates, of large updates of one device."""
    before = [0, *(each["sent_bytes"] for each in found[:-1])]
    factors = [
        (got["sent_bytes"] - last) / asked["lengths"][0]
        for asked, got, last in zip(rounds, found, before, strict=True)
        if asked["lengths"][0] >= LARGE
    ]
    return statistics.median(factors)


def in_spans(rows: list[dict[str, float]]) -> dict[str, Any]:
    """Errors of uploads that are expected to take so many seconds."""
    spans = {}
    for least, most in SPANS_S:
        mine = [row for row in rows if least <= row["expected_s"] < most]
        if mine:
            spans[f"{least:g} to {most:g} s"] = {"n": len(mine)} | {
                name: {
                    "mean": round(statistics.mean(row[name] for row in mine), 4),
                    "mean_error": round(statistics.mean(abs(row[name] - 1) for row in mine), 4),
                    "worst_error": round(max(abs(row[name] - 1) for row in mine), 4),
                }
                for name in ("ratio", "upload_ratio")
            }
    return spans


def table(repeats: int) -> tuple[dict[str, Any], float]:
    """One device at one rate after the other; and the header factor."""
    cells = [(rate * 1e6, size) for rate in RATES_MBPS for size in SIZES]
    cells = [(rate, size) for rate, size in cells if 8 * size / rate < LONGEST_S]
    rounds = [
        {"rates_bps": [rate], "lengths": [size]} for rate, size in cells for _ in range(repeats)
    ]
    found = measured(rounds)
    factor = header_factor(rounds, found)
    rows = uploads_of(rounds, found, factor)
    each = []
    for rate, size in cells:
        mine = [row for row in rows if (row["rate_bps"], row["bytes"]) == (rate, size)]
        medians = {
            name: round(statistics.median(row[name] for row in mine), 4)
            for name in ("expected_s", "ratio", "upload_ratio")
        }
        each.append({"mbps": rate / 1e6, "bytes": size, "n": len(mine), **medians})
    return {"cells": each, "spans": in_spans(rows)}, factor


def changing(devices: int, count: int, factor: float) -> dict[str, Any]:
    """Devices that upload at once, at another rate in every round."""
    chance, rounds = random.Random(devices), []
    for _ in range(count):
        rates = [10 ** chance.uniform(5.7, 7.7) for _ in range(devices)]
        lengths = [chance.choice([n for n in SIZES if 8 * n / r < LONGEST_S]) for r in rates]
        rounds.append({"rates_bps": rates, "lengths": lengths})
    found = measured(rounds)
    apply_ms = sorted(1e3 * each["apply_s"] for each in found)
    return {
        "rounds": count,
        "apply_ms": {
            "median": round(statistics.median(apply_ms), 2),
            "worst": round(apply_ms[-1], 2),
        },
        "spans": in_spans(uploads_of(rounds, found, factor)),
    }


def cpu(repeats: int) -> dict[str, Any]:
    """How long work takes at a share of the CPU, over what it should."""
    home = find_home(CGROUPS, OWN_GROUP)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        actuators: dict[str, CpuActuator] = {"duty": DutyCycle()}
        if home is not None:
            actuators[f"cgroup v{home.version}"] = CgroupQuota(
                home, "benchmark", Leftovers(Path(place))
            )
        for name, actuator in actuators.items():
            try:
                ratios = {
                    str(share): [round(slowed(actuator, share), 4) for _ in range(repeats)]
                    for share in SHARES
                }
            finally:
                actuator.close()
            worst = max(abs(each - 1) for own in ratios.values() for each in own)
            found[name] = {"ratios": ratios, "worst_error": round(worst, 4)}
    return found


def slowed(actuator: CpuActuator, share: float) -> float:
    """Seconds of some work, over its CPU time / share."""
    work_s = CPU_WALL_S * share
    began, cpu_began = time.monotonic(), time.thread_time()
    actuator.apply(share, math.ceil(work_s / STEP_S))
    for step in range(math.ceil(work_s / STEP_S)):
        step_end = min((step + 1) * STEP_S, work_s)
        while time.thread_time() - cpu_began < step_end:
            sum(range(2000))
        actuator.after_step()
    took_s, used_s = time.monotonic() - began, time.thread_time() - cpu_began
    actuator.undo()
    return took_s / (used_s / share)


def main() -> None:
    """Measure, and print or save it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--save", type=Path)
    for role in ("--edge", "--device"):
        parser.add_argument(role, nargs=2, metavar=("N", "DIR"), help="a party that it starts")
    args = parser.parse_args()
    if args.edge:
        asyncio.run(serve_edge(int(args.edge[0]), Path(args.edge[1])))
        return
    if args.device:
        asyncio.run(serve_device(int(args.device[0]), Path(args.device[1])))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    congestion = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    rows, factor = table(args.repeats)
    found = {
        "header_factor": round(factor, 4),
        "congestion_control": congestion,
        "table": rows,
        "changing": {str(n): changing(n, args.rounds, factor) for n in (2, 6)},
        "cpu": cpu(args.repeats),
    }
    tell(found, args.save)


if __name__ == "__main__":
    main()
