"""Rules that concern more than one setting of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrt.graph import is_connected
from fedrt.messages import UPLOADS
from fedrt.registry import MESSAGE, TRANSFORMS, UPDATE, UpdateEntry
from fedrt.scenario.class_rules import frequency_problems, shape_problems
from fedrt.scenario.faults import Attackers, Faults, moved_problems, screening_norm
from fedrt.scenario.physical import physical_problems
from fedrt.scenario.tables.fields import PerDevice
from fedrt.validation import problem, shown

if TYPE_CHECKING:
    from fedrt.scenario.model import Fleet, Learning, Scenario


def broken_rules(scenario: Scenario) -> list[str]:
    """One line for each rule between settings that the scenario breaks."""
    lines = _fleet_problems(scenario.fleet)
    for name in ("channel", "bandwidth", "backhaul"):
        lines += _range_problems(f"scenario.{name}", getattr(scenario, name))
    positions_m = getattr(scenario.channel, "positions_m", None)
    if positions_m is not None:
        given, devices = len(positions_m), scenario.fleet.num_devices
        if given != devices:
            rule = f"one pair per device ({devices})"
            lines.append(f"scenario.channel.positions_m has {given} values: must be {rule}")
    hz = getattr(scenario.bandwidth, "hz", None)
    if isinstance(hz, tuple) and len(hz) != scenario.fleet.num_edges:
        rule = f"one for all or one per edge server ({scenario.fleet.num_edges})"
        lines.append(f"scenario.bandwidth.hz has {len(hz)} values: must be {rule}")
    links = getattr(scenario.base_graph, "links", None)
    if links is not None:
        lines += _link_problems(links, scenario.fleet.num_edges)
    if scenario.learning.trim is not None and scenario.learning.averaging != "trimmed-mean":
        lines.append('scenario.learning.trim: only goes with averaging = "trimmed-mean"')
    if scenario.learning.top_k is not None and scenario.learning.codec != "top-k":
        lines.append('scenario.learning.top_k: only goes with upload = "top-k"')
    lines += _update_problems(scenario.learning)
    return lines + _scaffold_problems(scenario.learning) + physical_problems(scenario)


def _update_problems(learning: Learning) -> list[str]:
    """One line for each entry of `learning.update` that cannot stand where it does."""
    path, entries = "scenario.learning.update", learning.update or ()
    lines = []
    if learning.update is not None and learning.upload is not None:
        lines.append(f"{path}: give it or upload, not both: the last of update is the codec")
    names = [each if isinstance(each, str) else each.kind for each in entries]
    known: dict[str, UpdateEntry] = {**TRANSFORMS, **UPLOADS}
    last, gives = UpdateEntry("", gives=MESSAGE), UPDATE
    for i, name in enumerate(names):
        own = UpdateEntry("") if i + 1 < len(names) else last
        entry = known.get(name, own)
        if gives not in entry.takes:
            rule = f"before {shown(names[i - 1])}: it takes an update, and that gives a {gives}"
            lines.append(problem(f"{path}[{i}]", name, rule))
        elif name in names[:i] and name in known:
            lines.append(problem(f"{path}[{i}]", name, "there once"))
        gives = entry.gives
    if learning.scaffold and learning.transforms:
        rule = "must be without scaffold, whose control variates no transform changes"
        lines.append(f"{path}: {rule}")
    return lines


def _scaffold_problems(learning: Learning) -> list[str]:
    """A line if the optimiser is not the plain one of which SCAFFOLD's variates are means."""
    if not learning.scaffold:
        return []
    chosen = learning.optimiser
    plain = chosen in (None, "sgd") or getattr(chosen, "kind", None) == "sgd"
    if plain and learning.momentum == 0 and not getattr(chosen, "weight_decay", 0):
        return []
    rule = 'needs optimiser = "sgd" without weight decay, and momentum = 0'
    return [f"scenario.learning.scaffold: {rule}"]


