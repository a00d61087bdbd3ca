"""The compiled local step of a chunk of devices; on a GPU recorded as one CUDA graph.

The whole step is written out as plain operations (forward, backward, update) and compiled, so that
everything between the convolutions is fused. On a GPU the compiled step is recorded once and played
back, which costs one launch. A program holds no data of a run: engines of one process that train
the same model with the same settings share it (`program_key`), however many runs they serve.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch._inductor.config
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from fedrt.learning.codecs.blocks import receive_blocks
from fedrt.learning.engines.method import StepInputs
from fedrt.learning.engines.samples import TensorSamples, augment, normalised
from fedrt.learning.models.flat import FlatModel, split_rows
from fedrt.learning.optimisers import updated
from fedrt.learning.stacked.stack import StackedModule
from fedrt.learning.stacked.step import StepRule

WARM_UP = 3

Program = Callable[..., Any]

PROGRAMS: dict[Any, Program] = {}
"""Every program of this process, by all that it depends on."""


def shared_program(key: Any, function: Program, example: tuple[Any, ...]) -> Program:
    """The function compiled for inputs like the example's, shared by all engines of a process."""
    if key not in PROGRAMS:
        with _tried_kernels():
            written = make_fx(lambda *tensors: function(*tensors))(*example)
        PROGRAMS[key] = torch.compile(written, dynamic=False, fullgraph=True)
    return PROGRAMS[key]


def compiled_coding(tensors: list[Tensor]) -> Program:
    """The coding of updates (`receive_blocks`) compiled for tensors like these."""
    sizes = [(tuple(tensor.shape), tensor.stride(), str(tensor.device)) for tensor in tensors]
    key = ("coding", repr(sizes))
    return shared_program(key, receive_blocks, tuple(tensors))


def _tried_kernels() -> AbstractContextManager[None]:
    """Let the GPU library benchmark its kernels in the block and use the fastest.

    Its first guess for grouped convolutions is one kernel per group, and it keeps to whatever it
    took when it first met a size: so from the writing out of a step on.
    """
    found: AbstractContextManager[None] = torch.backends.cudnn.flags(enabled=True, benchmark=True)
    return found


class CompiledSteps:
    """Trains chunks of devices with a compiled program for each size of chunk."""

    def __init__(self, rule: StepRule, model: FlatModel) -> None:
        self.rule, self.model = rule, model
        self.programs: dict[tuple[int, bool], _Chunk] = {}

    def __call__(
        self,
        rows: Tensor,
        chosen: Tensor,
        shifts: Tensor | None,
        counts: Tensor | None,
        given: StepInputs,
    ) -> tuple[Tensor, Tensor]:
        """Each device's state after all steps, starting from its row, and its sum of losses.

        `chosen` and `shifts` have the steps on their first axis; `counts` are the devices' own
        numbers of steps where these are not all the same. Nothing waits for a GPU here.
        """
        key = (len(rows), counts is not None)
        if key not in self.programs:
            self.programs[key] = _Chunk(self.rule, self.model, rows, chosen, shifts, counts)
        return self.programs[key].train(rows, chosen, shifts, counts, given)


