"""Trained policies held against FedRT: time, energy, what is over budget, and accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedrt.experiments.cells import Cell, Column
from fedrt.experiments.kept import Kept, replay

REFERENCE = "fedrt"
LATE = 10
"""Evaluations at the end whose mean says more than the last, which moves by chance."""


@dataclass(frozen=True)
class Outcome:
    """What one trained cell came to."""

    time_s: float
    energy_j: float
    """Of a device, mean over devices."""
    over_j: float
    """What all devices spent above their budgets."""
    final: float
    late: float
    best: float
    """Accuracies in percent: the last, the mean of the last `LATE`, the greatest."""


@dataclass(frozen=True)
class Pair:
    """A policy and FedRT in one column, by seed."""

    column: Column
    policy: str
    seeds: tuple[int, ...]
    fedrt: tuple[Outcome, ...]
    other: tuple[Outcome, ...]

    def change(self, quantity: str) -> float:
        """The mean over seeds of the relative change from FedRT."""
        return float(np.mean(self._values(self.other, quantity) / self._fedrt(quantity) - 1))

    def points(self, quantity: str) -> tuple[float, ...]:
        """How far above FedRT, for each seed."""
        return tuple((self._values(self.other, quantity) - self._fedrt(quantity)).tolist())

    def _fedrt(self, quantity: str) -> np.ndarray:
        return self._values(self.fedrt, quantity)

    @staticmethod
    def _values(outcomes: Sequence[Outcome], quantity: str) -> np.ndarray:
        return np.array([getattr(each, quantity) for each in outcomes])


def pairs(
    columns: Sequence[Column],
    policies: Sequence[str],
    seeds: Sequence[int],
    found: Mapping[str, Kept],
) -> list[Pair]:
    """Every policy but FedRT in every column, over the seeds that both are there for."""
    made = []
    for column in columns:
        known: dict[str, Outcome] = {}

        def outcome(cell: Cell, known: dict[str, Outcome] = known) -> Outcome:
            if cell.name not in known:
                known[cell.name] = _outcome(cell, found[cell.name])
            return known[cell.name]

        for policy in policies:
            both = [
                (Cell(column, REFERENCE, seed), Cell(column, policy, seed))
                for seed in seeds
                if policy != REFERENCE
            ]
            there = [pair for pair in both if all(cell.name in found for cell in pair)]
            if there:
                theirs, ours = zip(*there, strict=True)
                made.append(
                    Pair(
                        column,
                        policy,
                        tuple(cell.seed for cell in ours),
                        tuple(outcome(cell) for cell in theirs),
                        tuple(outcome(cell) for cell in ours),
                    )
                )
    return made


def _outcome(cell: Cell, kept: Kept) -> Outcome:
    """What is over budget is not kept: the cell is planned again for it."""
    *_, (last, _) = replay(cell, cell.column.load(), kept)
    books = last.last.after
    accuracy = 100 * kept.rounds["accuracy"]
    accuracy = accuracy[~np.isnan(accuracy)]
    return Outcome(
        time_s=kept.time_s,
        energy_j=kept.energy_j,
        over_j=float(np.maximum(books.spent_j - books.budget_j, 0.0).sum()),
        final=float(accuracy[-1]),
        late=float(accuracy[-LATE:].mean()),
        best=float(accuracy.max()),
    )
