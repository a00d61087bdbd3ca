"""The step of a chunk as one compiled program and, on a GPU, one recorded graph of kernels.

The whole step is written out as plain operations (forward, backward, update) and compiled, so that
everything between the convolutions is fused. On a GPU the compiled step is recorded once and played
back, which costs one launch. One program per number of devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.config
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from fedrt.learning.step import ChunkState, StepRule, spread

WARM_UP = 3


class CompiledSteps:
    """Steps of chunks of any size; each size is compiled when first met."""

    def __init__(self, rule: StepRule) -> None:
        self.rule = rule
        self.programs: dict[tuple[int, bool], _Program] = {}

    def __call__(
        self, state: ChunkState, chosen: Tensor, shifts: Tensor | None, moving: Tensor | None
    ) -> Tensor:
        key = (len(chosen), moving is not None)
        if key not in self.programs:
            self.programs[key] = _Program(self.rule, state, chosen, shifts, moving)
        return self.programs[key](state, chosen, shifts, moving)


class _Program:
    """One step for chunks of one size."""

    def __init__(
        self,
        rule: StepRule,
        state: ChunkState,
        chosen: Tensor,
        shifts: Tensor | None,
        moving: Tensor | None,
    ) -> None:
        self.inputs = [t for t in (chosen, shifts, moving) if t is not None]
        held = [tensor.clone() for tensor in state.tensors()]
        plain = _plain_step(rule, state, shifts is not None, moving is not None)
        written = make_fx(plain)(held, self.inputs)
        self.step: Callable[..., Any] = torch.compile(written, dynamic=False, fullgraph=True)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.owner: ChunkState | None = None
        if chosen.is_cuda:
            # The library tries its kernels once and keeps the fastest; its first guess for grouped
            # convolutions is one kernel per group. Layers stay channels-last throughout.
            with (
                torch.backends.cudnn.flags(enabled=True, benchmark=True),
                torch._inductor.config.patch(force_layout_optimization=True),
            ):
                self._record(held)

    def _record(self, held: list[Tensor]) -> None:
        """Record the compiled step on tensors of its own."""
        self.held = held
        self.inputs = [tensor.clone() for tensor in self.inputs]
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(WARM_UP):
                self._advance()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph), torch.no_grad():
            self.losses = self._advance()

    def _advance(self) -> Tensor:
        after, losses = self.step(self.held, self.inputs)
        for tensor, new in zip(self.held, after, strict=True):
            tensor.copy_(new)
        return losses

    @torch.no_grad()
    def __call__(
        self, state: ChunkState, chosen: Tensor, shifts: Tensor | None, moving: Tensor | None
    ) -> Tensor:
        given = [t for t in (chosen, shifts, moving) if t is not None]
        if self.graph is None:
            after, losses = self.step(state.tensors(), given)
            for tensor, new in zip(state.tensors(), after, strict=True):
                tensor.copy_(new)
            return losses.double()
        if self.owner is not state:
            self._take_over(state)
        for tensor, new in zip(self.inputs, given, strict=True):
            tensor.copy_(new)
        self.graph.replay()
        return self.losses.double()

    def _take_over(self, state: ChunkState) -> None:
        """Let a chunk's state live in the recorded tensors from here on."""
        for mine, theirs in zip(self.held, state.tensors(), strict=True):
            mine.copy_(theirs)
        parameters, buffers = len(state.parameters), len(state.buffers)
        state.parameters = dict(zip(state.parameters, self.held[:parameters], strict=True))
        state.velocity = self.held[parameters : 2 * parameters]
        rest = self.held[len(self.held) - buffers :]
        state.buffers = dict(zip(state.buffers, rest, strict=True))
        self.owner = state


def _plain_step(
    rule: StepRule, state: ChunkState, augmented: bool, uneven: bool
) -> Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], Tensor]]:
    """The step as a function of tensors alone: (state, inputs) -> (new state, losses)."""
    names, kept = list(state.parameters), list(state.buffers)

    def plain(held: list[Tensor], inputs: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        parameters = dict(zip(names, held, strict=False))
        velocity = held[len(names) : 2 * len(names)]
        before = held[2 * len(names) :]
        buffers = {name: tensor.clone() for name, tensor in zip(kept, before, strict=True)}
        shifts = inputs[1] if augmented else None
        losses, found = rule.gradients(parameters, buffers, inputs[0], shifts)
        with torch.no_grad():
            pace = [rule.momentum * v + g for v, g in zip(velocity, found, strict=True)]
            after = [p - rule.learning_rate * v for p, v in zip(held, pace, strict=False)]
            changed = list(buffers.values())
            if uneven:
                moving = inputs[-1]
                after = [
                    torch.where(spread(moving, new), new, old)
                    for new, old in zip(after, held, strict=False)
                ]
                changed = [
                    torch.where(spread(moving, new), new, old)
                    for new, old in zip(changed, before, strict=True)
                ]
                losses = losses * moving
        return [*after, *pace, *changed], losses

    return plain