class _Chunk:
    """The states of a chunk of one size, and the compiled program of its step."""

    def __init__(
        self,
        rule: StepRule,
        model: FlatModel,
        rows: Tensor,
        chosen: Tensor,
        shifts: Tensor | None,
        counts: Tensor | None,
    ) -> None:
        self.model, self.samples = model, rule.samples
        count, size = len(rows), model.num_parameters
        self.parameters, self.buffers = rows[:, :size].clone(), rows[:, size:].clone()
        self.optimiser = rule.method.optimiser
        self.remembered = self.optimiser.init([self.parameters])
        self.number = torch.zeros((), dtype=torch.float64, device=rows.device)
        self.losses = torch.zeros(count, dtype=torch.float64, device=rows.device)
        self.chosen = chosen[0].clone() if len(chosen) else chosen.new_zeros(chosen.shape[1:])
        self.shifts = None if shifts is None else shifts.new_zeros(shifts.shape[1:])
        self.moving = None if counts is None else counts > 0
        scheduled = rule.method.rates.changes
        self.rate = torch.zeros_like(self.number) if scheduled else None
        given = (len(self.remembered), scheduled, shifts is not None, counts is not None)
        function = _plain_step(rule, model, count, *given)
        self.graph: torch.cuda.CUDAGraph | None = None
        example = self._inputs()
        sizes = [(tuple(tensor.shape), tensor.dtype) for tensor in example]
        what = ("step", rule.method.optimiser, scheduled, rule.method.task, shifts is not None)
        key = program_key(rule.stacked, model, rule.samples, rule.half, *what, sizes)
        self.step = shared_program(key, function, tuple(example))
        if rows.is_cuda:
            self.graph = record(self._advance)

    def _inputs(self) -> list[Tensor]:
        """The inputs of a program: states, then samples, then those that not all programs have.

        A schedule's rate, augmentation, and step counts.
        """
        chosen = self.chosen.flatten()
        given = (self.rate, self.shifts, self.moving)
        return [
            self.parameters,
            *self.remembered,
            self.number,
            self.buffers,
            self.samples.mean,
            self.samples.scale,
            self.samples.train[chosen],
            self.samples.train_labels[chosen],
            *(tensor for tensor in given if tensor is not None),
        ]

    @torch.no_grad()
    def _advance(self) -> None:
        self.number += 1
        self.losses += self.step(*self._inputs())

    @torch.no_grad()
    def train(
        self,
        rows: Tensor,
        chosen: Tensor,
        shifts: Tensor | None,
        counts: Tensor | None,
        given: StepInputs,
    ) -> tuple[Tensor, Tensor]:
        """Train a chunk as `CompiledSteps` describes."""
        size = self.model.num_parameters
        self.parameters.copy_(rows[:, :size])
        self.buffers.copy_(rows[:, size:])
        self.buffers[:, self.model.num_held - size :].round_()
        for held, new in zip(self.remembered, self.optimiser.init([self.parameters]), strict=True):
            held.copy_(new)
        if given.corrections is not None:
            self.remembered[-1].copy_(given.corrections)
        if self.rate is not None and given.rate is not None:
            self.rate.fill_(given.rate)
        self.number.zero_()
        self.losses.zero_()
        for number in range(len(chosen)):
            self.chosen.copy_(chosen[number])
            if self.shifts is not None and shifts is not None:
                self.shifts.copy_(shifts[number])
            if self.moving is not None and counts is not None:
                self.moving.copy_(counts > number)
            if self.graph is None:
                self._advance()
            else:
                self.graph.replay()
        return torch.cat([self.parameters, self.buffers], dim=1), self.losses.clone()


def record(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """Record work as a CUDA graph to replay, after a few warm-up runs."""
    # Layers stay channels-last throughout.
    with _tried_kernels(), torch._inductor.config.patch(force_layout_optimization=True):
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
    return graph


def program_key(
    stacked: StackedModule, model: FlatModel, samples: TensorSamples, half: bool, *more: Any
) -> tuple[Any, ...]:
    """Everything that a compiled program depends on; `more` are settings and input sizes."""
    where, layout = str(samples.device), repr(model.layout)
    return (stacked.signature(), layout, where, samples.bytes, half, repr(more))


def _plain_step(
    rule: StepRule,
    model: FlatModel,
    count: int,
    slots: int,
    scheduled: bool,
    augmented: bool,
    uneven: bool,
) -> Callable[..., Tensor]:
    """The step as a function of tensors alone, which updates states in place; returns losses.

    The optimiser remembers so many tensors; they come after the parameters. With a schedule the
    learning rate is an input, so that one program serves all rounds.
    """

    def plain(parameters: Tensor, *given: Tensor) -> Tensor:
        remembered, (number, buffers, mean, scale, raw, labels, *moves) = (
            list(given[:slots]),
            given[slots:],
        )
        optimiser = rule.method.optimiser
        if scheduled:
            optimiser = rule.method.optimiser_with(moves.pop(0))
        inputs = normalised(raw, mean, scale, rule.samples.bytes)
        if augmented:
            inputs = augment(inputs, moves[0].flatten(0, 1))
        inputs = inputs.reshape(count, -1, *inputs.shape[1:])
        named, kept = split_rows(model, parameters, buffers)
        per_device = labels.view(count, -1, *labels.shape[1:])
        losses, found = rule.gradients_of(named, kept, inputs, per_device)
        with torch.no_grad():
            gradient = torch.cat([each.reshape(count, -1) for each in found], dim=1)
            states = ([parameters], [gradient], remembered, number)
            (after,), after_state = updated(optimiser, *states)
            changed = buffers
            if kept:
                changed = torch.cat([b.reshape(count, -1).to(buffers) for b in kept.values()], 1)
            if uneven:
                moving = moves[-1][:, None]
                after = torch.where(moving, after, parameters)
                changed = torch.where(moving, changed, buffers)
                losses = losses * moves[-1]
            parameters.copy_(after)
            for held, new in zip(remembered, after_state, strict=True):
                held.copy_(new)
            buffers.copy_(changed)
        return losses

    return plain
