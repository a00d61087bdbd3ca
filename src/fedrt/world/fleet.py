"""The devices and edge servers of a scenario as arrays, with what is drawn once for each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.arrays import freeze_arrays
from fedrt.scenario.classes import budget_of, numbers_of, path_of, setting_of, settings_in
from fedrt.scenario.model import Fleet, Scenario
from fedrt.scenario.physical import CpuTable
from fedrt.scenario.placing import class_of_devices, cluster_sizes, listed_for
from fedrt.scenario.tables.fields import PerDevice
from fedrt.seeding import uniforms
from fedrt.world.cpu_tables import measured_cpus, unused_points
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
    class_of_device: NDArray[np.int64]
    """Numbers into `class_names`; all 0 in a fleet without classes."""
    idle_power_w: FloatArray | None = None
    rx_power_w: FloatArray | None = None
    cpu: CpuTables | None = None
    """The efficient points of measured computing energies; None: none was measured."""
    class_names: tuple[str, ...] = ()

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
    fleet, class_of_device = scenario.fleet, class_of_devices(scenario.fleet)
    groups = _devices_by_class(fleet, class_of_device)

    def values(name: str) -> FloatArray:
        drawn = np.zeros(fleet.num_devices)
        for k, keys in groups:
            given = setting_of(fleet, k, name)
            if given is not None:
                drawn[keys] = draw_values(given, name, keys, seed)
        return drawn

    def maybe(name: str) -> FloatArray | None:
        return values(name) if any(settings_in(fleet, name)) else None

    cpu, cpu_hz = None, (values("cpu_min_hz"), values("cpu_max_hz"))
    tables, paths = _cpu_tables(fleet)
    if tables:
        cpu, cpu_hz = measured_cpus(tables, class_of_device, cpu_hz, paths)
    return FleetArrays(
        device_key=np.arange(fleet.num_devices),
        edge_key=np.arange(fleet.num_edges),
        edge_of_device=edge_of_devices(scenario),
        cycles_per_sample=values("cycles_per_sample"),
        capacitance=values("capacitance"),
        tx_power_w=values("tx_power_w"),
        cpu_min_hz=cpu_hz[0],
        cpu_max_hz=cpu_hz[1],
        energy_budget_j=draw_budgets_j(scenario, seed),
        idle_power_w=maybe("idle_power_w"),
        rx_power_w=maybe("rx_power_w"),
        cpu=cpu,
        class_of_device=class_of_device,
        class_names=tuple(each.name for each in fleet.classes or ()),
    )


def _devices_by_class(
    fleet: Fleet, class_of_device: NDArray[np.int64]
) -> list[tuple[int | None, KeyArray]]:
    """The devices of each class; all of a fleet without classes."""
    return [(k, np.flatnonzero(class_of_device == (k or 0))) for k in numbers_of(fleet)]


def draw_budgets_j(scenario: Scenario, seed: int) -> FloatArray:
    """The joules that each device may spend in the whole run; inf = no limit."""
    fleet = scenario.fleet
    budget_j = np.full(fleet.num_devices, np.inf)
    for k, keys in _devices_by_class(fleet, class_of_devices(fleet)):
        budget = budget_of(fleet, k)
        if budget is not None:
            form, given = budget
            budget_j[keys] = draw_values(given, form, keys, seed) * budget_factor(scenario, form)
    return budget_j


def _cpu_tables(fleet: Fleet) -> tuple[dict[int, CpuTable], dict[int, str]]:
    """The tables of measured computing energy by class, and the names of their settings."""
    tables = {k or 0: setting_of(fleet, k, "cpu_table") for k in numbers_of(fleet)}
    paths = {k or 0: f"{path_of(fleet, k)}.cpu_table" for k in numbers_of(fleet)}
    return {k: table for k, table in tables.items() if table is not None}, paths


def fleet_notes(scenario: Scenario, fleet: FleetArrays) -> list[str]:
    """What a user may want to know of a fleet: points of its CPUs' tables that are never used."""
    tables, paths = _cpu_tables(scenario.fleet)
    if fleet.cpu is None:
        return []
    return unused_points(tables, fleet.class_of_device, fleet.cpu, paths)


def edge_of_devices(scenario: Scenario) -> NDArray[np.int64]:
    """The edge server of every device at the start; nothing about it is random."""
    return np.repeat(np.arange(scenario.fleet.num_edges), cluster_sizes(scenario.fleet))


def budget_factor(scenario: Scenario, form: str) -> float:
    """What a budget in one of its forms is multiplied by to be the whole run's."""
    rounds, scale = scenario.rounds, scenario.fleet.budget_scale
    times = rounds.global_rounds * rounds.edge_rounds if form == "energy_j_per_edge_round" else 1
    return times if scale is None else times * scale


def budget_range(scenario: Scenario) -> list[float] | None:
    """The least, mean and greatest whole budget of a device in J; None without limits.

    Devices of classes that have no limit are left out.
    """
    fleet, ranges = scenario.fleet, []
    count = np.bincount(class_of_devices(fleet), minlength=len(numbers_of(fleet)))
    for k in numbers_of(fleet):
        budget, number = budget_of(fleet, k), int(count[k or 0])
        if budget is None or not number:
            continue
        form, given = budget
        factor = budget_factor(scenario, form)
        mean = (given.low + given.high) / 2
        if given.values is not None:
            mean = float(np.mean(given.values))
        ranges.append((given.low * factor, mean * factor, given.high * factor, number))
    if not ranges:
        return None
    lows, means, highs, numbers = zip(*ranges, strict=True)
    mean = means[0] if len(means) == 1 else float(np.average(means, weights=numbers))
    return [min(lows), mean, max(highs)]


def draw_values(given: PerDevice, name: str, keys: KeyArray, seed: int) -> FloatArray:
    """A quantity of the devices with these keys; what is drawn is keyed by name and device."""
    if given.values is not None:
        return listed_for(given.values, keys)
    if given.low == given.high:
        return np.full(len(keys), given.low)
    return given.low + (given.high - given.low) * uniforms(keys, seed, name)
