"""Learning-rate schedules over the global rounds of a run.

`learning.schedule` names one of these, or the import path of a user's own.
"""

from __future__ import annotations

import math
from typing import Any

from fedrt.scenario.entries import OwnEntry, make_own, refuse
from fedrt.scenario.methods import Schedule
from fedrt.scenario.model import Custom, Scenario


class RateRule:
    """The learning rate of every global round."""

    def __init__(self, scenario: Scenario) -> None:
        learning = scenario.learning
        self.rate, self.rounds = learning.learning_rate, scenario.rounds.global_rounds
        self.chosen = learning.schedule
        self.own: OwnEntry | None = None
        if isinstance(self.chosen, Custom):
            self.own = make_own(self.chosen, "schedule", ("factor",))

    @property
    def changes(self) -> bool:
        """Whether the rate is not the same in all rounds."""
        return self.chosen is not None

    def at(self, t: int) -> float:
        """The learning rate in global round t, from 0."""
        if self.chosen is None:
            return self.rate
        if self.own is not None:
            return self.rate * _checked(self.own, self.own.factor(t, self.rounds))
        assert not isinstance(self.chosen, Custom)
        return self.rate * factor_at(self.chosen, t, self.rounds)


def factor_at(chosen: Schedule, t: int, rounds: int) -> float:
    """What the rate is multiplied by in global round t, from 0, of a run of so many rounds.

    During a warm-up of W rounds it is (t + 1) / (W + 1); then the schedule begins with its first
    round, and lasts for the rest of the run.
    """
    warm = chosen.warm_up_rounds
    if t < warm:
        return (t + 1) / (warm + 1)
    return chosen.share(t - warm, max(1, rounds - warm))


def _checked(own: OwnEntry, found: Any) -> float:
    try:
        value = float(found)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise refuse(own, "factor must return a finite number >= 0")
    return value
