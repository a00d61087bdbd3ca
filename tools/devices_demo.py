"""A run on real devices, all of them processes of this machine, with its page at the end.

    python tools/devices_demo.py runs/devices-demo

Makes an authority and certificates, splits the digits, starts two edge servers with two devices
each and the coordinator over loopback, kills one device in the middle (SIGKILL) and starts it
again; the round that it was killed in waits for it. Whatever ends it, its processes end with it.
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
num_edges = 2
num_devices = 4
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

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = free_ports(2)
        self.processes: dict[str, subprocess.Popen[Any]] = {}
        self.edge_of_device: list[int] = []

    def fedrt(self, *words: object) -> None:
        """Run a command to its end; an error ends the demonstration."""
        print("$ fedrt", *words, flush=True)
        subprocess.run(command(*words), cwd=self.folder, check=True, stdout=subprocess.DEVNULL)

    def prepare(self, rounds: int) -> None:
        """The scenario, certificates for every party, and a data file for every device."""
        self.folder.mkdir(parents=True)
        (self.folder / "scenario.toml").write_text(SCENARIO.format(rounds=rounds))
        scenario = load_scenario(str(self.folder / "scenario.toml"))
        self.edge_of_device = edge_of_devices(scenario).tolist()
        self.fedrt("enrol", "init", "ca")
        parties = [("coordinator", "coordinator")]
        parties += [("edge", f"edge-{c}") for c in range(2)]
        parties += [("device", f"device-{n}") for n in range(4)]
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
        for number in range(4):
            self.start_device(number)
        edges = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        given = ["scenario.toml", "--edges", edges, "--data", "data/server.npz", "--out", "run"]
        given += ["--least-devices", 4, "--least-deadline", LEAST_DEADLINE_S]
        coordinator = self.start("coordinator", *given)
        assert coordinator.stdout is not None
        for line in coordinator.stdout:
            print(line, end="", flush=True)
            found = ROUND.match(line)
            if found is not None and int(found[1]) == max(rounds // 3, 1):
                self.kill(f"device-{VICTIM}")
                self.start_device(VICTIM)
        if coordinator.wait():
            log = (self.folder / "coordinator.log").read_text()
            raise SystemExit(f"the coordinator ended with {coordinator.returncode}:\n{log}")

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
def parties(folder: Path) -> Iterator[Demo]:
    """A demonstration whose processes end with the block, however it ends."""
    demo = Demo(folder)
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
    parser.add_argument("--rounds", type=int, default=10, help="global rounds; default: 10")
    args = parser.parse_args()
    if args.out.exists():
        raise SystemExit(f"{args.out}: exists already: give another folder")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        with parties(args.out.absolute()) as demo:
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
