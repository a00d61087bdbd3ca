"""The emulated network of a run in the testbed, for the page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedrt.errors import InputError, reason
from fedrt.report.devices.measured import is_place, number_in
from fedrt.scenario import Scenario
from fedrt.system.inputs import parse_json, read_text
from fedrt.testbed.layout import FILE

WORD = re.compile(r"[\w.:-]{1,80}")
MOST_LINES = 20


def emulated(folder: Path, scenario: Scenario) -> dict[str, Any] | None:
    """Who was where with which share of the CPU, and the speeds of links; None without a testbed.

    An error if the file is not what a testbed writes.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        said = parse_json(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    said = said if isinstance(said, Mapping) else {}
    hosts, missing = said.get("hosts"), said.get("missing")
    parties = 1 + scenario.fleet.num_edges + scenario.fleet.num_devices
    if not isinstance(hosts, list) or len(hosts) != parties or not isinstance(missing, list):
        raise InputError(f"{path}: is not what a testbed writes")
    return {
        "core_hz": number_in(said, "core_hz"),
        "cpu": said["cpu"] if said.get("cpu") in ("cgroup", "duty") else None,
        "missing": [str(line)[:200] for line in missing[:MOST_LINES]],
        "hosts": [_host(path, host, scenario) for host in hosts],
        "speeds": _speeds(path, said.get("speeds"), scenario.fleet.num_edges),
    }


def _host(path: Path, host: object, scenario: Scenario) -> dict[str, Any]:
    if not isinstance(host, Mapping):
        raise InputError(f"{path}: its hosts are not those of a testbed")
    words = {name: host.get(name) for name in ("name", "address", "namespace")}
    if not all(isinstance(word, str) and WORD.fullmatch(word) for word in words.values()):
        raise InputError(f"{path}: its hosts have no names and addresses")
    edge = host.get("edge")
    if edge is not None and not is_place(edge, scenario.fleet.num_edges):
        raise InputError(f"{path}: a device is with an edge server that is not there")
    return {
        **words,
        "edge": edge,
        "cpu_share": number_in(host, "cpu_share"),
        "core_step_s": number_in(host, "core_step_s") or None,
    }


def _speeds(path: Path, speeds: object, edges: int) -> list[dict[str, Any]]:
    """The least, mean and greatest speed of every link, for pairs of servers that have one."""
    if not isinstance(speeds, Mapping):
        raise InputError(f"{path}: does not say how fast links were")
    names = ("least_bps", "mean_bps", "most_bps")
    tables = [speeds.get(name) for name in names]
    if any(table is None for table in tables):
        return []
    found = []
    for c in range(edges):
        for other in range(c + 1, edges):
            try:
                values = [float(table[c][other]) for table in tables]  # type: ignore[index]
            except (TypeError, ValueError, LookupError):
                raise InputError(f"{path}: its link speeds are not those of the scenario") from None
            if all(0 < value < 1e300 for value in values):
                found.append({"pair": [c, other], **dict(zip(names, values, strict=True))})
    return found
