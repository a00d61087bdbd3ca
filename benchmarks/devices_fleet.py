"""The parties of a run as processes of their own on this machine, over loopback.

Certificates and data files are made on the spot. Used by the benchmarks of real devices.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from provenance import save

from fedrt.data.digest import data_digest
from fedrt.data.partitions import load_divided
from fedrt.data.split import write_files
from fedrt.devices.security import Files, Party
from fedrt.devices.security.authority import Authority, enrol_party, make_authority_folder
from fedrt.scenario import Scenario, load_scenario, scenario_text
from fedrt.world.fleet import edge_of_devices

SMALL = (
    "fleet.cycles_per_sample=1e6",
    "fleet.energy_j_per_edge_round=1.0",
    'channel={kind="uniform",low_db=10,high_db=15}',
    'bandwidth={kind="constant",hz=2e7}',
    'backhaul={kind="uniform",low_bps=1e8,high_bps=2e8}',
    'base_graph={kind="complete"}',
    'control={kappa=0.5,mixing="metropolis",budgets="best-effort",energy_horizon="policy"}',
    'learning={dataset="digits",model="small-cnn",model_bits=194880,learning_rate=0.05}',
    'learning={batch_size=4,evaluate_every=1,partition={kind="iid"}}',
    "learning.normalise={mean=0.3,deviation=0.4}",
)


def small(edges: int, devices: int, rounds: int, *settings: str) -> Scenario:
    """Digits on a few edge servers with so many devices each; training takes milliseconds."""
    sizes = f"fleet={{num_edges={edges},num_devices={edges * devices}}}"
    clusters = f"fleet.cluster_sizes={[devices] * edges}"
    length = f"rounds={{global_rounds={rounds},edge_rounds=2,local_steps=2,gossip_steps=2}}"
    return load_scenario("quickstart", [sizes, clusters, length, *SMALL, *settings])


def tell(found: dict[str, Any], path: Path | None) -> None:
    """Print what was measured, and write it to a file if there is to be one."""
    print(json.dumps(found, indent=1))
    save(path, found)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Fleet:
    """Processes of one run, by name: edge-0, device-0, ..., coordinator."""

    def __init__(self, folder: Path, scenario: Scenario) -> None:
        self.folder, self.scenario = folder, scenario
        make_authority_folder(folder / "ca", name="benchmark", days=3650)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ports = [free_port() for _ in range(scenario.fleet.num_edges)]
        self.doors = list(self.ports)
        """The ports at which devices reach their edge servers."""
        (folder / "data").mkdir()
        self.edge_of_device = edge_of_devices(scenario).tolist()
        dataset, parts = load_divided(scenario.learning, None, edge_of_devices(scenario), 0)
        write_files(folder / "data", dataset, parts, 0, data_digest(dataset))
        (folder / "scenario.toml").write_text(scenario_text(scenario, anywhere=True))
        self.names = [f"edge-{c}" for c in range(scenario.fleet.num_edges)]
        self.names += [f"device-{n}" for n in range(scenario.fleet.num_devices)]
        for name in (*self.names, "coordinator"):
            self.files(name)

    def files(self, name: str) -> Files:
        """The certificate and key of a party, signed when they are first asked for."""
        place = self.folder / "keys" / name
        if not place.exists():
            role = name.partition("-")[0]
            enrol_party(Authority(self.folder / "ca"), Party(role, name), place)
        return Files.in_folder(place, name)

    def command(self, name: str, *more: str) -> list[str]:
        """The command of a party."""
        role, _, number = name.partition("-")
        files = self.files(name)
        words = [sys.executable, "-m", "fedrt", role]
        scenario = str(self.folder / "scenario.toml")
        if role == "coordinator":
            edges = ",".join(f"127.0.0.1:{port}" for port in self.ports)
            words += [scenario, "--edges", edges, "--out", str(self.folder / "run")]
            words += ["--data", str(self.folder / "data" / "server.npz")]
        else:
            words += [name, "--scenario", scenario, "--state", str(self.folder / "state" / name)]
        if role == "edge":
            words += ["--listen", f"127.0.0.1:{self.ports[int(number)]}"]
        if role == "device":
            door = self.doors[self.edge_of_device[int(number)]]
            words += ["--edge", f"127.0.0.1:{door}"]
            words += ["--data", str(self.folder / "data" / f"{name}.npz")]
        words += ["--ca", str(files.ca), "--certificate", str(files.certificate)]
        return [*words, "--key", str(files.key), "--allow-code", *more]

    def start(self, name: str, *more: str) -> None:
        """Start a party; what it says goes to a file."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self.command(name, *more),
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(),
            )

    def kill(self, name: str) -> None:
        """Kill a party with SIGKILL."""
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait(60)

    def close(self) -> None:
        """Kill all parties."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait(60)

    def resident_bytes(self, name: str) -> int:
        """The memory that a party has in use, with the processes that it has started."""
        pid = self.processes[name].pid
        return sum(map(resident_bytes, [pid, *children_of(pid)]))


def environment() -> dict[str, str]:
    """The environment of a party: one thread, and the models of tests on its path."""
    tests = str(Path(__file__).parents[1] / "tests")
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), tests]))
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def resident_bytes(pid: int) -> int:
    """The memory that a process has in use."""
    text = Path(f"/proc/{pid}/statm").read_text()
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found


class CuttingProxy:
    """Carries bytes between devices and an edge server, and cuts connections when armed."""

    LEAST = 2000
    """A device sends as many bytes at once only as part of an upload."""

    def __init__(self, port: int, chance: random.Random) -> None:
        self.port, self.chance = port, chance
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.door = int(self.listener.getsockname()[1])
        self.armed = 0
        self.cuts = 0
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self.listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self.port), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            for each in (near, far):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._carry, args=(far, near, False), daemon=True).start()
            threading.Thread(target=self._carry, args=(near, far, True), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, upward: bool) -> None:
        burst, last = 0, 0.0
        try:
            while data := source.recv(4096):
                now = time.monotonic()
                burst = len(data) + (burst if now - last < 0.2 else 0)
                last = now
                if upward and burst > self.LEAST and self._cuts():
                    sink.sendall(data[: self.chance.randrange(len(data))])
                    break
                sink.sendall(data)
        except OSError:
            pass
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _cuts(self) -> bool:
        with self.lock:
            if self.armed == 0:
                return False
            self.armed -= 1
            self.cuts += 1
            return True
