"""The interface of a task: the loss that training lowers and the metric that is reported."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from fedrt.scenario.entries import OwnEntry, refuse


class Task(Protocol):
    """How a model's outputs are compared with labels, sample by sample.

    Outputs and labels have the samples on their first axis. One more method may be there: `loss`,
    the mean of the losses of a device's batch, where there is a quicker way to it.
    """

    @property
    def label_shape(self) -> tuple[int, ...]:
        """The shape of one sample's label; () for a number."""
        ...

    def output_shape(self, num_classes: int) -> tuple[int, ...]:
        """The shape of what a model must give for one sample."""
        ...

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The loss of each sample; a device lowers the mean over its batch."""
        ...

    def metric(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """What is reported of each test sample; accuracy is its mean, and more is better."""
        ...


def batch_loss(task: Task, outputs: Tensor, labels: Tensor) -> Tensor:
    """The mean loss of one device's batch."""
    quick = getattr(task, "loss", None)
    if quick is not None:
        found: Tensor = quick(outputs, labels)
        return found
    return sample_losses(task, outputs, labels).mean()


def device_losses(task: Task, outputs: Tensor, labels: Tensor) -> Tensor:
    """The mean loss of each of many devices, which are on the first axis, batches on the second."""
    each = sample_losses(task, outputs.flatten(0, 1), labels.flatten(0, 1))
    return each.view(outputs.shape[:2]).mean(1)


def sample_losses(task: Task, outputs: Tensor, labels: Tensor) -> Tensor:
    """The loss of each sample; the result of a user's own task is checked."""
    return _one_for_each(task, "losses", task.losses(outputs, labels), len(outputs))


def metric_sums(
    task: Task, outputs: Tensor, labels: Tensor, counted: Tensor | None = None
) -> Tensor:
    """The sum of the metric over a batch, in float64, for each of many models on the first axis.

    The models share their samples; `counted` is a mask of those that count.
    """
    models = len(outputs)
    repeated = labels.expand(models, *labels.shape).flatten(0, 1)
    values = task.metric(outputs.flatten(0, 1), repeated)
    each = _one_for_each(task, "metric", values, len(repeated)).view(models, -1)
    if counted is not None:
        each = torch.where(counted, each, torch.zeros_like(each))
    return each.sum(1, dtype=torch.float64)


def _one_for_each(task: Task, method: str, found: Any, count: int) -> Tensor:
    if isinstance(task, OwnEntry) and not (isinstance(found, Tensor) and found.shape == (count,)):
        raise refuse(task, f"{method} must return one number for each sample")
    return found
