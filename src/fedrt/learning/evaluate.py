"""Evaluation of models on the test set by their task's metric, one at a time or many at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedrt.learning.engines.samples import TensorSamples, normalised
from fedrt.learning.models.flat import FlatModel, split_rows
from fedrt.learning.stacked.stack import STACKED_FORMS, StackedModule
from fedrt.learning.tasks import Task, metric_sums

BATCH = 2500
STACKED_BATCH = 250
"""Images at a time in the stacked form on a processor: what its caches hold."""
COMPILED_BATCH = 1000
"""Images at a time where several models look at each."""

Accuracies = Callable[[Tensor], list[float]]
"""The mean metric over the test set of each of several model states: their accuracy."""


@torch.no_grad()
def accuracy(
    model: FlatModel, state: Tensor, samples: TensorSamples, task: Task, half: bool = False
) -> float:
    """The mean metric of one model over the test set; `half` uses bfloat16 as in training."""
    model.load(state)
    model.module.eval()
    total = torch.zeros(1, dtype=torch.float64, device=state.device)
    for start in range(0, len(samples.test), BATCH):
        inputs = samples.normalise(samples.test[start : start + BATCH])
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        with torch.autocast(state.device.type, torch.bfloat16, enabled=half):
            outputs = model.module(inputs)
        labels = samples.test_labels[start : start + BATCH]
        total += metric_sums(task, outputs[None], labels)
    return float(total) / len(samples.test)


def make_accuracies(
    model: FlatModel,
    samples: TensorSamples,
    task: Task,
    half: bool,
    *,
    form: str | None,
    compiled: bool,
) -> Accuracies:
    """The function that evaluates many models: compiled, stacked, or one after the other."""
    if compiled and samples.test.is_cuda:
        return CompiledAccuracy(model, samples, task, half)
    if form is not None and not samples.test.is_cuda:
        form = form if form in STACKED_FORMS else "grouped"
        return StackedAccuracy(model, samples, task, half, form)
    return lambda states: [accuracy(model, state, samples, task, half) for state in states]


class StackedAccuracy:
    """Evaluates models one by one with the fast layers that also train them.

    What `accuracy` gives for each, up to the way ties are rounded.
    """

    def __init__(
        self,
        model: FlatModel,
        samples: TensorSamples,
        task: Task,
        half: bool = False,
        form: str = "grouped",
    ) -> None:
        self.model, self.samples, self.task, self.half = model, samples, task, half
        self.stacked = StackedModule(model.module, form=form, training=False)

    @torch.no_grad()
    def __call__(self, states: Tensor) -> list[float]:
        """The mean metric of each model over the test set."""
        samples = self.samples
        totals = torch.zeros(len(states), dtype=torch.float64)
        size = self.model.num_parameters
        for start in range(0, len(samples.test), STACKED_BATCH):
            some = slice(start, start + STACKED_BATCH)
            inputs = samples.normalise(samples.test[some])
            for place, state in enumerate(states[:, None]):
                outputs = self.outputs(state[:, :size], state[:, size:], inputs)
                totals[place] += metric_sums(self.task, outputs, samples.test_labels[some])[0]
        return [total / len(samples.test) for total in totals.tolist()]

    def outputs(self, parameters: Tensor, buffers: Tensor, inputs: Tensor) -> Tensor:
        """The outputs of each model for each input."""
        named, kept = split_rows(self.model, parameters, buffers)
        inputs = inputs.to(torch.bfloat16) if self.half else inputs
        shown = inputs.expand(len(parameters), *inputs.shape)
        return self.stacked.run(named, kept, shown)


class CompiledAccuracy(StackedAccuracy):
    """Evaluates many models at once in one compiled program, for GPUs."""

    def __init__(
        self, model: FlatModel, samples: TensorSamples, task: Task, half: bool = False
    ) -> None:
        super().__init__(model, samples, task, half)
        self.recorded: dict[int, _Recorded] = {}

    @torch.no_grad()
    def __call__(self, states: Tensor) -> list[float]:
        """The mean metric of each model over the test set."""
        if len(states) not in self.recorded:
            self.recorded[len(states)] = _Recorded(self, states)
        totals = self.recorded[len(states)].add_up(states)
        return [total / len(self.samples.test) for total in totals]

    def metric_sums(
        self,
        parameters: Tensor,
        buffers: Tensor,
        mean: Tensor,
        scale: Tensor,
        raw: Tensor,
        labels: Tensor,
        counted: Tensor,
    ) -> Tensor:
        """The sum of each model's metric over the samples that count."""
        inputs = normalised(raw, mean, scale, self.samples.bytes)
        outputs = self.outputs(parameters, buffers, inputs)
        return metric_sums(self.task, outputs, labels, counted)


class _Recorded:
    """The compiled program for a number of models; on a GPU one CUDA graph for the test set."""

    def __init__(self, owner: CompiledAccuracy, states: Tensor) -> None:
        from fedrt.learning.stacked.compiled import program_key, record, shared_program

        self.samples = owner.samples
        self.size = owner.model.num_parameters
        self.parameters, self.buffers = (
            states[:, : self.size].clone(),
            states[:, self.size :].clone(),
        )
        self.totals = torch.zeros(len(states), dtype=torch.float64, device=states.device)
        # Batches of one size; in the last some samples may stand in and not count.
        number = len(self.samples.test)
        self.batch = -(-number // -(-number // COMPILED_BATCH))
        example = tuple(self._inputs(0))
        sizes = [(tuple(tensor.shape), tensor.dtype) for tensor in example]
        what = ("accuracy", owner.task, sizes)
        key = program_key(owner.stacked, owner.model, self.samples, owner.half, *what)
        self.program = shared_program(key, owner.metric_sums, example)
        self.graph = record(self._add_up) if states.is_cuda else None

    def _inputs(self, start: int) -> list[Tensor]:
        place = torch.arange(start, start + self.batch, device=self.totals.device)
        counted = place < len(self.samples.test)
        place = place.clamp(max=len(self.samples.test) - 1)
        raw, labels = self.samples.test[place], self.samples.test_labels[place]
        mean, scale = self.samples.mean, self.samples.scale
        return [self.parameters, self.buffers, mean, scale, raw, labels, counted]

    @torch.no_grad()
    def _add_up(self) -> None:
        self.totals.zero_()
        for start in range(0, len(self.samples.test), self.batch):
            self.totals += self.program(*self._inputs(start))

    def add_up(self, states: Tensor) -> list[float]:
        """The sum of each model's metric over the test set."""
        self.parameters.copy_(states[:, : self.size])
        self.buffers.copy_(states[:, self.size :])
        if self.graph is None:
            self._add_up()
        else:
            self.graph.replay()
        found: list[float] = self.totals.tolist()
        return found
