"""The bench as tables and the page show it, from the JSON that the command saved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedrt.bench.scores import BOUND
from fedrt.policies.spec import policy_labels
from fedrt.studies.labels import style_numbers

FEW = 2
"""So many worlds are named, more are counted."""


def read_bench(data: Mapping[str, Any]) -> dict[str, Any]:
    """The page's data of a bench; a KeyError, TypeError or ValueError if it is something else."""
    names = {str(policy): own for policy, own in data["policies"].items()}
    labels, styles = policy_labels(names), style_numbers(names)
    scored, others = scored_first(data), by_training(data)
    return {
        "seeds": len(data["seeds"]),
        "policies": [
            {
                "name": labels[policy],
                "style": styles[policy],
                **_summary(data["summary"][policy]),
            }
            for policy in scored
        ],
        "worlds": [_world(name, world, labels, scored) for name, world in data["worlds"].items()],
        "standing": [
            {
                "world": str(name),
                "first": labels[each["first"]],
                "behind": _finite(each["behind"]),
                "near": bool(each["near"]),
            }
            for name, each in data["standing"].items()
        ],
        "subsets": [
            {"name": str(name), "accuracy": _finite(subset["accuracy"])}
            for name, subset in data["trained"].items()
        ],
        "others": [
            {
                "name": labels[policy],
                "work": work_said(data, policy),
                "times": [_trained(s["policies"][policy]) for s in data["trained"].values()],
            }
            for policy in others
        ],
        "learned": [_learned(row) for row in data["learned"]],
    }


def _summary(each: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "mean": _number(each["above_bound_mean"]),
        "most": _number(each["above_bound_most"]),
        "most_on": None if each["most_on"] is None else str(each["most_on"]),
        "worlds": int(each["worlds"]),
        "first": int(each["first"]),
        "over_worlds": int(each["over_budget_worlds"]),
        "energy": _number(each["energy_ratio"]),
    }


def _world(
    name: str, world: Mapping[str, Any], labels: Mapping[str, str], scored: list[str]
) -> dict[str, Any]:
    return {
        "name": str(name),
        "description": str(world["description"]),
        "size": [int(world[key]) for key in ("devices", "edges", "edge_rounds")],
        "bounded": world["against"] == BOUND,
        "why": None if world["why_no_bound"] is None else str(world["why_no_bound"]),
        "scores": [_score(world["policies"][policy]) for policy in scored],
        "rows": [
            {"name": labels[policy], "work": [str(w) for w in each["other_work"]], **_numbers(each)}
            for policy, each in world["policies"].items()
        ],
    }


def _score(each: Mapping[str, Any]) -> dict[str, Any] | None:
    if each["above"] is None:
        return None
    values = [_finite(value) for value in each["above"]["per_seed"]]
    return {
        "mean": _finite(each["above"]["mean"]),
        "least": min(values),
        "most": max(values),
        "rank": int(each["rank"]),
        "over": any(each["over_limit_devices"]),
    }


def _numbers(each: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "above": None if each["above"] is None else _finite(each["above"]["mean"]),
        "energy_j": _finite(each["energy_j_mean"]["mean"]),
        "over_devices": _finite(each["over_budget_devices"]["mean"]),
        "over_j": _finite(each["over_budget_j"]["mean"]),
        "over": any(each["over_limit_devices"]),
    }


def _trained(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Trained times to an accuracy by seed, None where a seed never reached it."""
    if found is None:
        return None
    return {"time_s": [_number(each) for each in found["time_s"]]}


def _learned(row: Mapping[str, Any]) -> dict[str, Any]:
    beside = {
        str(name): mean_ratio(row["time_s"], each["time_s"]) - 1
        for name, each in row["beside"].items()
    }
    count = len(row["seeds"])
    return {
        "name": str(row["name"]),
        "world": str(row["world"]),
        "seeds": count,
        "time_s": sum(map(_finite, row["time_s"])) / count,
        "over_j": mean_over_j(row),
        "over_beside": {str(name): mean_over_j(each) for name, each in row["beside"].items()},
        "against": {name: _finite(value) for name, value in beside.items()},
    }


def scored_first(data: Mapping[str, Any]) -> list[str]:
    """The policies that have a score somewhere, nearest to the bound first."""
    summary = data["summary"]
    scored = [policy for policy, each in summary.items() if each["worlds"]]

    def order(policy: str) -> tuple[bool, float]:
        mean = summary[policy]["above_bound_mean"]
        return mean is None, mean or 0.0

    return sorted(scored, key=order)


def by_training(data: Mapping[str, Any]) -> list[str]:
    """Policies that did other work somewhere, or were trained beside them, the quickest first."""
    subsets = list(data["trained"].values())

    def order(policy: str) -> tuple[float, ...]:
        times = [mean_time(subset["policies"][policy]) for subset in subsets]
        return tuple(float("inf") if time is None else time for time in times)

    summary = data["summary"]
    trained = {policy for policy in summary for s in subsets if s["policies"][policy] is not None}
    return sorted((p for p in summary if summary[p]["other_work"] or p in trained), key=order)


def work_said(data: Mapping[str, Any], policy: str) -> list[str]:
    """What a policy did differently from the bound's plans, and on which worlds if not on all."""

    def where(on: Sequence[str]) -> str:
        if len(on) == len(data["worlds"]):
            return ""
        return f" on {', '.join(map(str, on)) if len(on) <= FEW else f'{len(on)} worlds'}"

    done = data["summary"][policy]["other_work"]
    return [str(words) + where(on) for words, on in done.items()]


def mean_time(found: Mapping[str, Any] | None) -> float | None:
    """The mean time over seeds; None if a seed never reached the accuracy."""
    if found is None or None in found["time_s"]:
        return None
    return float(sum(found["time_s"]) / len(found["time_s"]))


def mean_over_j(row: Mapping[str, Any]) -> float:
    """The joules over budget of all devices, mean over seeds."""
    return sum(map(_finite, row["over_budget_j"])) / len(row["over_budget_j"])


def mean_ratio(times_s: list[float], others_s: list[float]) -> float:
    """The mean over seeds of one time divided by another."""
    return sum(a / b for a, b in zip(times_s, others_s, strict=True)) / len(times_s)


def _finite(value: Any) -> float:
    """A finite number; a ValueError or TypeError for anything else."""
    found = float(value)
    if not math.isfinite(found):
        raise ValueError("it must be a finite number")
    return found


def _number(value: Any) -> float | None:
    """A finite number, or None for none."""
    return None if value is None else _finite(value)
