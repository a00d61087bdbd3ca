"""The devices and edge servers of a scenario as arrays, with what is drawn once for each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.arrays import freeze_arrays
from fedrt.scenario.model import Scenario
from fedrt.scenario.tables.fields import PerDevice
from fedrt.seeding import stream, uniforms
from fedrt.world.cpu_tables import measured_cpus
from fedrt.world.laws import CpuTables

FloatArray = NDArray[np.float64]
KeyArray = NDArray[np.int64]


@dataclass(frozen=True)
class FleetArrays:
    """The constants of every device, ordered by cluster; keys identify devices in random draws."""

    device_key: KeyArray
    edge_key: KeyArray
    edge_of_device: NDArray[np.int64]
    cycles_per_sample: FloatArray
    capacitance: FloatArray
    tx_power_w: FloatArray
    cpu_min_hz: FloatArray
    cpu_max_hz: FloatArray
    energy_budget_j: FloatArray
    """For the whole run; inf = no limit."""
    idle_power_w: FloatArray | None = None
    rx_power_w: FloatArray | None = None
    cpu: CpuTables | None = None
    """The efficient points of measured computing energies; None: none was measured."""

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def cpu_of(self, who: NDArray[np.int64]) -> CpuTables | None:
        """The measured energies of some of the devices."""
        return None if self.cpu is None else replace(self.cpu, of_device=self.cpu.of_device[who])

    @property
    def num_devices(self) -> int:
        return len(self.device_key)

    @property
    def num_edges(self) -> int:
        return len(self.edge_key)


def draw_fleet(scenario: Scenario, seed: int) -> FleetArrays:
    """The fleet of a scenario under a seed."""
    fleet, rounds = scenario.fleet, scenario.rounds
    keys = np.arange(fleet.num_devices)

    def values(name: str) -> FloatArray:
        return draw_values(getattr(fleet, name), name, keys, seed)

    if fleet.energy_budget_j is not None:
        budget_j = values("energy_budget_j")
    elif fleet.energy_j_per_edge_round is not None:
        edge_rounds = rounds.global_rounds * rounds.edge_rounds
        budget_j = values("energy_j_per_edge_round") * edge_rounds
    else:
        budget_j = np.full(fleet.num_devices, np.inf)

    def maybe(name: str) -> FloatArray | None:
        return None if getattr(fleet, name) is None else values(name)

    cpu_hz = (values("cpu_min_hz"), values("cpu_max_hz"))
    cpu = None
    if fleet.cpu_table is not None:
        everyone = np.zeros(fleet.num_devices, dtype=np.int64)
        cpu, cpu_hz = measured_cpus({0: fleet.cpu_table}, everyone, cpu_hz)
    return FleetArrays(
        device_key=keys,
        edge_key=np.arange(fleet.num_edges),
        edge_of_device=edge_of_devices(scenario),
        cycles_per_sample=values("cycles_per_sample"),
        capacitance=values("capacitance"),
        tx_power_w=values("tx_power_w"),
        cpu_min_hz=cpu_hz[0],
        cpu_max_hz=cpu_hz[1],
        energy_budget_j=budget_j,
        idle_power_w=maybe("idle_power_w"),
        rx_power_w=maybe("rx_power_w"),
        cpu=cpu,
    )


def edge_of_devices(scenario: Scenario) -> NDArray[np.int64]:
    """The edge server of every device at the start; nothing about it is random."""
    return np.repeat(np.arange(scenario.fleet.num_edges), cluster_sizes(scenario))


def cluster_sizes(scenario: Scenario) -> NDArray[np.int64]:
    """The number of devices of each edge server; none is zero."""
    fleet = scenario.fleet
    if not isinstance(fleet.cluster_sizes, str):
        return np.array(fleet.cluster_sizes)
    weight = np.ones(fleet.num_edges)
    if fleet.cluster_sizes == "uneven":
        # A property of the scenario, not of the run: the same whatever the seed.
        weight = 0.2 + 1.6 * stream(0, "cluster sizes").random(fleet.num_edges)
    spread = fleet.num_devices - fleet.num_edges
    exact = spread * weight / weight.sum()
    sizes = np.floor(exact).astype(np.int64)
    remainder = np.argsort(-(exact - sizes), kind="stable")[: spread - int(sizes.sum())]
    sizes[remainder] += 1
    return sizes + 1


def draw_values(given: PerDevice, name: str, keys: KeyArray, seed: int) -> FloatArray:
    """A quantity of every device; what is drawn is keyed by its name and the device."""
    if given.values is not None:
        return np.array(given.values)
    if given.low == given.high:
        return np.full(len(keys), given.low)
    return given.low + (given.high - given.low) * uniforms(keys, seed, name)
