"""One local step of a chunk of devices."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedrt.learning.engines.method import Method
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.optimisers import Optimiser, spread, take_step
from fedrt.learning.stacked.stack import StackedModule
from fedrt.learning.tasks import device_losses


class ChunkState:
    """The states of a chunk's devices by tensor, with devices on the first axis."""

    def __init__(
        self,
        model: FlatModel,
        optimiser: Optimiser,
        rows: Tensor,
        corrections: Tensor | None = None,
    ) -> None:
        self.layout, self.dtype = model.layout, rows.dtype
        self.parameters: dict[str, Tensor] = {}
        self.buffers: dict[str, Tensor] = {}
        for place in model.layout:
            held = rows[:, place.start : place.stop].reshape(len(rows), *place.shape)
            if place.kind == "parameter":
                self.parameters[place.name] = held.clone()
            elif place.kind == "buffer":
                self.buffers[place.name] = held.clone()
            else:
                self.buffers[place.name] = held.round().long()
        self.remembered = optimiser.init(list(self.parameters.values()))
        if corrections is not None:
            places = [place for place in model.layout if place.kind == "parameter"]
            for held, place in zip(self.remembered[-len(places) :], places, strict=True):
                held.copy_(corrections[:, place.start : place.stop].view_as(held))

    def joined(self) -> Tensor:
        """The whole state of every device as one row, in the order of the flat model."""
        held = {**self.parameters, **self.buffers}
        parts = [held[place.name] for place in self.layout]
        return torch.cat([part.reshape(len(part), -1).to(self.dtype) for part in parts], dim=1)


@dataclass(frozen=True)
class StepRule:
    """A local step on a mini-batch for all devices of a chunk at once."""

    stacked: StackedModule
    samples: TensorSamples
    method: Method
    half: bool = False
    """Whether layers compute in bfloat16; parameters, their changes and losses never do."""

    def gradients(
        self,
        parameters: dict[str, Tensor],
        buffers: dict[str, Tensor],
        chosen: Tensor,
        shifts: Tensor | None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Each device's loss and gradients on drawn samples; buffers are updated in place."""
        flat_shifts = None if shifts is None else shifts.flatten(0, 1)
        inputs, labels = self.samples.batch(chosen.flatten(), flat_shifts)
        inputs = inputs.reshape(*chosen.shape, *inputs.shape[1:])
        return self.gradients_of(
            parameters, buffers, inputs, labels.view(*chosen.shape, *labels.shape[1:])
        )

    def gradients_of(
        self,
        parameters: dict[str, Tensor],
        buffers: dict[str, Tensor],
        inputs: Tensor,
        labels: Tensor,
    ) -> tuple[Tensor, list[Tensor]]:
        """Each device's loss and gradients on inputs and labels (devices, batch, ...)."""
        if self.half and inputs.is_floating_point():
            inputs = inputs.to(torch.bfloat16)
        with torch.enable_grad():
            leaves = {name: held.detach().requires_grad_() for name, held in parameters.items()}
            scores = self.stacked.run(leaves, buffers, inputs)
            losses = device_losses(self.method.task, scores.to(self.dtype), labels)
            found = torch.autograd.grad(losses.sum(), list(leaves.values()), materialize_grads=True)
        return losses.detach(), list(found)

    @property
    def dtype(self) -> torch.dtype:
        """The type in which losses are computed."""
        return torch.float64 if self.samples.dtype == torch.float64 else torch.float32

    @torch.no_grad()
    def take(
        self,
        state: ChunkState,
        optimiser: Optimiser,
        step: int,
        chosen: Tensor,
        shifts: Tensor | None,
        moving: Tensor | None,
    ) -> Tensor:
        """Make the step in place; return losses in float64, 0 for devices that have finished."""
        before = None if moving is None else [held.clone() for held in state.buffers.values()]
        losses, found = self.gradients(state.parameters, state.buffers, chosen, shifts)
        held, fused = list(state.parameters.values()), chosen.device.type == "cpu"
        given = (held, found, state.remembered, step)
        take_step(optimiser, *given, fused=fused, moving=moving)
        if moving is None:
            return losses.double()
        for buffer, old in zip(state.buffers.values(), before or (), strict=True):
            buffer.copy_(torch.where(spread(moving, buffer), buffer, old))
        return losses.double() * moving
