"""Accuracy on the test set: of one model state, and of many at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedrt.learning.flat import FlatModel, split_rows
from fedrt.learning.samples import Samples, normalised
from fedrt.learning.stack import STACKED_FORMS, StackedModule

BATCH = 2500
STACKED_BATCH = 250
"""Images at a time in the stacked form on a processor: what its caches hold."""
COMPILED_BATCH = 1000
"""Images at a time where several models look at each."""

Accuracies = Callable[[Tensor], list[float]]
"""The share of test samples that each of several model states classifies right."""


@torch.no_grad()
def accuracy(model: FlatModel, state: Tensor, samples: Samples, half: bool = False) -> float:
    """The share of test samples that a model state classifies right; `half` as in training."""
    model.load(state)
    model.module.eval()
    right = torch.zeros((), dtype=torch.int64, device=state.device)
    for start in range(0, len(samples.test), BATCH):
        inputs = samples.normalise(samples.test[start : start + BATCH])
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        with torch.autocast(state.device.type, torch.bfloat16, enabled=half):
            guess = model.module(inputs).argmax(1)
        right += (guess == samples.test_labels[start : start + BATCH]).sum()
    return float(right) / len(samples.test)


def make_accuracies(
    model: FlatModel, samples: Samples, half: bool, *, form: str | None, compiled: bool
) -> Accuracies:
    """By one compiled program, or by the stacked engine's layers; without a form plainly."""
    if compiled and samples.test.is_cuda:
        return CompiledAccuracy(model, samples, half)
    if form is not None and not samples.test.is_cuda:
        form = form if form in STACKED_FORMS else "grouped"
        return StackedAccuracy(model, samples, half, form)
    return lambda states: [accuracy(model, state, samples, half) for state in states]


class StackedAccuracy:
    """The accuracies of states one by one, by the layers that train: faster than the library's.

    What `accuracy` gives for each, up to the way ties are rounded.
    """

    def __init__(
        self, model: FlatModel, samples: Samples, half: bool = False, form: str = "grouped"
    ) -> None:
        self.model, self.samples, self.half = model, samples, half
        self.stacked = StackedModule(model.module, form=form, training=False)

    @torch.no_grad()
    def __call__(self, states: Tensor) -> list[float]:
        """The share of test samples that each state classifies right."""
        samples = self.samples
        right = torch.zeros(len(states), dtype=torch.int64)
        size = self.model.num_parameters
        for start in range(0, len(samples.test), STACKED_BATCH):
            some = slice(start, start + STACKED_BATCH)
            inputs = samples.normalise(samples.test[some])
            for place, state in enumerate(states[:, None]):
                guess = self.guess(state[:, :size], state[:, size:], inputs)
                right[place] += (guess == samples.test_labels[some]).sum()
        return [int(count) / len(samples.test) for count in right]

    def guess(self, parameters: Tensor, buffers: Tensor, inputs: Tensor) -> Tensor:
        """The class that each state takes each input for."""
        named, kept = split_rows(self.model, parameters, buffers)
        inputs = inputs.to(torch.bfloat16) if self.half else inputs
        shown = inputs.expand(len(parameters), *inputs.shape)
        return self.stacked.run(named, kept, shown).argmax(2)


class CompiledAccuracy(StackedAccuracy):
    """The accuracies of many states at once, as one compiled program: what a GPU does best."""

    def __init__(self, model: FlatModel, samples: Samples, half: bool = False) -> None:
        super().__init__(model, samples, half)
        self.recorded: dict[int, _Recorded] = {}

    @torch.no_grad()
    def __call__(self, states: Tensor) -> list[float]:
        """The share of test samples that each state classifies right."""
        if len(states) not in self.recorded:
            self.recorded[len(states)] = _Recorded(self, states)
        right = self.recorded[len(states)].count(states)
        return [count / len(self.samples.test) for count in right]

    def count_right(
        self,
        parameters: Tensor,
        buffers: Tensor,
        mean: Tensor,
        scale: Tensor,
        raw: Tensor,
        labels: Tensor,
        counted: Tensor,
    ) -> Tensor:
        """How many of the samples that count each state classifies right."""
        inputs = normalised(raw, mean, scale, self.samples.bytes)
        return ((self.guess(parameters, buffers, inputs) == labels) & counted).sum(1)


class _Recorded:
    """The program for one number of states; on a GPU the whole test set is one recorded graph."""

    def __init__(self, owner: CompiledAccuracy, states: Tensor) -> None:
        from fedrt.learning.compiled import program_key, record, shared_program

        self.samples = owner.samples
        self.size = owner.model.num_parameters
        self.parameters, self.buffers = (
            states[:, : self.size].clone(),
            states[:, self.size :].clone(),
        )
        self.right = torch.zeros(len(states), dtype=torch.int64, device=states.device)
        # Batches of one size; in the last some samples may stand in and not count.
        number = len(self.samples.test)
        self.batch = -(-number // -(-number // COMPILED_BATCH))
        example = tuple(self._inputs(0))
        sizes = [(tuple(tensor.shape), tensor.dtype) for tensor in example]
        key = program_key(owner.stacked, owner.model, self.samples, owner.half, "accuracy", sizes)
        self.program = shared_program(key, owner.count_right, example)
        self.graph = record(self._count) if states.is_cuda else None

    def _inputs(self, start: int) -> list[Tensor]:
        place = torch.arange(start, start + self.batch, device=self.right.device)
        counted = place < len(self.samples.test)
        place = place.clamp(max=len(self.samples.test) - 1)
        raw, labels = self.samples.test[place], self.samples.test_labels[place]
        mean, scale = self.samples.mean, self.samples.scale
        return [self.parameters, self.buffers, mean, scale, raw, labels, counted]

    @torch.no_grad()
    def _count(self) -> None:
        self.right.zero_()
        for start in range(0, len(self.samples.test), self.batch):
            self.right += self.program(*self._inputs(start))

    def count(self, states: Tensor) -> list[int]:
        """How many test samples each state classifies right."""
        self.parameters.copy_(states[:, : self.size])
        self.buffers.copy_(states[:, self.size :])
        if self.graph is None:
            self._count()
        else:
            self.graph.replay()
        return [int(count) for count in self.right.cpu()]
