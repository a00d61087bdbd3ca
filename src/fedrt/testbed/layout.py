"""Who is in a testbed: the parties, their namespaces and addresses, and their shares of the CPU."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError
from fedrt.scenario import Scenario
from fedrt.world.fleet import draw_fleet

MOST_LOAD = 0.85
"""The part of the machine that training may take; the rest is for networks and edge servers."""
USUAL_LOAD = 0.8
"""The part that it takes where nothing else is asked for."""
PORT = 7100
"""On which every edge server listens, in its own namespace."""
NETWORK_BITS = 16
FILE = "testbed.json"
"""In the run folder: the emulated network, for the page."""
PER_BLOCK = 250
MOST_PARTIES = 250 * PER_BLOCK

BoolMatrix = NDArray[np.bool_]


@dataclass(frozen=True)
class Host:
    """One party, in its own namespace."""

    name: str
    """The party's: coordinator, edge-0, device-3."""
    namespace: str
    address: str
    cpu_share: float = 0.0
    """Of a device: the share of one core that stands for its `cpu_max_hz`."""
    core_step_s: float = 0.0
    """Of a device: the seconds of a local step on a whole core, which it keeps; 0: no pace."""

    @property
    def role(self) -> str:
        """What the party is: coordinator, edge or device."""
        return self.name.partition("-")[0]

    @property
    def number(self) -> int:
        """The party's number in the scenario."""
        return int(self.name.rpartition("-")[2])


@dataclass(frozen=True)
class Layout:
    """A whole testbed before anything of it is there."""

    tag: str
    """What tells its namespaces from those of others."""
    hosts: tuple[Host, ...]
    edge_of_device: tuple[int, ...]
    links: BoolMatrix
    """Which edge servers reach each other."""
    core_hz: float
    """The frequency that one whole core of this machine stands for."""
    cores: int
    """How many of them there are."""

    @property
    def switch(self) -> str:
        """The namespace of the network between the parties."""
        return f"fedrt-{self.tag}-net"

    @property
    def namespaces(self) -> list[str]:
        """All of them, the network's first."""
        return [self.switch, *(host.namespace for host in self.hosts)]

    def of(self, role: str) -> list[Host]:
        """The hosts of a role, in the order of their numbers."""
        return [host for host in self.hosts if host.role == role]

    def paced(self, core_step_s: Sequence[float]) -> Layout:
        """The same testbed, with a pace for each device."""
        hosts = [
            replace(host, core_step_s=core_step_s[host.number]) if host.role == "device" else host
            for host in self.hosts
        ]
        return replace(self, hosts=tuple(hosts))

    def edge_address(self, number: int) -> str:
        """Where an edge server listens."""
        return f"{self.of('edge')[number].address}:{PORT}"


def lay_out(
    scenario: Scenario, seed: int, links: BoolMatrix, cores: int, core_ghz: float | None
) -> Layout:
    """The testbed of a scenario on a machine with so many cores; an error if it does not fit."""
    fleet = draw_fleet(scenario, seed)
    names = ["coordinator"]
    names += [f"edge-{c}" for c in range(fleet.num_edges)]
    names += [f"device-{n}" for n in range(fleet.num_devices)]
    if len(names) > MOST_PARTIES:
        raise InputError(f"{len(names):,} parties: must be at most {MOST_PARTIES:,}")
    core_hz = core_ghz_of(fleet.cpu_max_hz, cores, core_ghz) * 1e9
    shares = np.minimum(fleet.cpu_max_hz / core_hz, 1.0)  # rounding may leave a little more
    tag = secrets.token_hex(3)
    hosts = []
    for place, name in enumerate(names):
        share = 0.0
        if name.startswith("device-"):
            share = float(shares[place - 1 - fleet.num_edges])
        block, rest = divmod(place, PER_BLOCK)
        hosts.append(Host(name, f"fedrt-{tag}-{name}", f"10.77.{block}.{rest + 1}", share))
    edges = tuple(int(c) for c in fleet.edge_of_device)
    return Layout(tag, tuple(hosts), edges, links, core_hz, cores)


def core_ghz_of(
    cpu_max_hz: NDArray[np.float64], cores: int, core_ghz: float | None = None
) -> float:
    """The frequency that one core stands for, in GHz; an error if the devices need too much of it.

    By default all devices at full speed take four fifths of the machine, and none more than a core.
    """
    total, fastest = float(cpu_max_hz.sum()) / 1e9, float(cpu_max_hz.max()) / 1e9
    if core_ghz is None:
        return max(total / (USUAL_LOAD * cores), fastest)
    most = MOST_LOAD * cores
    least_ghz = math.ceil(100 * max(total / most, fastest)) / 100
    cure = f"give `core_ghz` {least_ghz:g} or more"
    if total / core_ghz > most:
        rule = f"must be at most {most:.2f}, which is {MOST_LOAD:.0%} of {cores}"
        raise InputError(
            f"at full speed all devices take {total / core_ghz:.2f} cores: {rule}; {cure}"
        )
    if fastest > core_ghz:
        share = fastest / core_ghz
        raise InputError(
            f"at full speed a device takes {share:.2f} cores: must be at most 1; {cure}"
        )
    return core_ghz
