"""The paper's table beside ours: time, energy and accuracy of every method in every column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrt.experiments.cells import Cell, Column
from fedrt.experiments.kept import Kept
from fedrt.experiments.paper import QUANTITIES, paper_saving, paper_value

HOUR_S = 3600.0


@dataclass(frozen=True)
class Figure:
    """One quantity: our values over seeds, and the paper's, scaled to our number of rounds."""

    ours: tuple[float, ...]
    paper: float | None

    @property
    def mean(self) -> float:
        return float(np.mean(self.ours))

    @property
    def std(self) -> float:
        """The sample deviation over seeds; 0 for one seed."""
        return float(np.std(self.ours, ddof=1)) if len(self.ours) > 1 else 0.0

    @property
    def ratio(self) -> float | None:
        """Our mean divided by the paper's value."""
        return None if self.paper is None else self.mean / self.paper


@dataclass(frozen=True)
class Row:
    """One method in one column."""

    column: Column
    policy: str
    seeds: tuple[int, ...]
    time: Figure
    """Hours."""
    energy: Figure
    """Joules of a device, mean over devices."""
    accuracy: Figure
    """Best, in percent."""
    saving: Figure | None
    """The part of this method's time that FedRT saves, paired by seed; None for FedRT."""
    reached: tuple[tuple[float, float] | None, ...]
    """Hours and joules until the paper's accuracy was reached, for each seed; None for never."""


def table_rows(
    columns: Sequence[Column],
    policies: Sequence[str],
    seeds: Sequence[int],
    found: Mapping[str, Kept],
) -> list[Row]:
    """A row for every column and policy, over the seeds that it and FedRT have."""
    rows = []
    for column in columns:
        share = _share_of_rounds(column)
        for policy in policies:
            kept = {
                seed: found[name]
                for seed in seeds
                if (name := Cell(column, policy, seed).name) in found
            }
            if kept:
                rows.append(_row(column, policy, kept, _fedrt(column, kept, found), share))
    return rows


def _share_of_rounds(column: Column) -> float:
    """The share of the paper's rounds that the column has; 1 if the paper has no such column."""
    if paper_value("fedrt", column.name, "time") is None:
        return 1.0
    full = Column(column.name, column.title, column.scenario).load()
    return column.load().rounds.global_rounds / full.rounds.global_rounds


def _fedrt(column: Column, kept: Mapping[int, Kept], found: Mapping[str, Kept]) -> dict[int, Kept]:
    names = {seed: Cell(column, "fedrt", seed).name for seed in kept}
    return {seed: found[name] for seed, name in names.items() if name in found}


def _row(
    column: Column, policy: str, kept: Mapping[int, Kept], fedrt: Mapping[int, Kept], share: float
) -> Row:
    paper = {quantity: paper_value(policy, column.name, quantity) for quantity in QUANTITIES}
    for quantity in ("time", "energy"):
        value = paper[quantity]
        paper[quantity] = None if value is None else value * share
    saving = None
    if policy != "fedrt" and fedrt:
        saved = tuple(1 - fedrt[seed].time_s / kept[seed].time_s for seed in fedrt)
        saving = Figure(saved, paper_saving(policy, column.name))
    target = paper["accuracy"]
    return Row(
        column=column,
        policy=policy,
        seeds=tuple(kept),
        time=Figure(tuple(each.time_s / HOUR_S for each in kept.values()), paper["time"]),
        energy=Figure(tuple(each.energy_j for each in kept.values()), paper["energy"]),
        accuracy=Figure(tuple(100 * each.best_accuracy for each in kept.values()), target),
        saving=saving,
        reached=tuple(_reached(each, target) for each in kept.values()),
    )


def _reached(kept: Kept, target: float | None) -> tuple[float, float] | None:
    first = None if target is None else kept.first_reached(target / 100)
    return None if first is None else (first[0] / HOUR_S, first[1])


def csv_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as named values, one entry for each number in the table."""
    return [_csv_row(row) for row in rows]


def _csv_row(row: Row) -> dict[str, Any]:
    values: dict[str, Any] = {
        "column": row.column.name,
        "policy": row.policy,
        "seeds": " ".join(map(str, row.seeds)),
    }
    figures = {"time_h": row.time, "energy_j": row.energy, "accuracy_percent": row.accuracy}
    if row.saving is not None:
        figures["fedrt_saves"] = row.saving
    for name, figure in figures.items():
        values[name] = figure.mean
        values[f"{name}_std"] = figure.std
        values[f"{name}_paper"] = figure.paper
    values["time_ratio"], values["energy_ratio"] = row.time.ratio, row.energy.ratio
    there = [each for each in row.reached if each is not None]
    values["seeds_reaching_paper_accuracy"] = len(there)
    if there:
        values["time_h_to_paper_accuracy"] = float(np.mean([each[0] for each in there]))
        values["energy_j_to_paper_accuracy"] = float(np.mean([each[1] for each in there]))
    return values
