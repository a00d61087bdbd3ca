"""Learning tasks: the loss that training lowers, and the measures of evaluation.

`learning.task` names one of these, or the import path of a user's own.
"""

from __future__ import annotations

from collections.abc import Callable

from fedrt.learning.tasks.base import (
    OwnTask,
    Task,
    batch_loss,
    device_losses,
    measure_sums,
    measured,
)
from fedrt.learning.tasks.classification import Classification
from fedrt.learning.tasks.multi_label import MultiLabel
from fedrt.learning.tasks.next_token import NextToken
from fedrt.learning.tasks.regression import Regression
from fedrt.measures import TASK_METHODS, own_measures
from fedrt.scenario.entries import make_own
from fedrt.scenario.model import Custom, Learning

__all__ = [
    "TASKS",
    "Classification",
    "MultiLabel",
    "NextToken",
    "OwnTask",
    "Regression",
    "Task",
    "batch_loss",
    "device_losses",
    "make_task",
    "measure_sums",
    "measured",
]

TASKS: dict[str, Callable[[Learning], Task]] = {
    "classification": Classification.from_settings,
    "multi-label": MultiLabel.from_settings,
    "next-token": NextToken.from_settings,
    "regression": Regression.from_settings,
}
"""Every shipped task by its name, made from the settings of a scenario."""


def make_task(learning: Learning) -> Task:
    """The task that a scenario names; a user's own gets its options."""
    chosen = learning.task or "classification"
    if isinstance(chosen, Custom):
        own = make_own(chosen, "task", TASK_METHODS)
        return OwnTask(own, own_measures(own.entry, own.name))
    return TASKS[chosen if isinstance(chosen, str) else chosen.kind](learning)
