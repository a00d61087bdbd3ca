"""The interface of a transform of updates. Importing this loads no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class UpdateKey(NamedTuple):
    """What an update is of: random numbers that are drawn for it follow from these alone."""

    seed: int
    """The run's."""
    t: int
    """The global round."""
    r: int
    """The edge round."""
    device: int
    """The device's number in the fleet."""


class Transform(Protocol):
    """Changes the update of a device before it is coded.

    The update is what training has changed in the device's parameters, a vector. Two more methods
    may be there. `init(size)` gives the vector that a device remembers from one update to the next,
    as a run starts; without it a state is None. `receive(update, key)` is what the edge server does
    with the update that it decodes, such as taking away what `apply` has added.
    """

    def apply(
        self, update: Tensor, state: Tensor | None, key: UpdateKey
    ) -> tuple[Tensor, Tensor | None]:
        """The update that goes on to what comes next, and the device's state for its next one.

        Nothing that is handed over may be changed.
        """
        ...
