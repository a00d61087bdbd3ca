"""Sweeps, fronts, sizings and bounds for the page, from the JSON that their commands saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedrt.bench.view import read_bench
from fedrt.errors import InputError, reason
from fedrt.policies.spec import policy_label, policy_labels
from fedrt.report.answers.bounds import bound_answer, outside
from fedrt.report.answers.sweeps import front_answer, study_labels, sweep_answer
from fedrt.report.page.encode import finite, number
from fedrt.report.page.sources import read_json
from fedrt.studies.labels import key_label, style_numbers
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
    return _points(data) | {"answer": sweep_answer(data)}


def _front(data: Any) -> dict[str, Any]:
    return _points(data) | {"answer": front_answer(data)}


def _points(data: Any) -> dict[str, Any]:
    """The points of a sweep or front, with the numbers of every policy at each."""
    vary = {str(key): [_value(value) for value in values] for key, values in data["vary"].items()}
    labels = study_labels(data["points"])
    points = [
        {
            "settings": [_value(point["settings"][key]) for key in vary],
            "policies": {labels[name]: _numbers(each) for name, each in point["policies"].items()},
            "infeasible": {labels[name]: str(why) for name, why in point["infeasible"].items()},
        }
        for point in data["points"]
    ]
    styles = style_numbers(labels)
    return {
        "keys": list(vary),
        "labels": [key_label(key) for key in vary],
        "values": list(vary.values()),
        "points": points,
        "policies": [{"name": label, "style": styles[name]} for name, label in labels.items()],
    }


def _value(value: Any) -> Any:
    """The value of a setting as a number, or as text."""
    plain = number(value)
    return str(value) if plain is None else plain


def _numbers(of: Any) -> dict[str, Any]:
    numbers: dict[str, Any] = {key: _spread(of[key]) for key in NUMBERS}
    devices = [finite(value) for value in of["over_budget_devices"]["per_seed"]]
    numbers["over_budget_devices"] |= {"least": min(devices), "most": max(devices)}
    return numbers | ({"efficient": bool(of["efficient"])} if "efficient" in of else {})


def _size(data: Any) -> dict[str, Any]:
    return {
        "keys": [str(data["key"])],
        "labels": [key_label(str(data["key"]))],
        "deadline_s": finite(data["deadline_s"]),
        "policies": [
            {"name": policy_label(str(name), of.get("name")), "style": style_numbers([name])[name]}
            for name, of in data["policies"].items()
        ],
        "value": None if data["value"] is None else finite(data["value"]),
        "answer": str(data["sentence"]),
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


def _bound(data: Any) -> dict[str, Any]:
    """A bound: its time and each policy's, and how each is outside the limits."""
    names = {str(name): of.get("name") for name, of in data["policies"].items()}
    labels = policy_labels({k: v if isinstance(v, str) else None for k, v in names.items()})
    styles = style_numbers(labels)
    kinds = {"bound": "bound", "bound_over_codecs": "bound over codecs"}
    return {
        "seeds": [finite(seed) for seed in data["seeds"]],
        "bounds": [
            {"name": words, "time_s": _spread(data[kind]["time_s"])}
            for kind, words in kinds.items()
            if kind in data
        ],
        "policies": [
            {
                "name": labels[name],
                "style": styles[name],
                "time_s": _spread(of["total_time_s"]),
                "above": _spread(of["above_bound"]),
                "energy_j": _spread(of["energy_j_mean"]),
                "outside": ", ".join(outside(of)),
            }
            for name, of in data["policies"].items()
        ],
        "answer": bound_answer(data, labels),
    }


def _spread(of: Any) -> dict[str, Any]:
    """The mean and deviation over seeds, and their number."""
    return {"mean": finite(of["mean"]), "std": finite(of["std"]), "n": len(of["per_seed"])}


def _worst(of: Any) -> float:
    """The greatest value over seeds; 0 for a point that could not run."""
    return 0.0 if of is None else max(finite(value) for value in of["per_seed"])


READERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "sweep": _sweep,
    "front": _front,
    "size": _size,
    "bound": _bound,
    "bench": read_bench,
}
