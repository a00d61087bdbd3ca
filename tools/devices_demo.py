"""A run on real devices, all of them processes of this machine, with its page at the end.

    python tools/devices_demo.py runs/devices-demo [--edges 3] [--devices 4] [--policy fedrt]

Makes an authority and certificates, splits the digits, starts three edge servers, four devices and
the coordinator over loopback, kills one device and later the coordinator in the middle (SIGKILL)
and starts them again: the round in which the device was killed waits for it, and the run goes on
where its coordinator was. Whatever ends it, its processes end with it.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedrt.scenario import load_scenario
from fedrt.world.fleet import edge_of_devices

SCENARIO = """\
extends = "quickstart"
name = "devices-demo"
[fleet]
num_edges = {edges}
num_devices = {devices}
[rounds]
global_rounds = {rounds}
[learning]
normalise = {{ mean = 0.3052, deviation = 0.3765 }}
"""
VICTIM = 1
"""The device that is killed."""
LEAST_DEADLINE_S = 60
"""On a busy machine several processes may load torch for long before their first update."""
STOP_S = 10.0
"""What a party gets to stop by itself."""
ROUND = re.compile(r"global round (\d+):")
ENDING = (signal.SIGTERM, signal.SIGHUP)


class Demo:
    """The processes of a demonstration and the folder that they work in."""

    def __init__(
        self, folder: Path, edges: int = 3, devices: int = 4, policy: str = "fedrt"
    ) -> None:
        self.folder, self.devices, self.policy = folder, devices, policy
        self.ports = free_ports(edges)
        self.processes: dict[str, subprocess.Popen[Any]] = {}
        self.edge_of_device: list[int] = []

    def fedrt(self, *words: object) -> None:
        """Run a command to its end; an error ends the demonstration."""
        print("$ fedrt", *words, flush=True)
        subprocess.run(command(*words), cwd=self.folder, check=True, stdout=subprocess.DEVNULL)

    def prepare(self, rounds: int) -> None:
        """The scenario, certificates for every party, and a data file for every device."""
        self.folder.mkdir(parents=True)
        sizes = {"edges": len(self.ports), "devices": self.devices, "rounds": rounds}
        (self.folder / "scenario.toml").write_text(SCENARIO.format(**sizes))
        scenario = load_scenario(str(self.folder / "scenario.toml"))
        self.edge_of_device = edge_of_devices(scenario).tolist()
        self.fedrt("enrol", "init", "ca")
        parties = [("coordinator", "coordinator")]
        parties += [("edge", f"edge-{c}") for c in range(len(self.ports))]
        parties += [("device", f"device-{n}") for n in range(self.devices)]
        for role, name in parties:
            self.fedrt("enrol", "sign", "ca", "--role", role, "--name", name)
        self.fedrt("data", "split", "scenario.toml", "--out", "data")

    def start(self, name: str, *words: object) -> subprocess.Popen[Any]:
        """Start a party, with its log in a file of its own."""
        role = name.partition("-")[0]
        given = [role, *([name] if role != "coordinator" else []), *words]
        given += ["--scenario", "scenario.toml"] if role != "coordinator" else []
        given += ["--ca", f"{name}/ca.pem"]
        print("$ fedrt", *given, flush=True)
        is_coordinator = role == "coordinator"
        with (self.folder / f"{name}.log").open("ab") as log:
            # A session of its own: Ctrl-C comes here, and here it is decided who ends when.
            self.processes[name] = subprocess.Popen(
                command(*given),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if is_coordinator else log,
                stderr=log,
                text=is_coordinator,
                start_new_session=True,
            )
        return self.processes[name]

    def start_device(self, number: int) -> None:
        """Start a device's agent."""
        edge = f"127.0.0.1:{self.ports[self.edge_of_device[number]]}"
        self.start(f"device-{number}", "--edge", edge, "--data", f"data/device-{number}.npz")

    def run(self, rounds: int) -> None:
        """All rounds; a device is killed after the first third of them and started again."""
        for c, port in enumerate(self.ports):
            self.start(f"edge-{c}", "--listen", f"127.0.0.1:{port}")
        for number in range(self.devices):
            self.start_device(number)
        edges = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        given = ["scenario.toml", "--edges", edges, "--data", "data/server.npz", "--out", "run"]
        given += ["--least-devices", self.devices, "--least-deadline", LEAST_DEADLINE_S]
        given += ["--policy", self.policy]
        self._coordinate(given, max(rounds // 3, 1), max(2 * rounds // 3, 2))
        coordinator = self._coordinate(given)
        if coordinator.wait():
            log = (self.folder / "coordinator.log").read_text()
            raise SystemExit(f"the coordinator ended with {coordinator.returncode}:\n{log}")

    def _coordinate(
        self, given: list[Any], kill_device: int = 0, kill_coordinator: int = 0
    ) -> subprocess.Popen[Any]:
        """Start the coordinator and print its lines; after some rounds a party is killed."""
        coordinator = self.start("coordinator", *given)
        assert coordinator.stdout is not None
        for line in coordinator.stdout:
            print(line, end="", flush=True)
            found = ROUND.match(line)
            done = 0 if found is None else int(found[1])
            if done and done == kill_device:
                self.kill(f"device-{VICTIM}")
                self.start_device(VICTIM)
            if done and done == kill_coordinator:
                self.kill("coordinator")
                break
        return coordinator

    def kill(self, name: str) -> None:
        """End a party as a power cut does."""
        print(f"$ kill -9 {name}", flush=True)
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self) -> None:
        """Tell all parties to stop; end those that do not."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def command(*words: object) -> list[str]:
    """A command of FedRT, with the interpreter that runs this."""
    return [sys.executable, "-P", "-m", "fedrt", *map(str, words)]


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


@contextmanager
def parties(folder: Path, *given: Any) -> Iterator[Demo]:
    """A demonstration whose processes end with the block, however it ends."""
    demo = Demo(folder, *given)
    before = {number: signal.signal(number, _end) for number in ENDING}
    try:
        yield demo
    finally:
        for number in (*ENDING, signal.SIGINT):  # nothing interrupts the cleaning up
            signal.signal(number, signal.SIG_IGN)
        demo.stop()
        for number, handler in {**before, signal.SIGINT: signal.default_int_handler}.items():
            signal.signal(number, handler)


def _end(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """Prepare, run and write the page."""
    parser = argparse.ArgumentParser(description="a run on real devices over loopback")
    parser.add_argument("out", type=Path, help="a folder that is not there yet")
    parser.add_argument("--edges", type=int, default=3, help="edge servers; default: 3")
    parser.add_argument("--devices", type=int, default=4, help="devices of all; default: 4")
    parser.add_argument("--policy", default="fedrt", help="default: fedrt")
    parser.add_argument("--rounds", type=int, default=10, help="global rounds; default: 10")
    args = parser.parse_args()
    if args.out.exists():
        raise SystemExit(f"{args.out}: exists already: give another folder")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        with parties(args.out.absolute(), args.edges, args.devices, args.policy) as demo:
            demo.prepare(args.rounds)
            demo.run(args.rounds)
            demo.fedrt("report", "run")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(error.returncode) from None
    print(f"its page: {args.out / 'run' / 'page.html'}")


if __name__ == "__main__":
    main()
