"""Regression: numbers that a model is to come near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as fn

from fedrt.learning.tasks.base import Shape
from fedrt.measures import MEASURES, Measure
from fedrt.scenario.methods import RegressionOptions
from fedrt.scenario.model import Learning


@dataclass(frozen=True)
class Regression:
    """The squared error, or Huber's with a delta, mean over a sample's numbers.

    Huber's is half the square of an error up to delta, and delta (|error| - delta / 2) beyond. The
    measures are the root of the mean squared error, and the mean absolute error.
    """

    huber_delta: float | None = None
    measures: tuple[Measure, ...] = MEASURES["regression"]

    @classmethod
    def from_settings(cls, learning: Learning) -> Regression:
        """The task with its loss."""
        chosen = learning.task
        options = chosen if isinstance(chosen, RegressionOptions) else RegressionOptions()
        return cls(options.delta if options.loss == "huber" else None)

    def output_shape(self, num_classes: int, inputs: Shape) -> Shape:
        """The shape of the outputs: as many numbers as a sample has."""
        return (num_classes,)

    def label_problem(self, labels: NDArray[Any], inputs: NDArray[Any]) -> str | None:
        """Labels are one or more numbers each, in floating point."""
        good = labels.ndim == 2 and labels.dtype.kind == "f"
        return None if good else "labels of floating point, (samples) or (samples, numbers)"

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of each sample's numbers."""
        wanted = labels.to(outputs.dtype)
        if self.huber_delta is None:
            return (outputs - wanted).square().mean(1)
        return fn.huber_loss(outputs, wanted, reduction="none", delta=self.huber_delta).mean(1)

    def values(self, outputs: Tensor, labels: Tensor) -> list[Tensor]:
        """For each sample, its mean squared and its mean absolute error."""
        error = outputs - labels.to(outputs.dtype)
        return [error.square().mean(1), error.abs().mean(1)]
