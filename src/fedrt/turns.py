"""What the loop hands around: a turn, a global round, and the training that goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.round import RoundCost
from fedrt.ledger import Ledger
from fedrt.plan import Plan
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Distances:
    """How far the edge models are apart when the links are chosen."""

    believed: FloatArray
    """What the coordinator plans with; pairs without a link are estimates."""
    true: FloatArray


class Learner(Protocol):
    """The training that goes with a run, or what stands in for it."""

    def distances(self, t: int) -> Distances:
        """Asked once in each global round, before its last edge round."""
        ...

    def train(self, turn: EdgeRound) -> None:
        """Carry out the training of an edge round."""
        ...

    def mix(self, turn: EdgeRound) -> Mapping[str, float]:
        """Carry out the mixing that ends a global round; what is to be recorded of it."""
        ...


@dataclass(frozen=True)
class EdgeRound:
    """One turn of the loop: what was seen, decided, and paid."""

    t: int
    r: int
    who: NDArray[np.int64]
    """The devices that take part, by their numbers in the fleet; `seen` is about them."""
    seen: Observation
    plan: Plan
    cost: RoundCost
    allowance_j: FloatArray
    after: Ledger


@dataclass(frozen=True)
class GlobalRound:
    """The edge rounds up to one mixing of the servers."""

    edge_rounds: tuple[EdgeRound, ...]
    time_s: float
    ends_at_s: float
    distances: Distances
    metrics: Mapping[str, float]
    """What training gave: loss, accuracies and the like; empty without training."""

    @property
    def last(self) -> EdgeRound:
        """The edge round that ends in mixing."""
        return self.edge_rounds[-1]


def key_after_training(before: bytes, turn: EdgeRound) -> bytes:
    """The key of the models that an edge round's training makes of those with the key `before`.

    Training knows nothing of seconds or joules: equal keys mean equal models.
    """
    return digest(before, turn.t, turn.r, turn.who, turn.plan.local_steps)


def key_after_mixing(before: bytes, turn: EdgeRound) -> bytes:
    """The same for the mixing that ends a global round, under one rule for the weights."""
    plan = turn.plan
    own = () if plan.mixing is None else (plan.mixing,)
    return digest(before, plan.gossip_steps, plan.topology, *own)


def digest(before: bytes, *parts: Any) -> bytes:
    """A digest of what led to a state."""
    found = blake2b(before, digest_size=16)
    for part in parts:
        found.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
        found.update(b"\x1f")
    return found.digest()
