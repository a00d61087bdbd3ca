"""How far the edge models are apart, how far they may be, and how distances are estimated."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedrt.graph import BoolMatrix
from fedrt.scenario import Scenario
from fedrt.world.observation import Backhaul

FloatArray = NDArray[np.float64]

# Relative room in comparing a sum of distances with a limit computed from the same sums.
MARGIN = 1e-12


def unlinked_distance(topology: BoolMatrix, distance: FloatArray) -> float:
    """The distance no link bridges: (1/C^2) sum of (1 - A[c,c2]) Upsilon[c,c2].

    With mixing weights 1/C it bounds the mean distance to the average after mixing.
    """
    return float(np.where(topology, 0.0, distance).sum()) / len(topology) ** 2


def meets_limit(topology: BoolMatrix, distance: FloatArray, limit: float) -> bool:
    """Whether a topology leaves no more distance unlinked than the limit allows."""
    return unlinked_distance(topology, distance) <= limit * (1 + MARGIN)


def consensus_limit(base_graph: BoolMatrix, distance: FloatArray, kappa: float) -> float:
    """The limit between what the base graph leaves unlinked and what no link at all would.

    Upsilon_max = base + kappa (full - base). kappa = 1 leaves only connectivity, 0 forbids pruning.
    Feasible for every base graph. The paper does not say how it sets the limit.
    """
    base = unlinked_distance(base_graph, distance)
    full = unlinked_distance(np.zeros_like(base_graph), distance)
    return base + kappa * (full - base)


def see_backhaul(scenario: Scenario, bps: FloatArray, distance: FloatArray) -> Backhaul:
    """The links of a global round with the limit that the scenario's kappa sets.

    Where all distances are zero nothing is known about the pairs and nothing may be pruned: every
    link then counts the same and the limit is what the base graph leaves.
    """
    kappa = scenario.control.kappa
    if not distance.any():
        distance, kappa = 1.0 - np.eye(len(distance)), 0.0
    return Backhaul(bps, distance, consensus_limit(bps > 0, distance, kappa))


def shortest_paths(length: FloatArray) -> FloatArray:
    """All-pairs shortest path lengths (Floyd-Warshall); inf means no link, zero is a length."""
    path = length.copy()
    np.fill_diagonal(path, 0.0)
    for k in range(len(path)):
        np.minimum(path, path[:, k, None] + path[None, k, :], out=path)
    return path


@dataclass(frozen=True)
class DistanceEstimate:
    """What the coordinator believes about every pair, given that only linked pairs measure.

    A measured pair takes its value. Any other pair that was measured before becomes half its last
    value, half the shortest path over the measured distances; one never measured, that path. Where
    no measured path exists the last value stands.
    """

    distance: FloatArray
    measured_once: BoolMatrix = field(repr=False)

    @staticmethod
    def unknown(num_edges: int) -> DistanceEstimate:
        """The estimate before anything was measured."""
        nothing = np.zeros((num_edges, num_edges))
        return DistanceEstimate(nothing, np.zeros_like(nothing, dtype=bool))

    def update(self, true_distance: FloatArray, measured: BoolMatrix) -> DistanceEstimate:
        """The estimate after the pairs in `measured` have compared their models."""
        path = shortest_paths(np.where(measured, true_distance, np.inf))
        path = np.where(np.isfinite(path), path, self.distance)
        blended = np.where(self.measured_once, 0.5 * self.distance + 0.5 * path, path)
        distance = np.where(measured, true_distance, blended)
        np.fill_diagonal(distance, 0.0)
        return DistanceEstimate(distance, self.measured_once | measured)