def _fleet_problems(fleet: Fleet) -> list[str]:
    lines = []
    devices, edges = fleet.num_devices, fleet.num_edges
    if devices < edges:
        rule = f">= num_edges = {edges}, at least one device per edge"
        lines.append(problem("scenario.fleet.num_devices", devices, rule))
    sizes = fleet.cluster_sizes
    if not isinstance(sizes, str) and (len(sizes) != edges or sum(sizes) != devices):
        rule = f"{edges} sizes that add up to num_devices = {devices}"
        text = f"{len(sizes)} sizes that add up to {sum(sizes)}"
        lines.append(f"scenario.fleet.cluster_sizes has {text}: must be {rule}")
    for f in fields(fleet):
        value = getattr(fleet, f.name)
        if isinstance(value, PerDevice) and value.values and len(value.values) != devices:
            text = f"{len(value.values)} values"
            rule = f"one for all or one per device ({devices})"
            lines.append(f"scenario.fleet.{f.name} has {text}: must be {rule}")
    if fleet.energy_j_per_edge_round is not None and fleet.energy_budget_j is not None:
        lines.append("scenario.fleet.energy_budget_j: give it or energy_j_per_edge_round, not both")
    lines += shape_problems(fleet)
    lines += frequency_problems(fleet) if not lines else []
    return lines


def _range_problems(path: str, process: Any) -> list[str]:
    """A line where `low_x` lies above `high_x`."""
    lines: list[str] = []
    if hasattr(process, "options"):  # a user's own
        return lines
    for f in fields(process):
        if f.name.startswith("low_"):
            high = "high_" + f.name.removeprefix("low_")
            low_value, high_value = getattr(process, f.name), getattr(process, high)
            if low_value > high_value:
                lines.append(problem(f"{path}.{f.name}", low_value, f"<= {high} = {high_value:g}"))
    return lines


def _link_problems(links: tuple[tuple[int, int], ...], num_edges: int) -> list[str]:
    lines = []
    graph = np.zeros((num_edges, num_edges), dtype=bool)
    for i, (c, c2) in enumerate(links):
        path = f"scenario.base_graph.links[{i}]"
        if c >= num_edges or c2 >= num_edges or c == c2:
            rule = f"two different servers from 0 to {num_edges - 1}"
            lines.append(problem(path, [c, c2], rule))
        elif graph[c, c2]:
            lines.append(problem(path, [c, c2], "given once"))
        else:
            graph[c, c2] = graph[c2, c] = True
    if not lines and not is_connected(graph):
        lines.append("scenario.base_graph.links: must connect all edge servers")
    return lines


def fault_problems(scenario: Scenario) -> list[str]:
    """One line for each rule between settings that the `[faults]` section breaks."""
    faults, fleet = scenario.faults, scenario.fleet
    if faults is None:
        return []
    devices, edges = fleet.num_devices, fleet.num_edges
    lines = []
    for name, count, what in (
        ("silent", devices, "devices"),
        ("absent", devices, "devices"),
        ("straggler", devices, "devices"),
        ("server_down", edges, "servers"),
    ):
        only = getattr(getattr(faults, name), "only", None)
        lines += _number_problems(f"scenario.faults.{name}.only", only, count, what)
    if faults.deadline_s is not None and faults.deadline_factor is not None:
        lines.append("scenario.faults.deadline_factor: give it or deadline_s, not both")
    lines += _cut_problems(faults, edges)
    if isinstance(faults.attack, Attackers):
        path, attack = "scenario.faults.attack", faults.attack
        lines += _number_problems(f"{path}.devices", attack.devices, devices, "devices")
        if (attack.devices is None) == (attack.share is None):
            lines.append(f"{path}: must have devices or share, one of them")
        if attack.kind == "shape" and screening_norm(scenario) is None:
            rule = 'must be true with attack.kind = "shape"'
            name = "faults.refuse" if faults.refuse is False else "learning.screening"
            lines.append(f"scenario.{name} = false: {rule}")
    return lines + moved_problems(scenario)


def _cut_problems(faults: Faults, edges: int) -> list[str]:
    path, servers = "scenario.faults.cut", faults.cut_servers
    if faults.cut is not None and edges < 2:
        return [f"{path}: there is one edge server: must be two or more"]
    lines = _number_problems(f"{path}_servers", servers, edges, "servers")
    if not lines and servers is not None and len(servers) >= edges:
        lines.append(problem(f"{path}_servers", list(servers), "some of the servers, not all"))
    if servers is not None and (faults.cut is None or faults.cut.kind == "trace"):
        lines.append(f"{path}_servers: only goes with a cut of the kind random or markov")
    return lines


def _number_problems(path: str, numbers: Sequence[int] | None, count: int, what: str) -> list[str]:
    if numbers is None:
        return []
    lines = [
        problem(f"{path}[{i}]", number, f"one of the {what} 0 to {count - 1}")
        for i, number in enumerate(numbers)
        if number >= count
    ]
    if len(set(numbers)) < len(numbers):
        lines.append(problem(path, list(numbers), "different numbers"))
    return lines
