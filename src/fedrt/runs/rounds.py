"""The rounds of a run: what was observed and planned, what happened, and the ledger after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.ledger import Ledger
from fedrt.plan import Gossip, Plan
from fedrt.rounds import Outcome, RoundCost
from fedrt.runs.belief import Distances
from fedrt.runs.state import RunState
from fedrt.world.observation import Backhaul, Observation

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class PastEdgeRound:
    """An edge round that has ended, with all that the rest of the run depends on."""

    seen: Observation
    plan: Plan
    outcome: Outcome


@dataclass(frozen=True)
class EdgeRound(PastEdgeRound):
    """An edge round that has ended, with its energy allowances and the ledger after it."""

    allowance_j: FloatArray
    after: Ledger

    @property
    def t(self) -> int:
        """The number of the global round, from 0."""
        return self.seen.t

    @property
    def r(self) -> int:
        """The number of the edge round within its global round, from 0."""
        return self.seen.r

    @property
    def cost(self) -> RoundCost:
        """What the ledger was charged."""
        return self.outcome.cost

    @property
    def gossip(self) -> Gossip:
        """The gossip that follows; only of the last edge round of a global round."""
        assert self.plan.gossip is not None
        return self.plan.gossip

    @property
    def backhaul(self) -> Backhaul:
        """The observed backhaul; only the last edge round of a global round has one."""
        assert self.seen.backhaul is not None
        return self.seen.backhaul


@dataclass(frozen=True)
class GlobalRound:
    """A global round: its edge rounds, and the gossip that ends it."""

    edge_rounds: tuple[EdgeRound, ...]
    time_s: float
    ends_at_s: float
    distances: Distances
    """The consensus distances when the links were chosen."""
    metrics: Mapping[str, float]
    """Metrics of training, such as loss and accuracies; empty without training."""
    state: RunState
    """The state of the run after the round."""

    @property
    def last(self) -> EdgeRound:
        """The last edge round, which ends in gossip."""
        return self.edge_rounds[-1]
