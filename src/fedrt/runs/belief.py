"""What the coordinator believes about how far the edge servers' models are apart.

Only servers that exchange models can compare them. The coordinator estimates the other pairs from
what has been measured, and chooses links by that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.control.topology.consensus import DistanceEstimate
from fedrt.graph import BoolMatrix
from fedrt.rounds import ModelDistances, Outcome

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Distances:
    """The consensus distances at the moment when links are chosen: believed and true."""

    believed: FloatArray
    """What the coordinator plans with; pairs without a link are estimates."""
    true: FloatArray


@dataclass(frozen=True)
class Belief:
    """The coordinator's estimate of consensus distances, and the data for its next update."""

    estimate: DistanceEstimate
    linked: BoolMatrix
    """Pairs of servers that gossiped last; before the first gossip the base graph."""
    newest: ModelDistances
    """The distances in the last outcome that had any."""

    @staticmethod
    def first(base_graph: BoolMatrix, start: ModelDistances) -> Belief:
        """The belief before the first round."""
        return Belief(DistanceEstimate.unknown(len(base_graph)), base_graph, start)

    def update(self, links_up: BoolMatrix) -> Belief:
        """The belief when links are chosen, updated by the pairs of servers that can measure.

        Servers that cannot reach each other now cannot compare their models.
        """
        true, pairs = self.newest.true, self.newest.compared
        if pairs is not None and pairs.all():
            return replace(self, estimate=DistanceEstimate(true, pairs), linked=pairs)
        if pairs is None:
            pairs = self.linked & links_up
            if not true.any():
                # All models are still the same one: there is nothing to learn from that.
                return replace(self, linked=pairs)
        return replace(self, estimate=self.estimate.update(true, pairs), linked=pairs)

    @property
    def distances(self) -> Distances:
        """The believed and the true consensus distances."""
        return Distances(self.estimate.distance, self.newest.true)

    @property
    def mean_error(self) -> float:
        """The mean of estimate minus truth over pairs that could not measure; NaN for none."""
        unmeasured = ~self.linked & ~np.eye(len(self.linked), dtype=bool)
        gap = self.estimate.distance - self.newest.true
        return float(gap[unmeasured].mean()) if unmeasured.any() else np.nan

    def after(self, outcome: Outcome) -> Belief:
        """The belief after an edge round, with the distances that its outcome reports."""
        return self if outcome.distances is None else replace(self, newest=outcome.distances)

    def after_gossip(self, links: BoolMatrix) -> Belief:
        """The belief after the servers have gossiped over these links."""
        return replace(self, linked=links)
