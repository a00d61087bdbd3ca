"""All parties of a run on real connections, in one process: edge servers and devices as tasks."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from fedrt.devices.common.settings import CoordinatorSettings, DeviceSettings, EdgeSettings
from fedrt.devices.coordinator.run import coordinate
from fedrt.devices.device.agent import DeviceAgent
from fedrt.devices.edge.serve import serve
from fedrt.scenario import Scenario, scenario_text
from fedrt.world.fleet import edge_of_devices
from support.children import LIMIT_S
from support.enrolment import Site, make_site
from support.parties import split


@dataclass
class Running:
    """A fleet of parties that can be started and stopped one by one."""

    folder: Path
    scenario: Scenario
    seed: int = 0
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    addresses: dict[int, str] = field(default_factory=dict)
    tasks: dict[str, Future[Any]] = field(default_factory=dict)
    stops: dict[str, asyncio.Event] = field(default_factory=dict)
    _site: Site | None = None
    _thread: Thread | None = None

    def prepare(self) -> None:
        """Certificates, data and the scenario's file; the event loop starts."""
        self._site = make_site(self.folder)
        (self.folder / "data").mkdir()
        split(self.folder / "data", self.scenario, self.seed)
        (self.folder / "scenario.toml").write_text(scenario_text(self.scenario, anywhere=True))
        self._thread = Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    @property
    def site(self) -> Site:
        assert self._site is not None
        return self._site

    def given(self, role: str, name: str) -> dict[str, Any]:
        """The settings that every party has."""
        files = self.site.files(role, name)
        return {
            "scenario_file": str(self.folder / "scenario.toml"),
            "seed": self.seed,
            "ca": str(files.ca),
            "certificate": str(files.certificate),
            "key": str(files.key),
            "revoked": str(files.revoked),
            "name": name,
        }

    def start_edge(self, number: int, **more: Any) -> None:
        """Start an edge server, on its old address if it had one."""
        name = f"edge-{number}"
        listen = self.addresses.get(number, "127.0.0.1:0")
        state = str(self.folder / "state" / name)
        settings = EdgeSettings(
            **self.given("edge", name), listen=listen, state_folder=state, **more
        )
        port: Future[int] = Future()
        self._start(name, lambda stop: serve(settings, stop, port.set_result))
        self.addresses[number] = f"127.0.0.1:{port.result(LIMIT_S)}"

    def start_device(self, number: int, **more: Any) -> None:
        """Start the agent of a device."""
        name, edge = f"device-{number}", int(edge_of_devices(self.scenario)[number])
        settings = DeviceSettings(
            **self.given("device", name),
            edge=self.addresses[edge],
            data=str(self.folder / "data" / f"device-{number}.npz"),
            state_folder=str(self.folder / "state" / name),
            **({"meter": "none"} | more),
        )

        async def attend(stop: asyncio.Event) -> None:
            await DeviceAgent(settings).serve(stop)

        self._start(name, attend)

    def start_all(self, **more: Any) -> None:
        """Start all edge servers and devices."""
        for number in range(self.scenario.fleet.num_edges):
            self.start_edge(number, **more)
        for number in range(self.scenario.fleet.num_devices):
            self.start_device(number)

    def _start(self, name: str, serve_: Any) -> None:
        async def main() -> None:
            self.stops[name] = asyncio.Event()
            await serve_(self.stops[name])

        self.tasks[name] = asyncio.run_coroutine_threadsafe(main(), self.loop)

    def close(self) -> None:
        """End the event loop, and what is left on it."""
        asyncio.run_coroutine_threadsafe(cancel_all(), self.loop).result(LIMIT_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        assert self._thread is not None
        self._thread.join(LIMIT_S)
        self.loop.close()

    def cut(self, name: str) -> None:
        """End a party without a word, as if it had been killed."""
        self.tasks.pop(name).cancel()

    def stop(self, name: str) -> None:
        """Tell a party to stop, and wait until it has."""
        self.loop.call_soon_threadsafe(self.stops[name].set)
        self.tasks.pop(name).result(LIMIT_S)

    def settings(self, policy: str = "ce-fedavg", **more: Any) -> CoordinatorSettings:
        """The settings of the coordinator."""
        edges = tuple(self.addresses[c] for c in range(self.scenario.fleet.num_edges))
        data = str(self.folder / "data" / "server.npz")
        given = self.given("coordinator", "coordinator")
        waits = {"wait_s": LIMIT_S, "least_deadline_s": LIMIT_S}
        return CoordinatorSettings(**given, edges=edges, data=data, policy=policy, **(waits | more))

    def coordinate(self, policy: str = "ce-fedavg", progress=None, **more: Any) -> Any:
        """Carry out the run; its summary."""
        settings = self.settings(policy, **more)
        out = self.folder / "run"
        return coordinate(settings, out, "fedrt coordinator", progress, lambda line: None)


async def cancel_all() -> None:
    """Cancel all other tasks of the event loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def running(folder: Path, scenario: Scenario, seed: int = 0):
    """A fleet whose parties all end with the block."""
    fleet = Running(folder, scenario, seed)
    fleet.prepare()
    try:
        yield fleet
    finally:
        for name in sorted(fleet.tasks):  # devices first
            if not fleet.tasks[name].done():
                fleet.stop(name)
        fleet.close()
