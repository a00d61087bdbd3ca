"""Evaluation of models on the test set by their task's measures, one at a time or many at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.learning.distances import average
from fedrt.learning.engines.samples import TensorSamples, normalised
from fedrt.learning.models.flat import FlatModel, split_rows
from fedrt.learning.stacked.stack import STACKED_FORMS, StackedModule
from fedrt.learning.tasks import Task, measure_sums, measured
from fedrt.scenario.model import Scenario

FloatArray = NDArray[np.float64]

BATCH = 2500
STACKED_BATCH = 250
"""Images at a time in the stacked form on a processor: what its caches hold."""
COMPILED_BATCH = 1000
"""Images at a time where several models look at each."""

Evaluate = Callable[[Tensor], FloatArray]
"""The measures over the test set of each of several model states, models x measures."""


def accuracy(
    model: FlatModel, state: Tensor, samples: TensorSamples, task: Task, half: bool = False
) -> float:
    """The first measure of one model over the test set; `half` uses bfloat16 as in training."""
    return float(evaluate_one(model, state, samples, task, half)[0])


@torch.no_grad()
def evaluate_one(
    model: FlatModel, state: Tensor, samples: TensorSamples, task: Task, half: bool = False
) -> FloatArray:
    """All measures of one model over the test set."""
    model.load(state)
    model.module.eval()
    total = torch.zeros((1, len(task.measures)), dtype=torch.float64, device=state.device)
    for start in range(0, len(samples.test), BATCH):
        inputs = samples.normalise(samples.test[start : start + BATCH])
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        with torch.autocast(state.device.type, torch.bfloat16, enabled=half):
            outputs = model.module(inputs)
        labels = samples.test_labels[start : start + BATCH]
        total += measure_sums(task, outputs[None], labels)
    found: FloatArray = measured(task, total.cpu().numpy(), len(samples.test))[0]
    return found


def make_evaluation(
    model: FlatModel,
    samples: TensorSamples,
    task: Task,
    half: bool,
    *,
    form: str | None,
    compiled: bool,
) -> Evaluate:
    """The function that evaluates many models: compiled, stacked, or one after the other."""
    if compiled and samples.test.is_cuda:
        return CompiledEvaluation(model, samples, task, half)
    if form is not None and not samples.test.is_cuda:
        form = form if form in STACKED_FORMS else "grouped"
        return StackedEvaluation(model, samples, task, half, form)
    return lambda states: np.stack(
        [evaluate_one(model, state, samples, task, half) for state in states]
    )


def measure_names(task: Task) -> tuple[str, ...]:
    """The names of what `measure_models` gives."""
    first, *others = task.measures
    return (first.name, *first.edge_names, *(measure.name for measure in others))


def measure_models(evaluate: Evaluate, models: Tensor) -> list[float]:
    """The measures of the average model, and the first one's values over the edge models.

    Of these, which come after the first, the mean, the least and the greatest.
    """
    of_average, *of_edges = evaluate(torch.cat([average(models)[None], models])).tolist()
    of_first = [values[0] for values in of_edges]
    spread = (float(np.mean(of_first)), min(of_first), max(of_first))
    return [of_average[0], *spread, *of_average[1:]]


def is_evaluated(scenario: Scenario, t: int) -> bool:
    """Whether models are evaluated after a global round: each so many, and after the last."""
    every = scenario.learning.evaluate_every
    return (t + 1) % every == 0 or t + 1 >= scenario.rounds.global_rounds


class StackedEvaluation:
    """Evaluates models one by one with the fast layers that also train them.

    What `evaluate_one` gives for each, up to the way ties are rounded.
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
    def __call__(self, states: Tensor) -> FloatArray:
        """The measures of each model over the test set."""
        samples = self.samples
        totals = torch.zeros((len(states), len(self.task.measures)), dtype=torch.float64)
        size = self.model.num_parameters
        for start in range(0, len(samples.test), STACKED_BATCH):
            some = slice(start, start + STACKED_BATCH)
            inputs = samples.normalise(samples.test[some])
            for place, state in enumerate(states[:, None]):
                outputs = self.outputs(state[:, :size], state[:, size:], inputs)
                totals[place] += measure_sums(self.task, outputs, samples.test_labels[some])[0]
        return measured(self.task, totals.numpy(), len(samples.test))

    def outputs(self, parameters: Tensor, buffers: Tensor, inputs: Tensor) -> Tensor:
        """The outputs of each model for each input."""
        named, kept = split_rows(self.model, parameters, buffers)
        if self.half and inputs.is_floating_point():
            inputs = inputs.to(torch.bfloat16)
        shown = inputs.expand(len(parameters), *inputs.shape)
        return self.stacked.run(named, kept, shown)


class CompiledEvaluation(StackedEvaluation):
    """Evaluates many models at once in one compiled program, for GPUs."""

    def __init__(
        self, model: FlatModel, samples: TensorSamples, task: Task, half: bool = False
    ) -> None:
        super().__init__(model, samples, task, half)
        self.recorded: dict[int, _Recorded] = {}

    @torch.no_grad()
    def __call__(self, states: Tensor) -> FloatArray:
        """The measures of each model over the test set."""
        if len(states) not in self.recorded:
            self.recorded[len(states)] = _Recorded(self, states)
        totals = self.recorded[len(states)].add_up(states)
        return measured(self.task, totals, len(self.samples.test))

    def measure_sums(
        self,
        parameters: Tensor,
        buffers: Tensor,
        mean: Tensor,
        scale: Tensor,
        raw: Tensor,
        labels: Tensor,
        counted: Tensor,
    ) -> Tensor:
        """The sums of each model's measures over the samples that count."""
        inputs = normalised(raw, mean, scale, self.samples.bytes)
        outputs = self.outputs(parameters, buffers, inputs)
        return measure_sums(self.task, outputs, labels, counted)


class _Recorded:
    """The compiled program for a number of models; on a GPU one CUDA graph for the test set."""

    def __init__(self, owner: CompiledEvaluation, states: Tensor) -> None:
        from fedrt.learning.stacked.compiled import program_key, record, shared_program

        self.samples = owner.samples
        self.size = owner.model.num_parameters
        self.parameters, self.buffers = (
            states[:, : self.size].clone(),
            states[:, self.size :].clone(),
        )
        shape = (len(states), len(owner.task.measures))
        self.totals = torch.zeros(shape, dtype=torch.float64, device=states.device)
        # Batches of one size; in the last some samples may stand in and not count.
        number = len(self.samples.test)
        self.batch = -(-number // -(-number // COMPILED_BATCH))
        example = tuple(self._inputs(0))
        sizes = [(tuple(tensor.shape), tensor.dtype) for tensor in example]
        what = ("measures", owner.task, sizes)
        key = program_key(owner.stacked, owner.model, self.samples, owner.half, *what)
        self.program = shared_program(key, owner.measure_sums, example)
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

    def add_up(self, states: Tensor) -> FloatArray:
        """The sums of each model's measures over the test set."""
        self.parameters.copy_(states[:, : self.size])
        self.buffers.copy_(states[:, self.size :])
        if self.graph is None:
            self._add_up()
        else:
            self.graph.replay()
        found: FloatArray = self.totals.cpu().numpy()
        return found
