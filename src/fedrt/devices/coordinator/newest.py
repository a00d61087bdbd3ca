"""The edge servers' newest models at the coordinator, and how a server gets its model back."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrt.devices.coordinator.fleet import RealFleet
from fedrt.devices.edge.states import START, global_round_of, is_state, label_of
from fedrt.errors import InputError
from fedrt.messages import Raw

if TYPE_CHECKING:
    from fedrt.learning.remote import Evaluator

log = logging.getLogger(__name__)

RESTORE_S = 600.0


class NewestModels:
    """For every edge server the last model that came here, and the state that it belongs to."""

    def __init__(self, fleet: RealFleet, evaluator: Evaluator) -> None:
        self.fleet, self.evaluator = fleet, evaluator
        edges = len(fleet.labels)
        self.labels = [START] * edges
        self.models: dict[int, NDArray[Any]] = {}
        """By server; none for one whose first model is its newest."""
        self.anew = np.zeros((edges, edges), dtype=bool)
        """Pairs whose coded gossip begins anew, as one of them has lost what the other sent it."""

    def take(self, c: int, label: str, model: Raw) -> None:
        """Note the model of a server in a state; a `MessageError` if it cannot be one."""
        self.models[c] = self.evaluator.arrays([model])[0]
        self.labels[c] = label

    def newest(self, c: int) -> Raw:
        """The newest model of a server that there is."""
        return self.evaluator.packed(self.models.get(c))

    async def give_back(self, c: int, t: int, session: str) -> None:
        """Send a server that has lost its state its newest model, from which it goes on.

        What it remembered of devices and neighbours is lost, and begins anew on both sides.
        """
        label = label_of(t, f"restored-{secrets.token_hex(2)}", session)
        await self.fleet.calls.restore(c, self.fleet.run, label, self.newest(c), RESTORE_S)
        self.fleet.labels[c] = label
        self.anew[c] = self.anew[:, c] = True
        self.anew[c, c] = False
        number = global_round_of(self.labels[c]) + (self.labels[c] != START)
        since = f"of global round {number}" if number else "before the first round"
        self.fleet.tell(f"edge-{c} has lost its state: it goes on from its model {since}")

    def gossiped(self, neighbours: Mapping[int, Any]) -> None:
        """Note who has gossiped with a codec, by server."""
        for c, near in neighbours.items():
            self.anew[c, list(near)] = False

    def state(self) -> dict[str, NDArray[Any]]:
        """What the checkpoint has of it."""
        if not self.models:
            return {"anew": self.anew}
        whole = [self.models.get(c, self.evaluator.first_model) for c in range(len(self.labels))]
        return {
            "models": np.stack(whole),
            "model_labels": np.array(self.labels, dtype="S80"),
            "anew": self.anew,
        }

    def restore(self, state: Mapping[str, NDArray[Any]], labels: list[str]) -> None:
        """Go on from a checkpoint; those of older versions have models of all states in it."""
        edges = len(self.labels)
        if "anew" in state:
            self.anew = np.array(state["anew"], dtype=bool).reshape(edges, edges)
        if "models" in state:
            self.labels = texts(state["model_labels"]) if "model_labels" in state else list(labels)
            self.models = {c: np.array(state["models"][c]) for c in range(edges)}


def texts(labels: NDArray[Any]) -> list[str]:
    """The names of states in a checkpoint."""
    found = [bytes(each).decode("ascii", "replace") for each in labels.tolist()]
    if not all(map(is_state, found)):
        raise InputError("the checkpoint does not name states of edge servers")
    return found
