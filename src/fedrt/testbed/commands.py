"""The commands of a testbed's parties, and what brings them into their namespaces."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrt.testbed.layout import PORT, Host, Layout

FloatArray = NDArray[np.float64]

NAMESPACES = "/run/netns"
REAL_TIME = ("chrt", "--rr", "1")
NICE = ("nice", "-n", "-10")
WAIT_S = 600
"""How long the coordinator waits for parties that all start at once."""


@dataclass(frozen=True)
class Given:
    """What a testbed runs."""

    folder: Path
    """With scenario.toml, data and certificates of every party; the run goes to `run` in it."""
    layout: Layout
    policy: str
    seed: int
    backhaul_bps: Callable[[int], FloatArray]
    """The link speeds of a global round."""
    global_rounds: int
    round_trip_s: float = 0.0
    cpu: str = "cgroup"
    keep: bool = False
    allow_code: bool = False


def party_words(given: Given, host: Host) -> list[str]:
    """The command of a party, without `fedrt`."""
    name, layout = host.name, given.layout
    common = ["--seed", str(given.seed), "--ca", f"parties/{name}/ca.pem"]
    common += ["--allow-code"] if given.allow_code else []
    if host.role == "coordinator":
        edges = [layout.edge_address(each.number) for each in layout.of("edge")]
        own = ["coordinator", "scenario.toml", "--edges", ",".join(edges)]
        own += ["--data", "data/server.npz", "--out", "run", "--policy", given.policy]
        return [*own, "--wait", str(WAIT_S), *common]
    own = [host.role, name, "--scenario", "scenario.toml", "--state", f"state/{name}"]
    if host.role == "edge":
        own += ["--listen", f"{host.address}:{PORT}"]
        return [*own, "--bandwidth", "tc", "--interface", "eth0", *common]
    edge = layout.edge_address(layout.edge_of_device[host.number])
    own += ["--edge", edge, "--data", f"data/{name}.npz", "--preload"]
    own += ["--cpu", given.cpu, "--cpu-share", repr(host.cpu_share), "--meter", "none"]
    own += ["--core-step-s", repr(host.core_step_s)]
    return [*own, *common]


def inside(namespace: str) -> list[str]:
    """What a command begins with that runs in a namespace.

    Not `ip netns exec`: it mounts /sys anew, and control groups are gone then.
    """
    return ["nsenter", f"--net={NAMESPACES}/{namespace}", "--"]


def whole_command(host: Host, words: Sequence[str], *, tied: bool) -> list[str]:
    """The command of a party in its namespace.

    Tied, it ends with the process that starts it, so that a killed testbed does not run on. Devices
    that train must not hold up servers, which stand for machines of their own.
    """
    tie = ["setpriv", "--pdeathsig", "TERM", "--"] if tied and shutil.which("setpriv") else []
    first = () if host.role == "device" else servers_first()
    return [*inside(host.namespace), *tie, *first, sys.executable, "-P", "-m", "fedrt", *words]


@cache
def servers_first() -> tuple[str, ...]:
    """What a command begins with that is to have a core as soon as it wants one.

    That is real-time priority, as under a mere niceness of -10 the kernel lets a device that trains
    end its slice first: milliseconds for each message that passes. Not every machine allows it.
    """
    try:
        tried = subprocess.run([*REAL_TIME, "true"], capture_output=True, check=False)
    except OSError:
        return NICE
    return NICE if tried.returncode else REAL_TIME
