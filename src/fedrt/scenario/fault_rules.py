"""Rules between the settings of `[faults]` and the rest of a scenario."""

from __future__ import annotations

from collections.abc import Sequence

from fedrt.scenario.faults import Attackers, Faults
from fedrt.scenario.model import Scenario
from fedrt.validation import problem


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
        if attack.kind == "shape" and not faults.refuse:
            lines.append('scenario.faults.refuse = false: must be true with attack.kind = "shape"')
    return lines


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
