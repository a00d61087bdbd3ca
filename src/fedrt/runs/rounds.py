"""A round of a run as it is kept: what was seen, planned and what happened, and the books after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.ledger import Ledger
from fedrt.plan import Gossip, Plan
from fedrt.rounds import Outcome, RoundCost
from fedrt.runs.belief import Belief, Distances
from fedrt.world.observation import Backhaul, Observation

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class PastEdgeRound:
    """An edge round that is over: all that the rest of the run depends on."""

    seen: Observation
    plan: Plan
    outcome: Outcome


@dataclass(frozen=True)
class EdgeRound(PastEdgeRound):
    """The same with the energy it was allowed and the books after it."""

    allowance_j: FloatArray
    after: Ledger

    @property
    def t(self) -> int:
        """The global round."""
        return self.seen.t

    @property
    def r(self) -> int:
        """The edge round in it."""
        return self.seen.r

    @property
    def cost(self) -> RoundCost:
        """What was charged."""
        return self.outcome.cost

    @property
    def gossip(self) -> Gossip:
        """The gossip that follows; only of the last edge round of a global round."""
        assert self.plan.gossip is not None
        return self.plan.gossip

    @property
    def backhaul(self) -> Backhaul:
        """The backhaul as it was seen; only of the last edge round of a global round."""
        assert self.seen.backhaul is not None
        return self.seen.backhaul


@dataclass(frozen=True)
class GlobalRound:
    """The edge rounds up to one gossip of the servers."""

    edge_rounds: tuple[EdgeRound, ...]
    time_s: float
    ends_at_s: float
    distances: Distances
    """When the links were chosen."""
    metrics: Mapping[str, float]
    """What training gave: loss, accuracies and the like; empty without training."""
    belief: Belief
    """What the coordinator believes about distances after the round."""

    @property
    def last(self) -> EdgeRound:
        """The edge round that ends in gossip."""
        return self.edge_rounds[-1]
