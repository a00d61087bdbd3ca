"""Sweeps, fronts and sizings for the page, from the JSON that their commands saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedrt.bench.view import read_bench
from fedrt.errors import InputError, reason
from fedrt.policies import POLICIES
from fedrt.policies.spec import policy_label, policy_labels
from fedrt.report.page.encode import finite, number
from fedrt.report.page.sources import read_json
from fedrt.studies.labels import key_label
from fedrt.system.inputs import read_bytes

NUMBERS = ("total_time_s", "energy_j_mean", "over_budget_devices", "over_budget_j")


def read_study(kind: str, folder: Path) -> dict[str, Any]:
    """The page's data of a study; an error if the file is not a result of its command."""
    path = folder / f"{kind}.json"
    data = read_json(path)
    said = read_json(folder / "run.json") if (folder / "run.json").is_file() else {}
    try:
        study = READERS[kind](data)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise InputError(f"{path}: is not what fedrt {kind} saves") from None
    command = said.get("command") if isinstance(said, dict) else None
    config = folder / "config.toml"
    return {
        "kind": kind,
        "folder": str(folder),
        "scenario": str(data.get("scenario", kind)),
        "command": command if isinstance(command, str) else "",
        "config": _config(config) if config.is_file() else "",
        **study,
    }


def _config(path: Path) -> str:
    try:
        return read_bytes(path, follow=False).decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None


def _sweep(data: Any) -> dict[str, Any]:
    vary = {str(key): [_value(value) for value in values] for key, values in data["vary"].items()}
    labels = _labels(data["points"])
    points = [
        {
            "settings": [_value(point["settings"][key]) for key in vary],
            "policies": {labels[name]: _numbers(each) for name, each in point["policies"].items()},
            "infeasible": {labels[name]: str(why) for name, why in point["infeasible"].items()},
        }
        for point in data["points"]
    ]
    names = {name: None for point in points for name in (*point["policies"], *point["infeasible"])}
    return {
        "keys": list(vary),
        "labels": [_label(key) for key in vary],
        "values": list(vary.values()),
        "points": points,
        "policies": [{"name": name, "style": style(name, list(names))} for name in names],
    }


def _labels(points: Any) -> dict[str, str]:
    """The label of each policy, by the name it gives itself."""
    names: dict[str, str | None] = {}
    for point in points:
        names |= {str(name): None for name in point["infeasible"] if str(name) not in names}
        for name, numbers in point["policies"].items():
            own = numbers.get("name")
            names[str(name)] = own if isinstance(own, str) else None
    return policy_labels(names)


def style(name: str, names: list[str]) -> int:
    """The number of a policy's colour, dash and marker, the same on every page."""
    known = list(POLICIES)
    return [*known, *(each for each in names if each not in known)].index(name)


def _label(key: str) -> str:
    return key_label(key)


def _value(value: Any) -> Any:
    """The value of a setting as a number, or as text."""
    plain = number(value)
    return str(value) if plain is None else plain


def _numbers(of: Any) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        key: {
            "mean": finite(of[key]["mean"]),
            "std": finite(of[key]["std"]),
            "n": len(of[key]["per_seed"]),
        }
        for key in NUMBERS
    }
    devices = [finite(value) for value in of["over_budget_devices"]["per_seed"]]
    numbers["over_budget_devices"] |= {"least": min(devices), "most": max(devices)}
    return numbers | ({"efficient": bool(of["efficient"])} if "efficient" in of else {})


def _size(data: Any) -> dict[str, Any]:
    return {
        "keys": [str(data["key"])],
        "labels": [_label(str(data["key"]))],
        "deadline_s": finite(data["deadline_s"]),
        "policies": [
            {"name": policy_label(str(name), of.get("name")), "style": style(name, [name])}
            for name, of in data["policies"].items()
        ],
        "answer": finite(data["value"]),
        "sentence": str(data["sentence"]),
        "over": not data["within_budgets"],
        "note": None if data["note"] is None else str(data["note"]),
        "tried": [
            {
                "value": finite(each["value"]),
                "times_s": [
                    finite(time) for time in (each["total_time_s"] or {"per_seed": []})["per_seed"]
                ],
                "over_devices": _worst(each["over_budget_devices"]),
                "over_j": _worst(each["over_budget_j"]),
                "verdict": str(each["verdict"]),
                "problem": None if each["problem"] is None else str(each["problem"]),
            }
            for each in data["tried"]
        ],
    }


def _worst(of: Any) -> float:
    """The greatest value over seeds; 0 for a point that could not run."""
    return 0.0 if of is None else max(finite(value) for value in of["per_seed"])


READERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "sweep": _sweep,
    "front": _sweep,
    "size": _size,
    "bench": lambda data: read_bench(data, style),
}
