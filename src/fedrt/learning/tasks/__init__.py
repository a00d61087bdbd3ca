"""Learning tasks: the loss that training lowers, and the metric of evaluation.

`learning.task` names one of these, or the import path of a user's own.
"""

from __future__ import annotations

from collections.abc import Callable

from fedrt.learning.tasks.base import Task, batch_loss, device_losses, metric_sums
from fedrt.learning.tasks.classification import Classification
from fedrt.scenario.entries import make_own
from fedrt.scenario.model import Learning

__all__ = [
    "TASKS",
    "Classification",
    "Task",
    "batch_loss",
    "device_losses",
    "make_task",
    "metric_sums",
]

TASKS: dict[str, Callable[[Learning], Task]] = {"classification": Classification.from_settings}
"""Every shipped task by its name, made from the settings of a scenario."""


def make_task(learning: Learning) -> Task:
    """The task that a scenario names; a user's own gets its options."""
    chosen = learning.task or "classification"
    if isinstance(chosen, str):
        return TASKS[chosen](learning)
    made: Task = make_own(chosen, "task", ("losses", "metric", "output_shape"))
    return made
