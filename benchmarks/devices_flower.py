"""What a round costs with FedRT's parties and with Flower's deployment, one after the other.

    make .venv/.ready-flower
    python benchmarks/devices_flower.py [--rounds 5] [--flower .venv/flower] [--save FILE]

Both over loopback with TLS, a process for each party, models of 24 kB, training that takes nothing:

- FedRT: a coordinator, two edge servers and eight devices; certificates on both sides. Devices make
  one step of one sample. A round is a global round as the coordinator's clock has it: who is
  there, plan, orders, training, uploads, averages on disk, gossip, evaluation, run folder.
- Flower: a SuperLink, eight SuperNodes, FedAvg and a ClientApp that sends back what it gets
  (`peers/flower_echo`), with Flower's own settings but that nothing is installed at run time; the
  server alone has a certificate. A round is from the sampling of its clients to that of the next.

The first round of either is left out: FedRT loads torch in it. `memory_mb` is what the processes of
one device have resident, the median over devices: idle before the first order, and at most while
rounds went on. Every process ends with the benchmark.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from importlib.metadata import distributions
from itertools import pairwise
from pathlib import Path
from typing import Any

from devices_fleet import Fleet, environment, free_port, resident_bytes, small, tell

from fedrt.api.results import RunResult
from fedrt.devices.security import Party
from fedrt.devices.security.authority import Authority, enrol_party
from fedrt.records.directory import read_run

EDGES, DEVICES = 2, 4
LIMIT_S = 300.0
"""Only ends a hang."""
STOP_S = 30.0
"""For processes to end by themselves."""
SETTLE_S = 3.0
"""From when all devices are connected to when their memory is looked at."""
APP = Path(__file__).parent / "peers" / "flower_echo"
CONFIG = """
[superlink]
default = "here"
[superlink.here]
address = "127.0.0.1:{port}"
root-certificates = "{ca}"
"""


def spread(values: list[float], digits: int) -> dict[str, float]:
    """The median of some numbers, and the least and the greatest."""
    found = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return {name: round(each, digits) for name, each in found.items()} | {"n": len(values)}


def descendants(pid: int) -> list[int]:
    """A process and all that come from it."""
    parent: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            text = entry.read_text()
            parent[int(text.partition(" ")[0])] = int(text.rpartition(")")[2].split()[1])
    found = [pid]
    for each in found:
        found += [child for child, above in parent.items() if above == each]
    return found


def resident(pid: int) -> int:
    """The bytes that a process and those that come from it have resident."""
    total = 0
    for each in descendants(pid):
        with suppress(OSError):
            total += resident_bytes(each)
    return total


class Memory:
    """Looks at the memory of processes while something else goes on."""

    def __init__(self, pids: list[int]) -> None:
        self.idle = [resident(pid) for pid in pids]
        self.most = list(self.idle)
        self._pids, self._done = pids, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._done.wait(0.5):
            self.most = [
                max(most, resident(pid)) for most, pid in zip(self.most, self._pids, strict=True)
            ]

    def table(self) -> dict[str, float]:
        """Megabytes of one device, idle and at most."""
        self._done.set()
        self._thread.join(60)
        found = {"idle": self.idle, "most": self.most}
        return {name: round(statistics.median(each) / 1e6) for name, each in found.items()}


def fedrt_rounds(folder: Path, rounds: int) -> dict[str, Any]:
    """Seconds of global rounds by FedRT's own parties."""
    length = f"rounds={{global_rounds={rounds},edge_rounds=1,local_steps=1,gossip_steps=1}}"
    fleet = Fleet(folder, small(EDGES, DEVICES, rounds, length, "learning.batch_size=1"))
    try:
        for name in fleet.names:
            fleet.start(name)
        for n in range(EDGES * DEVICES):
            said(folder / f"device-{n}.log", "connected to")
        pids = [fleet.processes[f"device-{n}"].pid for n in range(EDGES * DEVICES)]
        time.sleep(SETTLE_S)
        memory = Memory(pids)
        fleet.start("coordinator", "--policy", "ce-fedavg", "--wait", "180")
        if fleet.processes["coordinator"].wait(LIMIT_S):
            raise SystemExit((folder / "coordinator.log").read_text())
        found = memory.table()
    finally:
        fleet.close()
    run = read_run(folder / "run")
    assert run.summary is not None
    table = RunResult(folder / "run", run.summary, {}).rounds
    return {"round_s": spread(table["wall_s"].tolist()[1:], 4), "memory_mb": found}


def said(log: Path, words: str) -> None:
    """Wait until a process has said something."""
    end = time.monotonic() + LIMIT_S
    while words not in log.read_text():
        if time.monotonic() > end:
            raise SystemExit(f"{log.name}: {log.read_text()[-2000:]}")
        time.sleep(0.2)


