"""Predicted and measured quantities of real devices, and what their coordinator knows of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError, reason
from fedrt.scenario import Scenario
from fedrt.system.inputs import parse_json, read_text

LIVE = "devices.json"
PAIRS = ("compute_s", "upload_s", "energy_j")
"""Quantities of a device of which there is a prediction beside the measurement."""
COLUMNS = (
    *("global_round", "device", "trains", "upload_bytes", "metered"),
    *(f"{before}{name}" for name in PAIRS for before in ("", "planned_")),
)
LEARNED = {"cycles": "devices", "upload": "devices", "backhaul": "edges"}
Columns = Mapping[str, NDArray[Any]]


def device_means(rows: Columns, device: NDArray[np.int64], count: int) -> dict[str, NDArray[Any]]:
    """Means over the edge rounds in which a device's update arrived, and how many there were."""
    asked = rows["trains"].astype(bool)
    came = asked & (rows["upload_bytes"] > 0)
    arrived = np.bincount(device[came], minlength=count)

    def mean(name: str) -> NDArray[np.float64]:
        total = np.bincount(device[came], rows[name][came], minlength=count)
        return np.where(arrived > 0, total / np.maximum(arrived, 1), np.nan)

    sent = came & (rows["upload_s"] > 0)
    bps = 8 * rows["upload_bytes"][sent] / rows["upload_s"][sent]
    slowest, fastest = np.full(count, np.inf), np.zeros(count)
    np.minimum.at(slowest, device[sent], bps)
    np.maximum.at(fastest, device[sent], bps)
    names = [name for pair in PAIRS for name in (pair, f"planned_{pair}")]
    return {name: mean(name) for name in names} | {
        "least_bps": np.where(fastest > 0, slowest, np.nan),
        "most_bps": np.where(fastest > 0, fastest, np.nan),
        "asked": np.bincount(device[asked], minlength=count),
        "arrived": arrived,
        "metered": np.bincount(device[rows["metered"] > 0], minlength=count) > 0,
    }


def fleet_now(folder: Path, scenario: Scenario) -> dict[str, Any] | None:
    """Who is connected and late, and what has been learned; None if no coordinator has written it.

    An error if the file is not what a coordinator writes.
    """
    path, fleet = folder / LIVE, scenario.fleet
    if not path.is_file():
        return None
    try:
        said = parse_json(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    if not isinstance(said, Mapping):
        raise InputError(f"{path}: is not what a coordinator writes")
    size = {"devices": fleet.num_devices, "edges": fleet.num_edges}
    if "connected" not in said:
        return {**size, "waiting": True}
    answering = said.get("answering")
    if not isinstance(answering, list) or len(answering) != fleet.num_edges:
        raise InputError(f"{path}: does not say which edge servers answer")
    found: dict[str, Any] = {**size, "answering": [each is True for each in answering]}
    for name in ("connected", "late", "refused", "left_out"):
        given = said.get(name, [] if name in ("refused", "left_out") else None)
        if not isinstance(given, list) or not all(is_place(n, fleet.num_devices) for n in given):
            raise InputError(f"{path}: its {name} must be numbers of devices")
        found[name] = given
    return found | _learned(path, said.get("learned"), size)


def _learned(path: Path, learned: object, size: Mapping[str, int]) -> dict[str, Any]:
    """For each quantity that is learned, its values, spreads and ages."""
    if not isinstance(learned, Mapping):
        raise InputError(f"{path}: does not say what has been learned")
    found = {}
    for name, of in LEARNED.items():
        entries = learned.get(name)
        if not isinstance(entries, list) or len(entries) != size[of]:
            raise InputError(f"{path}: its {name} must be as many as there are {of}")
        keys = ("value", "spread", "age")
        found[name] = {key: [number_in(each, key) for each in entries] for key in keys}
    return found


def is_place(value: object, below: int) -> bool:
    """Whether a value is a whole number from 0 to below a limit."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < below


def number_in(entry: object, key: str) -> float | None:
    """A number of an entry; None if it has none that is finite."""
    value = entry.get(key) if isinstance(entry, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 and math.isfinite(value) else None
