"""The interface of a task: the loss that training lowers and the measures that are reported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.measures import TASK_METHODS, Measure, own_measures
from fedrt.registry import TASKS, make_part
from fedrt.scenario.entries import OwnEntry, make_own, refuse
from fedrt.scenario.model import Custom, Learning

Shape = tuple[int, ...]
FloatArray = NDArray[np.float64]


class Task(Protocol):
    """How a model's outputs are compared with labels, sample by sample.

    Outputs and labels have the samples on their first axis. One more method may be there:
    `mean_loss`, the mean of the losses of a device's batch, where there is a quicker way to it.
    """

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What is reported of a model, most important first."""
        ...

    def output_shape(self, num_classes: int, inputs: Shape) -> Shape:
        """The shape of what a model must give for one sample with inputs of a shape."""
        ...

    def label_problem(self, labels: NDArray[Any], inputs: NDArray[Any]) -> str | None:
        """What the labels of a data set must be where they are not; None if they fit."""
        ...

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The loss of each sample; a device lowers the mean over its batch."""
        ...

    def values(self, outputs: Tensor, labels: Tensor) -> list[Tensor]:
        """Of every measure, its value for each sample; models are judged by the means."""
        ...


class OwnTask:
    """A user's own task.

    It has `losses`, `output_shape(num_classes)`, and `metric`, which gives one number for each
    sample: its accuracy. With `measures`, a dict of names to "higher" or "lower", `metrics` gives
    one such tensor for each name instead, as a dict. `label_shape` is () where it is not given.
    """

    def __init__(self, own: OwnEntry, measures: tuple[Measure, ...]) -> None:
        self.own, self.measures = own, measures
        self.named = getattr(own.entry, "measures", None) is not None
        if not callable(getattr(own.entry, "metrics" if self.named else "metric", None)):
            lacking = "metrics(), as it has measures" if self.named else "metric()"
            raise refuse(own, f"must have the method {lacking}")

    def __repr__(self) -> str:
        return repr(self.own)

    def output_shape(self, num_classes: int, inputs: Shape) -> Shape:
        """What the user's own task says."""
        found: Shape = self.own.output_shape(num_classes)
        return found

    def label_problem(self, labels: NDArray[Any], inputs: NDArray[Any]) -> str | None:
        """A rule about the labels' shape."""
        needed = tuple(getattr(self.own.entry, "label_shape", labels.shape[1:]))
        return None if labels.shape[1:] == needed else f"labels of shape {needed}"

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The loss of each sample, checked."""
        return self._one_for_each("losses", self.own.losses(outputs, labels), len(outputs))

    def values(self, outputs: Tensor, labels: Tensor) -> list[Tensor]:
        """The measures of each sample, checked."""
        if not self.named:
            return [self._one_for_each("metric", self.own.metric(outputs, labels), len(outputs))]
        found = self.own.metrics(outputs, labels)
        names = [measure.name for measure in self.measures]
        if not isinstance(found, Mapping) or list(found) != names:
            raise refuse(self.own, f"metrics must return a dict of {', '.join(names)}")
        return [self._one_for_each("metrics", found[name], len(outputs)) for name in names]

    def _one_for_each(self, method: str, found: Any, count: int) -> Tensor:
        if not (isinstance(found, Tensor) and found.shape == (count,)):
            raise refuse(self.own, f"{method} must return one number for each sample")
        return found


def batch_loss(task: Task, outputs: Tensor, labels: Tensor) -> Tensor:
    """The mean loss of one device's batch."""
    quick = getattr(task, "mean_loss", None)
    if quick is not None:
        found: Tensor = quick(outputs, labels)
        return found
    return task.losses(outputs, labels).mean()


def device_losses(task: Task, outputs: Tensor, labels: Tensor) -> Tensor:
    """The mean loss of each of many devices, which are on the first axis, batches on the second."""
    each = task.losses(outputs.flatten(0, 1), labels.flatten(0, 1))
    return each.view(outputs.shape[:2]).mean(1)


def measure_sums(
    task: Task, outputs: Tensor, labels: Tensor, counted: Tensor | None = None
) -> Tensor:
    """The sums of all measures over a batch, in float64, models x measures.

    The models are on the first axis and share their samples; `counted` is a mask of those that
    count.
    """
    models = len(outputs)
    repeated = labels.expand(models, *labels.shape).flatten(0, 1)
    sums = []
    for each in task.values(outputs.flatten(0, 1), repeated):
        values = each.view(models, -1)
        if counted is not None:
            values = torch.where(counted, values, torch.zeros_like(values))
        sums.append(values.sum(1, dtype=torch.float64))
    return torch.stack(sums, dim=1)


def measured(task: Task, sums: FloatArray, count: float | FloatArray) -> FloatArray:
    """The measures of models from their sums over so many samples, models x measures."""
    means: FloatArray = sums / count
    for place, measure in enumerate(task.measures):
        if measure.of_mean == "root":
            means[:, place] = np.sqrt(means[:, place])
        elif measure.of_mean == "exp":
            with np.errstate(over="ignore"):
                means[:, place] = np.minimum(np.exp(means[:, place]), math.exp(700))
    return means


def make_task(learning: Learning) -> Task:
    """The task that a scenario names; a user's own gets its options."""
    choice = learning.task or "classification"
    if isinstance(choice, Custom):
        own = make_own(choice, "task", TASK_METHODS)
        return OwnTask(own, own_measures(own.entry, own.name))
    task: Task = make_part(TASKS, choice, learning)
    return task
