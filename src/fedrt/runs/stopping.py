"""Ending a run before its last round: once a measure is good enough, or no longer improves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fedrt.errors import InputError
from fedrt.measures import Measure
from fedrt.validation import shown

LOSS = Measure("loss", higher_is_better=False)
"""The mean loss of local steps, which every task has."""
RULE = "NAME=NUMBER, as accuracy=0.9"


def read_stop_at(text: str) -> tuple[str, float]:
    """The name of a measure and the value at which to stop, of a text like `accuracy=0.9`."""
    name, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not name.strip().isidentifier() or not math.isfinite(value):
        raise InputError(f"`stop_at` {shown(text)}: must be {RULE}")
    return name.strip(), value


class Stopping:
    """Says after each round whether a run is to end with it.

    `measures` are those of the run's task; without a name in `stop_at` the first one counts.
    """

    def __init__(
        self, stop_at: str | None, patience: int | None, measures: Sequence[Measure]
    ) -> None:
        name, self.value = measures[0].name, None  # type: str, float | None
        if stop_at is not None:
            name, self.value = read_stop_at(stop_at)
        known = {measure.name: measure for measure in (LOSS, *measures)}
        if name not in known:
            raise InputError(f"`stop_at` {name}: is not measured; there are {', '.join(known)}")
        self.measure, self.name = known[name], name
        self.patience = patience
        self.best: float | None = None
        self.since = 0

    def after(self, metrics: Mapping[str, float]) -> str | None:
        """Why a run ends after the round with these metrics; None if it goes on.

        Rounds without an evaluation say nothing.
        """
        if self.value is None and self.patience is None:
            return None
        value = metrics.get(self.name, math.nan)
        if math.isnan(value):
            return None
        if self.value is not None and self.measure.reaches(value, self.value):
            return f"{self.name} {value:.6g} has reached {self.value:g}"
        if self.best is None or (value != self.best and self.measure.reaches(value, self.best)):
            self.best, self.since = value, 0
        else:
            self.since += 1
        if self.patience is not None and self.since >= self.patience:
            return f"{self.name} has not improved in {self.since} evaluations"
        return None
