"""Modules whose whole state is one flat vector, so that averaging and mixing are plain sums.

Parameters come first, then floating-point buffers, then whole-number buffers (counts of batches),
which are averaged like the rest and rounded when put back. Parameters that do not train
(`requires_grad = False`) are no part of it: all devices have them, and they stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn


class FlatModel:
    """A module whose parameters, gradients and buffers are views into flat tensors."""

    def __init__(self, module: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
        self.module = module.to(device=device, dtype=dtype)
        parameters = [held for held in self.module.parameters() if held.requires_grad]
        buffers = list(self.module.buffers())
        floats = [buffer for buffer in buffers if buffer.is_floating_point()]
        self.counts = [buffer for buffer in buffers if not buffer.is_floating_point()]
        self.layout = _layout(self.module)
        held = [*parameters, *floats]
        self.num_parameters = sum(p.numel() for p in parameters)
        self.num_held = self.num_parameters + sum(b.numel() for b in floats)
        self.size = self.num_held + sum(b.numel() for b in self.counts)
        self.held = torch.cat([tensor.detach().reshape(-1) for tensor in held])
        self.gradient = torch.zeros(self.num_parameters, dtype=dtype, device=device)
        start = 0
        for tensor in held:
            stop = start + tensor.numel()
            tensor.data = self.held[start:stop].view_as(tensor)
            if isinstance(tensor, nn.Parameter):
                tensor.grad = self.gradient[start:stop].view_as(tensor)
            start = stop

    @property
    def parameters(self) -> Tensor:
        """The trainable part of the state, as a view."""
        return self.held[: self.num_parameters]

    def state(self) -> Tensor:
        """A copy of the whole state."""
        counts = [count.reshape(-1).to(self.held.dtype) for count in self.counts]
        return torch.cat([self.held, *counts])

    def load(self, state: Tensor) -> None:
        """Set the whole state."""
        self.held.copy_(state[: self.num_held])
        start = self.num_held
        for count in self.counts:
            stop = start + count.numel()
            count.copy_(state[start:stop].round().view_as(count))
            start = stop


@dataclass(frozen=True)
class Place:
    """The position of a parameter or buffer in the flat vector."""

    name: str
    kind: Literal["parameter", "buffer", "count"]
    shape: torch.Size
    start: int
    stop: int


def split_rows(
    model: FlatModel, parameters: Tensor, buffers: Tensor
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and buffers of many devices by name, one device per row.

    Buffers are copies, and counts are whole numbers.
    """
    count, size = len(parameters), model.num_parameters
    named, kept = {}, {}
    for place in model.layout:
        if place.kind == "parameter":
            part = parameters[:, place.start : place.stop]
            named[place.name] = part.reshape(count, *place.shape)
        else:
            part = buffers[:, place.start - size : place.stop - size].clone()
            part = part.reshape(count, *place.shape)
            kept[place.name] = part.long() if place.kind == "count" else part
    return named, kept


def _layout(module: nn.Module) -> list[Place]:
    """The positions of all parameters and buffers, in the order of the vector."""
    buffers = list(module.named_buffers())
    found: list[tuple[str, Literal["parameter", "buffer", "count"], Tensor]] = [
        *((name, "parameter", p) for name, p in module.named_parameters() if p.requires_grad),
        *((name, "buffer", b) for name, b in buffers if b.is_floating_point()),
        *((name, "count", b) for name, b in buffers if not b.is_floating_point()),
    ]
    places, start = [], 0
    for name, kind, tensor in found:
        places.append(Place(name, kind, tensor.shape, start, start + tensor.numel()))
        start += tensor.numel()
    return places
