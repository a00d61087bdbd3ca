"""Next-token prediction: at every place of a sequence, which token comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as fn

from fedrt.learning.tasks.base import Shape
from fedrt.registry import TASKS


@dataclass(frozen=True)
class NextToken:
    """Cross entropy of one score per token of the vocabulary, mean over the places of a sample.

    Inputs are token numbers, and a sample's labels are as many: the next token of each place. The
    measures are the share of places at which the greatest score is right, and the perplexity, e to
    the mean cross entropy.
    """

    measures = TASKS["next-token"].measures

    def output_shape(self, num_classes: int, inputs: Shape) -> Shape:
        """The shape of the outputs: at each place a score for every token."""
        return (*inputs, num_classes)

    def label_problem(self, labels: NDArray[Any], inputs: NDArray[Any]) -> str | None:
        """Inputs and labels are sequences of whole numbers, equally long."""
        tokens = inputs.ndim == 2 and inputs.dtype.kind == "i" and labels.dtype.kind == "i"
        good = tokens and labels.shape == inputs.shape
        return None if good else "inputs and labels of whole numbers, both (samples, places)"

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The mean cross entropy of each sample's places."""
        scores = outputs.flatten(0, 1)
        each = fn.cross_entropy(scores, labels.flatten(), reduction="none")
        return each.view(labels.shape).mean(1)

    def values(self, outputs: Tensor, labels: Tensor) -> list[Tensor]:
        """For each sample, the share of places that are right, and its mean cross entropy."""
        right = outputs.argmax(2) == labels
        return [right.to(outputs.dtype).mean(1), self.losses(outputs, labels)]
