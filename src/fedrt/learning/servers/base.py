"""The interface of a server optimiser, and the state of all edge servers under one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.registry import SERVER_OPTIMISERS, make_part
from fedrt.scenario.entries import OwnEntry, make_own, refuse
from fedrt.scenario.model import Custom, Learning

Tensors = list[Tensor]
IntArray = NDArray[np.int64]


class ServerOptimiser(Protocol):
    """How edge servers move their models by the averaged updates of their devices.

    Tensors have edge servers on their first axis and parameters on their second. Every server must
    be treated by itself.
    """

    def init(self, models: Tensor) -> Tensors:
        """What every server remembers as a run starts; may be empty."""
        ...

    def update(self, models: Tensor, change: Tensor, state: Tensors) -> tuple[Tensor, Tensors]:
        """The new models and what is remembered; `change` is the average less the old model.

        Nothing that is handed over may be changed.
        """
        ...


class Servers:
    """What all edge servers of a run remember.

    Each server keeps its own through gossip: only models are mixed. What it remembers are running
    means of the changes that its own devices have made, each measured from the model that they
    started from, whichever model that was; to mix these too would double or treble what servers
    send each other.
    """

    def __init__(self, optimiser: ServerOptimiser, models: Tensor, num_parameters: int) -> None:
        self.optimiser, self.size = optimiser, num_parameters
        found: Any = optimiser.init(models[:, :num_parameters])
        tensors = isinstance(found, list | tuple) and all(isinstance(t, Tensor) for t in found)
        if not tensors or any(len(held) != len(models) for held in found):
            raise refuse(optimiser, "init must return a list of tensors, servers on the first axis")
        self.held: Tensors = list(found)

    @torch.no_grad()
    def step(self, before: Tensor, averages: Tensor, edges: IntArray) -> Tensor:
        """The models after the optimiser has moved those of the edge servers with an update.

        Buffers are those of the average. Servers without an accepted update keep what they have.
        """
        place = torch.as_tensor(edges, device=before.device)
        old = before[place, : self.size]
        state = [held[place] for held in self.held]
        change = averages[place, : self.size] - old
        moved, after = self._checked(old, state, self.optimiser.update(old, change, state))
        result = averages.clone()
        result[place, : self.size] = moved
        # New tensors: the old ones may be shared with a saved state.
        self.held = [
            held.index_copy(0, place, new) for held, new in zip(self.held, after, strict=True)
        ]
        return result

    def _checked(self, old: Tensor, state: Tensors, found: Any) -> tuple[Tensor, Tensors]:
        if isinstance(self.optimiser, OwnEntry):
            rule = "update must return (models, state), tensors shaped as they came"
            good = isinstance(found, tuple) and len(found) == 2
            if not good or not isinstance(found[1], list | tuple) or len(found[1]) != len(state):
                raise refuse(self.optimiser, rule)
            for new, held in zip([found[0], *found[1]], [old, *state], strict=True):
                if not isinstance(new, Tensor) or new.shape != held.shape:
                    raise refuse(self.optimiser, rule)
            if not bool(found[0].isfinite().all()):
                raise refuse(self.optimiser, "update must return finite numbers")
        moved, after = found
        return moved.to(old.dtype), [new.to(held) for new, held in zip(after, state, strict=True)]

    def state(self) -> dict[str, NDArray[Any]]:
        """What all servers remember, for a checkpoint."""
        return {f"server_{i}": held.cpu().numpy() for i, held in enumerate(self.held)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore what was saved."""
        saved = [torch.from_numpy(np.array(state[f"server_{i}"])) for i in range(len(self.held))]
        self.held = [new.to(held) for new, held in zip(saved, self.held, strict=True)]


def make_server_optimiser(learning: Learning) -> ServerOptimiser | None:
    """The server optimiser that a scenario names; None: the average is the new model."""
    choice = learning.server_optimiser
    if choice is None:
        return None
    made: ServerOptimiser
    if isinstance(choice, Custom):
        made = make_own(choice, "server_optimiser", ("init", "update"))
    else:
        made = make_part(SERVER_OPTIMISERS, choice, learning)
    return made
