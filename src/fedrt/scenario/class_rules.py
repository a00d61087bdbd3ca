"""Rules between the settings of device classes and their fleet, and what fixes a fleet's size."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedrt.scenario.classes import DeviceClass, numbers_of, path_of, setting_of
from fedrt.scenario.placing import class_of_devices, cluster_sizes, listed_for, place
from fedrt.scenario.tables.fields import PerDevice
from fedrt.scenario.tables.layers import BUDGET_FORMS
from fedrt.validation import MOST_LINES, problem, shown

if TYPE_CHECKING:
    from fedrt.scenario.model import Fleet, Scenario

PATH = "scenario.fleet.classes"


def shape_problems(fleet: Fleet) -> list[str]:
    """One line for each way in which the classes contradict themselves or do not fit the fleet."""
    classes, sizes = fleet.classes or (), fleet.cluster_sizes
    lines = [line for each in classes for line in _own_problems(each, fleet.num_edges)]
    fits = isinstance(sizes, str) or (
        len(sizes) == fleet.num_edges and sum(sizes) == fleet.num_devices
    )
    if lines or not classes or not fits or fleet.num_devices < fleet.num_edges:
        return lines
    placed = place(classes, cluster_sizes(fleet), lines)
    if lines:
        return lines
    for each, count in zip(classes, placed.sum(0).tolist(), strict=True):
        for name, value in each.settings.items():
            if isinstance(value, PerDevice) and value.values and len(value.values) != count:
                rule = f"one for all or one per device of the class ({count})"
                text = f"{len(value.values)} values"
                lines.append(f"{PATH}.{each.name}.{name} has {text}: must be {rule}")
    return lines


def _own_problems(each: DeviceClass, num_edges: int) -> list[str]:
    lines, path = [], f"{PATH}.{each.name}"
    if each.share is not None and each.count is not None:
        lines.append(f"{path}: give share or count, not both")
    if each.per_edge and each.share is each.count is None:
        lines.append(f"{path}.per_edge: only goes with share or count")
    if all(form in each.settings for form in BUDGET_FORMS):
        lines.append(f"{path}.energy_budget_j: give it or energy_j_per_edge_round, not both")
    edges = each.edges or ()
    lines += [
        problem(f"{path}.edges[{i}]", c, f"one of the edge servers 0 to {num_edges - 1}")
        for i, c in enumerate(edges)
        if c >= num_edges
    ]
    if len(set(edges)) < len(edges):
        lines.append(problem(f"{path}.edges", list(edges), "different numbers"))
    return lines


def frequency_problems(fleet: Fleet) -> list[str]:
    """A line for each class, or for each device of lists, whose lowest frequency may be above its
    highest.
    """
    if any(_is_list(fleet, k, name) for k in numbers_of(fleet) for name in _CPU):
        return _listed_problems(fleet)
    lines = []
    for k in numbers_of(fleet):
        low, high = (setting_of(fleet, k, name) for name in _CPU)
        if low.high > high.low:
            rule = f"<= cpu_max_hz of every device ({high.low:g})"
            lines.append(problem(f"{path_of(fleet, k)}.cpu_min_hz", low.as_given(), rule))
    return lines


_CPU = ("cpu_min_hz", "cpu_max_hz")


def _is_list(fleet: Fleet, k: int | None, name: str) -> bool:
    return setting_of(fleet, k, name).values is not None


def _listed_problems(fleet: Fleet) -> list[str]:
    """The check device by device: the most its lowest may be, and the least its highest may be."""
    low, high = _ends(fleet, "cpu_min_hz", 1), _ends(fleet, "cpu_max_hz", 0)
    where = np.flatnonzero(low > high)
    lines = [
        problem(f"scenario.fleet.cpu_min_hz[{n}]", low[n], f"<= cpu_max_hz[{n}] = {high[n]:g}")
        for n in where[:MOST_LINES].tolist()
    ]
    more = len(where) - MOST_LINES
    return [*lines, f"scenario.fleet.cpu_min_hz: and {shown(more)} more"] if more > 0 else lines


def _ends(fleet: Fleet, name: str, end: int) -> NDArray[np.float64]:
    """The least (0) or greatest (1) value that every device may have for a setting."""
    values, class_of = np.empty(fleet.num_devices), class_of_devices(fleet)
    for k in numbers_of(fleet):
        here, given = np.flatnonzero(class_of == (k or 0)), setting_of(fleet, k, name)
        if given.values is None:
            values[here] = given.high if end else given.low
        else:
            values[here] = listed_for(given.values, here)
    return values


OF_DEVICES, OF_EDGES = ("silent", "absent", "straggler"), ("server_down", "link_down", "cut")
"""The faults whose traces have a value for each device, or for each edge server or link."""


def fixed_by(scenario: Scenario, key: str) -> list[str]:
    """The settings that fix the number of devices or edge servers, if `key` is one of them.

    They are lists and traces with a value for each, and classes that are counted, all of them.
    """
    fleet = scenario.fleet
    fixed = [] if isinstance(fleet.cluster_sizes, str) else ["fleet.cluster_sizes (a list)"]
    if key == "fleet.num_devices":
        fixed += _fixed_devices(scenario)
        names = OF_DEVICES
    elif key == "fleet.num_edges":
        if isinstance(getattr(scenario.bandwidth, "hz", None), tuple):
            fixed.append("bandwidth.hz (a list)")
        for name in ("bandwidth", "backhaul"):
            if getattr(getattr(scenario, name), "kind", None) == "trace":
                fixed.append(f"{name}.file (a trace)")
        if hasattr(scenario.base_graph, "links"):
            fixed.append("base_graph.links (a list)")
        names = OF_EDGES
    else:
        return []
    for name in names:
        if getattr(getattr(scenario.faults, name, None), "kind", None) == "trace":
            fixed.append(f"faults.{name}.file (a trace)")
    return fixed


def _fixed_devices(scenario: Scenario) -> list[str]:
    fleet, channel, fixed = scenario.fleet, scenario.channel, []
    given = {f"fleet.{f.name}": getattr(fleet, f.name) for f in fields(fleet)}
    for each in fleet.classes or ():
        own = each.settings.items()
        given |= {f"fleet.classes.{each.name}.{name}": value for name, value in own}
    if scenario.downlink is not None:
        given["downlink.snr_db"] = scenario.downlink.snr_db
    for name, value in given.items():
        if isinstance(value, PerDevice) and value.values is not None:
            fixed.append(f"{name} (a list)")
    if fleet.classes and all(each.count is not None for each in fleet.classes):
        fixed.append("fleet.classes (counts alone; give one class a share, or neither)")
    if getattr(channel, "positions_m", None) is not None:
        fixed.append("channel.positions_m (a list)")
    if getattr(channel, "kind", None) == "trace" and not getattr(channel, "reuse", None):
        fixed.append("channel.file (a trace; reuse = true lets devices share it)")
    return fixed
