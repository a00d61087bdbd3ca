"""A testbed from its first namespace to its last: started, watched through a run, and removed."""

from __future__ import annotations

import os
import queue
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.system.files import make_folder, write_json
from fedrt.system.signals import terminable, uninterrupted
from fedrt.testbed.commands import Given, party_words
from fedrt.testbed.layout import FILE, PORT, Host, Layout
from fedrt.testbed.leftovers import Standing, clean, process_began, refuse_second
from fedrt.testbed.network import Network
from fedrt.testbed.processes import PartyError, Processes

FloatArray = NDArray[np.float64]
Tell = Callable[[str], None]

LOOK_S = 0.2
MOST_UNENFORCED = 20
"""Lines on what cannot be enforced that are passed on; the logs have all."""
ROUND = re.compile(r"(?:.*going on after )?global round (\d+)(?::|$)")


class Speeds:
    """Link speeds that were emulated so far, and how long it took to set them."""

    def __init__(self, edges: int) -> None:
        self.least = np.full((edges, edges), np.inf)
        self.most, self.total = np.zeros((edges, edges)), np.zeros((edges, edges))
        self.seconds: list[float] = []

    def add(self, bps: FloatArray, seconds: float) -> None:
        """Note the speeds of one more global round."""
        self.least, self.most = np.minimum(self.least, bps), np.maximum(self.most, bps)
        self.total += bps
        self.seconds.append(seconds)

    def table(self) -> dict[str, Any]:
        """For the page."""
        rounds = len(self.seconds)
        if not rounds:
            return {"rounds": 0}
        return {
            "rounds": rounds,
            "least_bps": self.least.tolist(),
            "mean_bps": (self.total / rounds).tolist(),
            "most_bps": self.most.tolist(),
            "set_s": {
                "median": float(np.median(self.seconds)),
                "most": float(np.max(self.seconds)),
            },
        }


class Testbed:
    """One testbed while it stands."""

    __test__ = False  # not a test of pytest's

    def __init__(self, given: Given, tell: Tell) -> None:
        self.given, self.tell = given, tell
        self.network = Network(given.layout, given.round_trip_s)
        self.processes = Processes(given.folder / "logs", given.folder, outlive=given.keep)
        self.speeds = Speeds(len(given.layout.of("edge")))
        self.unenforced: list[str] = []
        """What parties could not hold this machine to, in their words; the first of it."""
        pid = os.getpid()
        self.standing = Standing(
            given.layout.tag,
            pid,
            process_began(pid),
            given.layout.namespaces,
            [str(self._state(host).absolute()) for host in given.layout.hosts],
        )

    def run(self) -> None:
        """The whole run."""
        self.standing.write()
        make_folder(self.given.folder / "logs", parents=True)
        self.network.up()
        for line in self.network.missing:
            self.tell(line)
        self._shape(0)
        for role in ("edge", "device", "coordinator"):
            for host in self.given.layout.of(role):
                self.processes.start(host, party_words(self.given, host))
        self._attend()

    def _attend(self) -> None:
        """Until the coordinator has ended: set link speeds, and start parties that are killed."""
        while not (self.processes.has_ended("coordinator") and self.processes.lines.empty()):
            try:
                self._hear(self.processes.lines.get(timeout=LOOK_S))
            except queue.Empty:
                for name in self.processes.look():
                    self.tell(f"{name} was killed: started again")
        code = self.processes.parties["coordinator"].process.wait()
        if code:
            words = self.processes.last_words("coordinator")
            raise PartyError(f"the coordinator ended with {code}: {words}")

    def _hear(self, line: str) -> None:
        self.tell(line)
        found = ROUND.match(line)
        if found is not None:
            self._shape(int(found[1]))
        self._tell_unenforced()

    def _tell_unenforced(self) -> None:
        new = self.processes.unenforced()[: MOST_UNENFORCED - len(self.unenforced)]
        self.unenforced += new
        for line in new:
            self.tell(line)

    def _shape(self, t: int) -> None:
        """Set the link speeds of a global round; there are none after the last."""
        if t >= self.given.global_rounds:
            return
        bps, began = self.given.backhaul_bps(t), time.monotonic()
        self.network.shape(bps)
        self.speeds.add(bps, time.monotonic() - began)

    def _state(self, host: Host) -> Path:
        return self.given.folder / "state" / host.name

    def write(self) -> None:
        """Write what was emulated into the run folder."""
        folder = self.given.folder / "run"
        if not folder.is_dir():
            return
        layout = self.given.layout
        edges = layout.edge_of_device
        found = {
            "core_hz": layout.core_hz,
            "cpu": self.given.cpu,
            "missing": self.network.missing + self.unenforced,
            "hosts": [
                {
                    "name": host.name,
                    "address": host.address,
                    "namespace": host.namespace,
                    "cpu_share": host.cpu_share,
                    "core_step_s": host.core_step_s,
                    "edge": edges[host.number] if host.role == "device" else None,
                }
                for host in layout.hosts
            ],
            "links": layout.links.tolist(),
            "speeds": self.speeds.table(),
        }
        write_json(folder / FILE, found)

    def close(self, *, kept: bool) -> None:
        """Leave it standing, or leave the machine as it was."""
        if kept:
            self.standing.kept = True
            self.standing.write()
            return
        self.processes.stop()
        self.standing.remove()


def make_room(tell: Tell) -> None:
    """Remove what killed testbeds have left; an error if another one is running."""
    for each in clean():
        tell(f"removed what an earlier testbed had left: {len(each.namespaces)} namespaces")
    refuse_second()


def run_testbed(given: Given, tell: Tell) -> None:
    """Run a scenario in a testbed, which is gone afterwards, however the run ends."""
    make_room(tell)
    bed = Testbed(given, tell)
    kept = False
    with terminable(), terminable(signal.SIGHUP):
        try:
            bed.run()
            kept = given.keep
        finally:
            with uninterrupted(signal.SIGHUP):
                bed.close(kept=kept)
                bed.write()
    if kept:
        for line in how_to_look(given.layout):
            tell(line)


def how_to_look(layout: Layout) -> list[str]:
    """What to type to look at a testbed that stands."""
    edge = layout.of("edge")[0].namespace
    return [
        "the testbed stands; to look at it:",
        f"  ip netns list | grep fedrt-{layout.tag}",
        f"  ip netns exec {edge} tc -s class show dev fedrt{PORT}",
        f"  ip netns exec {layout.switch} tc -s class show dev p-edge-0",
    ]
