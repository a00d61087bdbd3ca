"""One local step of a chunk of devices: as plain tensors in and out, and in place."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as fn

from fedrt.learning.flat import FlatModel
from fedrt.learning.samples import Samples
from fedrt.learning.stack import StackedModule


class ChunkState:
    """The states of a chunk's devices, tensor by tensor with the devices on the first axis."""

    def __init__(self, model: FlatModel, rows: Tensor) -> None:
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
        self.velocity = [torch.zeros_like(held) for held in self.parameters.values()]

    def tensors(self) -> list[Tensor]:
        """Everything a step changes: parameters, velocities, buffers."""
        return [*self.parameters.values(), *self.velocity, *self.buffers.values()]

    def joined(self) -> Tensor:
        """Every device's whole state as one row, in the flat model's order."""
        held = {**self.parameters, **self.buffers}
        parts = [held[place.name] for place in self.layout]
        return torch.cat([part.reshape(len(part), -1).to(self.dtype) for part in parts], dim=1)


@dataclass(frozen=True)
class StepRule:
    """Mini-batch SGD with momentum for every device of a chunk at once."""

    stacked: StackedModule
    samples: Samples
    learning_rate: float
    momentum: float
    half: bool = False
    """Whether layers compute in bfloat16; parameters, their changes and losses never do."""

    def gradients(
        self,
        parameters: dict[str, Tensor],
        buffers: dict[str, Tensor],
        chosen: Tensor,
        shifts: Tensor | None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Each device's loss, and the gradients of all; buffers change in place."""
        flat_shifts = None if shifts is None else shifts.flatten(0, 1)
        inputs, labels = self.samples.batch(chosen.flatten(), flat_shifts)
        inputs = inputs.reshape(*chosen.shape, *inputs.shape[1:])
        return self.gradients_of(parameters, buffers, inputs, labels.view(chosen.shape))

    def gradients_of(
        self,
        parameters: dict[str, Tensor],
        buffers: dict[str, Tensor],
        inputs: Tensor,
        labels: Tensor,
    ) -> tuple[Tensor, list[Tensor]]:
        """Likewise, on inputs and labels with devices on the first axis and batch on the second."""
        inputs = inputs.to(torch.bfloat16) if self.half else inputs
        with torch.enable_grad():
            leaves = {name: held.detach().requires_grad_() for name, held in parameters.items()}
            scores = self.stacked.run(leaves, buffers, inputs)
            wide = scores.flatten(0, 1).to(self.dtype)
            each = fn.cross_entropy(wide, labels.flatten(), reduction="none")
            losses = each.view(labels.shape).mean(1)
            found = torch.autograd.grad(losses.sum(), list(leaves.values()), materialize_grads=True)
        return losses.detach(), list(found)

    @property
    def dtype(self) -> torch.dtype:
        """What losses are computed in."""
        return torch.float64 if self.samples.dtype == torch.float64 else torch.float32

    @torch.no_grad()
    def take(
        self, state: ChunkState, chosen: Tensor, shifts: Tensor | None, moving: Tensor | None
    ) -> Tensor:
        """Do the step in place; the losses in float64, 0 for devices that stand still."""
        before = None if moving is None else [held.clone() for held in state.buffers.values()]
        losses, found = self.gradients(state.parameters, state.buffers, chosen, shifts)
        held = list(state.parameters.values())
        if moving is None:
            self._update(held, found, state.velocity)
            return losses.double()
        torch._foreach_mul_(state.velocity, self.momentum)
        torch._foreach_add_(state.velocity, found)
        for tensor, velocity in zip(held, state.velocity, strict=True):
            still = ~spread(moving, velocity)
            tensor.sub_((self.learning_rate * velocity).masked_fill_(still, 0.0))
        for buffer, old in zip(state.buffers.values(), before or (), strict=True):
            buffer.copy_(torch.where(spread(moving, buffer), buffer, old))
        return losses.double() * moving

    def _update(self, held: list[Tensor], found: list[Tensor], velocity: list[Tensor]) -> None:
        """Velocities and parameters moved by the gradients, in place."""
        if held[0].device.type != "cpu":
            torch._foreach_mul_(velocity, self.momentum)
            torch._foreach_add_(velocity, found)
            torch._foreach_add_(held, velocity, alpha=-self.learning_rate)
            return
        # One pass through memory instead of three. It goes by position: all must lie alike.
        torch._fused_sgd_(
            held,
            [gradient.contiguous() for gradient in found],
            velocity,
            weight_decay=0.0,
            momentum=self.momentum,
            lr=self.learning_rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )


def spread(mask: Tensor, like: Tensor) -> Tensor:
    """The mask over the first axis, shaped to go with a tensor."""
    return mask.view(-1, *[1] * (like.dim() - 1))
