"""Consensus distances between edge models: the limit on them, and how they are estimated."""

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
    """The mean consensus distance of pairs without a link: (1/C^2) sum of (1 - A) Upsilon.

    With mixing weights 1/C it bounds the mean distance to the average after mixing.
    """
    return float(np.where(topology, 0.0, distance).sum()) / len(topology) ** 2


def meets_limit(topology: BoolMatrix, distance: FloatArray, limit: float) -> bool:
    """Whether a topology keeps the consensus limit."""
    return unlinked_distance(topology, distance) <= limit * (1 + MARGIN)


def consensus_limit(base_graph: BoolMatrix, distance: FloatArray, kappa: float) -> float:
    """The consensus limit Upsilon_max = base + kappa (full - base), for the scenario's kappa.

    `base` is the unlinked distance of the base graph, `full` that of a graph without links. kappa =
    1 leaves only connectivity, 0 forbids pruning. The limit is feasible for every base graph. The
    paper does not say how it sets it.
    """
    base = unlinked_distance(base_graph, distance)
    full = unlinked_distance(np.zeros_like(base_graph), distance)
    return base + kappa * (full - base)


def see_backhaul(
    scenario: Scenario, bps: FloatArray, distance: FloatArray, latency_s: float | None = None
) -> Backhaul:
    """The backhaul that a policy observes: link speeds, distances and the consensus limit.

    Where all distances are zero nothing is known about the pairs and nothing may be pruned: every
    link then counts the same and the limit is what the base graph leaves. A gossip step takes
    `latency_s` beyond its bits, by default the scenario's round trip.
    """
    kappa = scenario.control.kappa
    if not distance.any():
        distance, kappa = 1.0 - np.eye(len(distance)), 0.0
    if latency_s is None:
        latency_s = 0.0 if scenario.overheads is None else scenario.overheads.round_trip_s
    limit = consensus_limit(bps > 0, distance, kappa)
    return Backhaul(bps, distance, limit, latency_s=latency_s)


def shortest_paths(length: FloatArray) -> FloatArray:
    """All-pairs shortest path lengths (Floyd-Warshall); inf means no link, zero is a length."""
    path = length.copy()
    np.fill_diagonal(path, 0.0)
    for k in range(len(path)):
        np.minimum(path, path[:, k, None] + path[None, k, :], out=path)
    return path


@dataclass(frozen=True)
class DistanceEstimate:
    """The coordinator's estimate of all consensus distances; only linked pairs measure theirs.

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