class Flower:
    """A SuperLink and its SuperNodes, until they are closed."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder, self.tools = folder, library / "bin"
        self.port = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []
        (folder / "home").mkdir()
        enrol_party(
            Authority(folder.parent / "fedrt" / "ca"),
            Party("edge", "edge-0"),
            folder / "keys",
            hosts=["127.0.0.1"],
        )
        self.keys = {"ca": "ca.pem", "cert": "edge-0.pem", "key": "edge-0.key"}
        self.keys = {name: str(folder / "keys" / file) for name, file in self.keys.items()}
        config = CONFIG.format(port=self.port, ca=self.keys["ca"])
        (folder / "home" / "config.toml").write_text(config)
        paths = [str(self.tools), str(Path(sys.executable).parent), os.environ["PATH"]]
        self.variables = environment() | {
            "PYTHONPATH": str(library),
            "PATH": os.pathsep.join(paths),
            "FLWR_HOME": str(folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
        }

    def start(self, name: str, tool: str, *words: str) -> int:
        """Start a process; its number."""
        log = self.folder / f"{name}.log"
        served = ["--ssl-certfile", self.keys["cert"], "--ssl-keyfile", self.keys["key"]]
        served += ["--ssl-ca-certfile", self.keys["ca"], "--host", "127.0.0.1"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [self.tools / tool, *served, *words],
                env=self.variables,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )
        self.processes.append(process)
        return process.pid

    def run(self, rounds: int) -> dict[str, Any]:
        """Run the app; when its rounds began, and how many clients answered."""
        out = self.folder / "rounds.json"
        config = f"rounds={rounds} clients={EDGES * DEVICES} out='{out}'"
        subprocess.run(
            [self.tools / "flwr", "run", APP, "here", "--stream", "--run-config", config],
            env=self.variables,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=LIMIT_S,
            cwd=self.folder,
        )
        if not out.is_file():
            raise SystemExit((self.folder / "superlink.log").read_text()[-3000:])
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    def close(self) -> None:
        """End all processes and what they have started, kindly first: they wait for their own."""
        pids = [pid for each in self.processes for pid in descendants(each.pid)]
        for each in self.processes:
            each.terminate()
        end = time.monotonic() + STOP_S
        for each in self.processes:
            with suppress(subprocess.TimeoutExpired):
                each.wait(max(end - time.monotonic(), 0.1))
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for each in self.processes:
            each.wait(60)


def flower_rounds(folder: Path, library: Path, rounds: int) -> dict[str, Any]:
    """Seconds of rounds by Flower's deployment."""
    folder.mkdir()
    flower = Flower(folder, library)
    link = ("--port", str(flower.port), "--disable-runtime-dependency-installation")
    home = f"127.0.0.1:{flower.port}"
    try:
        flower.start("superlink", "flower-superlink", *link)
        said(folder / "superlink.log", "Uvicorn running")
        pids = []
        for n in range(EDGES * DEVICES):
            own = ("--superlink", home, "--root-certificates", flower.keys["ca"])
            own = (*own, "--port", str(free_port()))
            pids.append(flower.start(f"node-{n}", "flower-supernode", *own))
        for n in range(EDGES * DEVICES):
            said(folder / f"node-{n}.log", "Starting Flower SuperExec")
        time.sleep(SETTLE_S)
        memory = Memory(pids)
        found = flower.run(rounds)
        used = memory.table()
    finally:
        flower.close()
    if found["answers"] != [EDGES * DEVICES] * rounds:
        raise SystemExit(f"answers of clients: {found['answers']}")
    began = found["began"]
    taken = [end - start for start, end in pairwise(began)]
    return {"round_s": spread(taken[1:], 3), "memory_mb": used}


def version_in(library: Path) -> str:
    """The version of Flower in a folder."""
    names = {each.metadata["Name"]: each.version for each in distributions(path=[str(library)])}
    return names["flwr"]


def main() -> None:
    """Measure both, and print or save it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--flower", type=Path, default=Path(".venv/flower"))
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    library = args.flower.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no process is left
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fedrt").mkdir()
        ours = fedrt_rounds(folder / "fedrt", 5 * args.rounds + 1)
        theirs = flower_rounds(folder / "flower", library, args.rounds + 1)
    ratio = theirs["round_s"]["median"] / ours["round_s"]["median"]
    found = {
        "fedrt": ours,
        "flower": theirs | {"version": version_in(library)},
        "rounds of FedRT in one of Flower": round(ratio),
    }
    tell(found, args.save)


if __name__ == "__main__":
    main()
