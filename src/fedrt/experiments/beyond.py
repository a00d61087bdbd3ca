"""Trained policies compared with FedRT: time, energy, overspending and accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.experiments.cells import Cell, Column, cells_of
from fedrt.experiments.kept import Kept, replay
from fedrt.runs.loop import make_world

FloatArray = NDArray[np.float64]

REFERENCE = "fedrt"
LATE = 10
"""The number of evaluations at the end whose mean is reported; the last alone is noisy."""


@dataclass(frozen=True)
class CellResults:
    """The results of one trained cell."""

    time_s: float
    energy_j: float
    """The joules of a device, mean over devices."""
    over_j: float
    """The joules that all devices together spent over budget."""
    final: float
    late: float
    best: float
    """Accuracies in percent: the last, the mean of the last `LATE`, the greatest."""


@dataclass(frozen=True)
class Pair:
    """A policy and FedRT in one column, paired by seed."""

    column: Column
    policy: str
    seeds: tuple[int, ...]
    fedrt: tuple[CellResults, ...]
    other: tuple[CellResults, ...]

    def changes(self, quantity: str) -> tuple[float, ...]:
        """The relative change from FedRT on each seed."""
        return tuple(ours / theirs - 1 for theirs, ours in self._values(quantity))

    def change(self, quantity: str) -> float:
        """The mean over seeds of the relative change from FedRT."""
        return float(np.mean(self.changes(quantity)))

    def points(self, quantity: str) -> tuple[float, ...]:
        """The difference to FedRT on each seed."""
        return tuple(ours - theirs for theirs, ours in self._values(quantity))

    def _values(self, quantity: str) -> list[tuple[float, float]]:
        """The values of FedRT and of the policy on each seed."""
        sides = zip(self.fedrt, self.other, strict=True)
        return [(getattr(theirs, quantity), getattr(ours, quantity)) for theirs, ours in sides]


def pairs(
    columns: Sequence[Column],
    policies: Sequence[str],
    seeds: Sequence[int],
    found: Mapping[str, Kept],
) -> list[Pair]:
    """Every policy but FedRT in every column, over the seeds that both have."""
    made = []
    others = [policy for policy in policies if policy != REFERENCE]
    for column in columns:
        cells = cells_of([column], [REFERENCE, *others], seeds)
        there = {(cell.policy, cell.seed): cell for cell in cells if cell.name in found}
        outcomes = {key: _outcome(cell, found[cell.name]) for key, cell in there.items()}
        for policy in others:
            both = [s for s in seeds if {(REFERENCE, s), (policy, s)} <= outcomes.keys()]
            if both:
                sides = [tuple(outcomes[who, s] for s in both) for who in (REFERENCE, policy)]
                made.append(Pair(column, policy, tuple(both), *sides))
    return made


def late_mean(accuracy: FloatArray) -> float:
    """The mean of the last `LATE` evaluations, rounded to digits that all processors share."""
    return round(float(accuracy[-LATE:].mean()), 9)


def _outcome(cell: Cell, kept: Kept) -> CellResults:
    """The results of a cell; its overspending is found by planning it again."""
    world = make_world(cell.column.load(), cell.seed)
    *_, (last, _) = replay(world, cell.policy, kept)
    books = last.last.after
    accuracy = 100 * kept.rounds["accuracy"]
    accuracy = accuracy[~np.isnan(accuracy)]
    return CellResults(
        time_s=kept.time_s,
        energy_j=kept.energy_j,
        over_j=float(np.maximum(books.spent_j - books.budget_j, 0.0).sum()),
        final=float(accuracy[-1]),
        late=late_mean(accuracy),
        best=float(accuracy.max()),
    )
