"""What an optimiser is, and how engines let one move the parameters of their devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from fedrt.scenario.entries import OwnEntry, refuse

Tensors = list[Tensor]
"""A tensor for each part of a model, or for each thing remembered about one."""
Step = int | Tensor
"""The number of a local step, from 1: an `int`, in a compiled program a tensor of float64."""


Rate = float | Tensor
"""A learning rate: a number, in a compiled program with a schedule a tensor of float64."""


class Optimiser(Protocol):
    """How a device's parameters follow from its gradients, number by number.

    Engines hand over lists of tensors with the devices on their first axis: one tensor with all
    parameters, or one for each parameter. An optimiser must treat every number by itself, or all
    numbers of a device together, so that all of these give the same.

    Two more methods may be there. `update_in_place` takes the same arguments, changes parameters
    and state, and returns nothing; `update_fused` does so in one pass through a processor's memory,
    for tensors with devices on their first axis. Without them `update` does the work.
    """

    def init(self, parameters: Tensors) -> Tensors:
        """What the optimiser remembers, as each device starts an edge round; may be empty."""
        ...

    def update(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, step: Step
    ) -> tuple[Tensors, Tensors]:
        """The parameters after a step, and what is remembered for the next one.

        Nothing that is handed over may be changed.
        """
        ...


@torch.no_grad()
def take_step(
    optimiser: Optimiser,
    parameters: Tensors,
    gradients: Tensors,
    state: Tensors,
    step: int,
    *,
    fused: bool = False,
    moving: Tensor | None = None,
) -> None:
    """Move the parameters by one local step, in place.

    With `moving`, a mask over the first axis, all other devices stand still: they have done all
    their steps, so it does not matter what is remembered of them. `fused` prefers `update_fused`.
    """
    quick = getattr(optimiser, "update_fused", None) if fused else None
    quick = quick or getattr(optimiser, "update_in_place", None)
    if quick is not None and moving is None:
        quick(parameters, gradients, state, step)
        return
    after, remembered = updated(optimiser, parameters, gradients, state, step)
    for held, new in zip(parameters, after, strict=True):
        held.copy_(new if moving is None else torch.where(spread(moving, held), new, held))
    for held, new in zip(state, remembered, strict=True):
        held.copy_(new)


def updated(
    optimiser: Optimiser, parameters: Tensors, gradients: Tensors, state: Tensors, step: Step
) -> tuple[Tensors, Tensors]:
    """What `update` returns; of a user's own optimiser it is looked at."""
    found: Any = optimiser.update(parameters, gradients, state, step)
    if isinstance(optimiser, OwnEntry):
        good = isinstance(found, tuple) and len(found) == 2
        if not (good and _alike(found[0], parameters) and _alike(found[1], state)):
            rule = "update must return (parameters, state), lists of tensors shaped as they came"
            raise refuse(optimiser, rule)
    return found


def _alike(found: object, given: Sequence[Tensor]) -> bool:
    if not isinstance(found, list | tuple) or len(found) != len(given):
        return False
    pairs = zip(found, given, strict=True)
    return all(isinstance(a, Tensor) and a.shape == b.shape for a, b in pairs)


def spread(mask: Tensor, like: Tensor) -> Tensor:
    """A mask over the first axis, reshaped to broadcast with a tensor."""
    return mask.view(-1, *[1] * (like.dim() - 1))
