"""The chain between a trained model and its message: transforms, and then the codec.

What a codec leaves out of an update is remembered (error feedback): that is the difference to the
update after all transforms, so that nothing of what a transform took away comes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedrt.learning.codecs import Codec, ErrorFeedback, first_states
from fedrt.learning.transforms.base import Transform, UpdateKey
from fedrt.registry import TRANSFORMS, make_part
from fedrt.scenario.entries import make_own, refuse
from fedrt.scenario.model import Custom, Learning


@dataclass(frozen=True)
class Chain:
    """The transforms of updates, in their order; without any, updates stay as they are.

    What a device remembers has a row of numbers: first those of the codec, then those of the
    transforms.
    """

    transforms: tuple[Transform, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.transforms)

    @property
    def remembers(self) -> bool:
        """Whether devices remember anything for some transform."""
        return any(hasattr(each, "init") for each in self.transforms)

    def part(self, row: Tensor | None, size: int, *, coded: bool) -> Tensor | None:
        """Of what a device remembers, the transforms' part; `coded`: a codec's comes first."""
        if row is None or not self.remembers:
            return None
        return row[size if coded else 0 :]

    def first_states(
        self, codec: Codec | None, devices: int, size: int, like: Tensor
    ) -> Tensor | None:
        """What each device remembers as a run starts, one per row; None for nothing."""
        states = first_states(codec, devices, size, like)
        if not self.remembers:
            return states
        more = [self._first(each, size) for each in self.transforms if hasattr(each, "init")]
        row = torch.cat(more).to(like)
        rows = row.expand(devices, len(row))
        if states is None:
            return rows.clone()
        if not isinstance(codec, ErrorFeedback):
            rule = "must have no init where an entry of learning.update before it has one"
            raise refuse(codec, rule)
        return torch.cat([states, rows], dim=1)

    def apply(
        self, update: Tensor, remembered: Tensor | None, key: UpdateKey
    ) -> tuple[Tensor, Tensor | None]:
        """The update after all transforms, and what they then remember."""
        after = []
        for transform, state in self._states(remembered, len(update)):
            found: Any = transform.apply(update, state, key)
            good = isinstance(found, tuple) and len(found) == 2
            if not good or not _alike(found[0], update):
                rule = f"apply must return (update, state), an update of {len(update)} numbers"
                raise refuse(transform, rule)
            if (state is None) != (found[1] is None) or not _alike(found[1], state):
                raise refuse(transform, "apply must return as state what init gives the shape of")
            update = found[0].to(update)
            if found[1] is not None:
                after.append(found[1])
        if remembered is None:
            return update, None
        return update, torch.cat(after).to(remembered)

    def received(self, model: Tensor, start: Tensor, size: int, key: UpdateKey) -> Tensor:
        """The model of a device that started from `start`, as its edge server takes it."""
        mirrors = [each for each in reversed(self.transforms) if hasattr(each, "receive")]
        if not mirrors:
            return model
        update = model[:size] - start[:size]
        for transform in mirrors:
            found: Any = transform.receive(update, key)
            if not _alike(found, update):
                raise refuse(transform, f"receive must return an update of {size} numbers")
            update = found.to(update)
        result = model.clone()
        result[:size] = start[:size] + update
        return result

    def _states(
        self, remembered: Tensor | None, size: int
    ) -> Iterator[tuple[Transform, Tensor | None]]:
        first = 0
        for transform in self.transforms:
            if remembered is None or not hasattr(transform, "init"):
                yield transform, None
                continue
            end = first + len(self._first(transform, size))
            yield transform, remembered[first:end].clone()
            first = end

    def _first(self, transform: Any, size: int) -> Tensor:
        state = transform.init(size)
        if not isinstance(state, Tensor) or state.ndim != 1:
            raise refuse(transform, "init must return a vector")
        return state


def _alike(found: object, given: Tensor | None) -> bool:
    if given is None:
        return found is None
    return isinstance(found, Tensor) and found.shape == given.shape


def make_chain(learning: Learning) -> Chain:
    """The transforms that a scenario names before its codec."""
    return Chain(tuple(_transform(choice, learning) for choice in learning.transforms))


def _transform(choice: Any, learning: Learning) -> Transform:
    made: Transform
    if isinstance(choice, Custom):
        made = make_own(choice, "update", ("apply",))
    else:
        made = make_part(TRANSFORMS, choice, learning)
    return made
