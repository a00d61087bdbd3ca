"""Regression: numbers that a model is to come near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fedrt.registry import TASKS
from fedrt.scenario.tables.fields import setting
from fedrt.validation import OneOf, Real

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from fedrt.learning.tasks.base import Shape


@dataclass(frozen=True)
class Regression:
    """Regression: numbers that a model is to come near.

    The squared error, or Huber's with a delta, mean over a sample's numbers. Huber's is half the
    square of an error up to delta, and delta (|error| - delta / 2) beyond. The measures are the
    root of the mean squared error, and the mean absolute error.
    """

    measures = TASKS["regression"].measures
    kind: ClassVar[str] = "regression"
    loss: str = setting(OneOf(("mse", "huber")), "mse")
    """The squared error, or Huber's: squared up to `delta`, beyond that linear."""
    delta: float = setting(Real(above=0, most=1e9), 1.0)
    """Where Huber's loss becomes linear."""

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
        if self.loss == "mse":
            return (outputs - wanted).square().mean(1)
        from torch.nn.functional import huber_loss

        return huber_loss(outputs, wanted, reduction="none", delta=self.delta).mean(1)

    def values(self, outputs: Tensor, labels: Tensor) -> list[Tensor]:
        """For each sample, its mean squared and its mean absolute error."""
        error = outputs - labels.to(outputs.dtype)
        return [error.square().mean(1), error.abs().mean(1)]
