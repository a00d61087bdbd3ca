"""The summary of a run: its outcome in a few numbers, collected during the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fedrt.cost.round import finish_last
from fedrt.ledger import Ledger
from fedrt.measures import Measure, measures_of, summary_entry
from fedrt.messages import LADDER
from fedrt.policies import Policy
from fedrt.records.columns.failures import FailureSums, arrived
from fedrt.records.history import (
    MOST_DEVICE_ROWS,
    MOST_LINK_ROWS,
    PARTS,
    History,
    parts_in,
    sent_bytes,
)
from fedrt.rounds import NOT_STEPPED
from fedrt.runs.rounds import EdgeRound, GlobalRound
from fedrt.world.fleet import FleetArrays
from fedrt.world.world import World

Summary = dict[str, Any]

MOST_NAMED = 10_000
"""Devices that a summary names one by one."""


def stepped_devices(turn: EdgeRound) -> list[dict[str, Any]]:
    """The devices that were stepped up after an edge round: round, device, and both codecs."""
    steps = turn.outcome.stepped_up
    if steps is None:
        return []
    return [
        {
            "global_round": turn.t,
            "edge_round": turn.r,
            "device": int(turn.seen.device[n]),
            "from": LADDER[int(steps[n]) - 1],
            "to": LADDER[int(steps[n])],
        }
        for n in np.flatnonzero(steps != NOT_STEPPED).tolist()
    ]


class StepUps:
    """The devices that were stepped up in a run, in the order in which it happened."""

    def __init__(self) -> None:
        self.count = 0
        self.named: list[dict[str, Any]] = []

    def add(self, done: GlobalRound) -> int:
        """Add one global round; how many devices were stepped up in it."""
        found = [each for turn in done.edge_rounds for each in stepped_devices(turn)]
        self.count += len(found)
        self.named += found[: MOST_NAMED - len(self.named)]
        return len(found)

    def summary(self) -> dict[str, Any]:
        """How many there were, and the first of them by name."""
        return {"count": self.count, "named": self.named}


class ClassSums:
    """How often devices of each class are the last of their cluster to finish."""

    def __init__(self, fleet: FleetArrays) -> None:
        self.fleet = fleet
        self.trained, self.last = (np.zeros(len(fleet.class_names), np.int64) for _ in range(2))

    def add(self, done: GlobalRound) -> None:
        """Add one global round."""
        for turn in done.edge_rounds:
            class_of = self.fleet.class_of_device[turn.seen.device]
            came = turn.plan.trained & turn.outcome.delivered
            last = came & finish_last(turn.seen, arrived(turn))
            self.trained += np.bincount(class_of[came], minlength=len(self.trained))
            self.last += np.bincount(class_of[last], minlength=len(self.last))

    def summary(self, ledger: Ledger) -> dict[str, Any]:
        """For each class, its devices, what they spent, and how often they were the last."""
        spent_j, over_j = ledger.spent_j, ledger.overspent_j
        classes = {}
        for k, name in enumerate(self.fleet.class_names):
            own = self.fleet.class_of_device == k
            some, trained = bool(own.any()), int(self.trained[k])
            classes[name] = {
                "devices": int(own.sum()),
                "energy_j_mean": float(spent_j[own].mean()) if some else None,
                "energy_j_max": float(spent_j[own].max()) if some else None,
                "over_budget_devices": int((over_j[own] > 0).sum()),
                "over_budget_j": float(over_j[own].sum()),
                "critical_share": int(self.last[k]) / trained if trained else None,
            }
        return classes


class Account:
    """The history of a run and the totals for its summary."""

    def __init__(self, world: World, policy: Policy, device_rows: bool | None = None) -> None:
        self.world, self.policy = world, policy
        few = world.fleet.num_devices <= MOST_DEVICE_ROWS
        links = int(world.base_graph.sum()) // 2 <= MOST_LINK_ROWS
        self.history = History(
            world.scenario.control.mixing,
            devices=few if device_rows is None else device_rows,
            links=links,
            fleet=world.fleet,
        )
        self.classes = ClassSums(world.fleet) if world.fleet.class_names else None
        self.parts = dict.fromkeys(PARTS, 0.0)
        self.measured: list[dict[str, float]] = []
        self.wall_s, self.backhaul_bytes = 0.0, 0.0
        self.last: GlobalRound | None = None
        self.failures = None if world.faults is None else FailureSums()
        self.step_ups = StepUps()

    def add(self, done: GlobalRound) -> None:
        """Add one global round."""
        self.last = done
        self.history.add(done)
        self.backhaul_bytes += float(sent_bytes(done.last).sum())
        self.step_ups.add(done)
        if self.classes is not None:
            self.classes.add(done)
        if self.failures is not None:
            self.failures.add(done)
        rows = self.history.last_edge_rows
        for name in parts_in(rows[0]):
            more = sum(float(chunk[name].mean()) for chunk in rows)
            self.parts[name] = self.parts.get(name, 0.0) + more
        self.wall_s += done.metrics.get("wall_s", 0.0)
        value = done.metrics.get(self.measure.name, math.nan) if done.metrics else math.nan
        if math.isfinite(value):
            spent_j = float(done.last.after.spent_j.mean())
            row = {"ends_at_s": done.ends_at_s, "energy_j_mean": spent_j}
            self.measured.append(row | {"value": value})

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """What is measured of models, if they train."""
        return measures_of(self.world.scenario.learning)

    @property
    def measure(self) -> Measure:
        """What the run is judged by, if it trains."""
        return self.measures[0]

    def summary(self, targets: Sequence[float] = ()) -> Summary:
        """The outcome of the run; what was measured of models only if they were trained."""
        assert self.last is not None
        ledger = self.last.last.after
        over = ledger.overspent_j
        outcome: Summary = {
            "scenario": self.world.scenario.name,
            "policy": self.policy.name,
            "seed": self.world.seed,
            "trained": bool(self.last.metrics),
            "global_rounds": ledger.t,
            "total_time_s": ledger.time_s,
            "energy_j_mean": float(ledger.spent_j.mean()),
            "energy_j_max": float(ledger.spent_j.max()),
            "over_budget_devices": int((over > 0).sum()),
            "over_budget_j": float(over.sum()),
            "backhaul_bytes": self.backhaul_bytes,
            "time_parts": self.parts,
            "base_graph": self.world.base_graph_words,
        }
        if self.last.metrics:
            name, values = self.measure.name, [row["value"] for row in self.measured]
            outcome |= summary_entry(self.measures, self.last.metrics) | {
                f"best_{name}": self.measure.best(values) if values else None,
                f"final_{name}": values[-1] if values else None,
                "final_loss": _known(self.last.metrics["loss"]),
                "targets": {f"{target:g}": self._reached(target) for target in targets},
                "wall_s": self.wall_s,
            }
        if self.classes is not None:
            outcome["classes"] = self.classes.summary(ledger)
        if self.failures is not None:
            outcome["faults"] = self.failures.summary()
        if self.step_ups.count:
            outcome["stepped_up"] = self.step_ups.summary()
        return outcome

    def _reached(self, target: float) -> dict[str, float | None]:
        """The time and energy at which a target was first reached; null if it never was."""
        for row in self.measured:
            if self.measure.reaches(row["value"], target):
                return {"time_s": row["ends_at_s"], "energy_j_mean": row["energy_j_mean"]}
        return {"time_s": None, "energy_j_mean": None}


def _known(value: float) -> float | None:
    """The number, or None where it is not finite."""
    return value if math.isfinite(value) else None
