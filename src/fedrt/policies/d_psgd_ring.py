"""D-PSGD on a ring: every server mixes once with two neighbours.

X. Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?", NeurIPS 2017; the
ring by link times as in O. Marfoq, C. Xu, G. Neglia and R. Vidal, "Throughput-Optimal Topology
Design for Cross-Silo Federated Learning", NeurIPS 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrt.graph import BoolMatrix
from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.base import even_plan
from fedrt.policies.d_psgd_mst import tree_links
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

MOST_TURNS = 50
"""Passes of the improvement of a ring, each over all pairs of its links."""


@dataclass(frozen=True)
class DPSGDRing:
    """An even split, and one gossip step on a ring of short links."""

    name: ClassVar[str] = "d-psgd-ring"
    energy_horizon: Horizon = "paper"

    def plan(self, seen: Observation, books: Books) -> Plan:
        return even_plan(seen, books, self.energy_horizon, ring_links, 1)


def ring_links(
    finish_s: FloatArray, link_s: FloatArray, distance: FloatArray, limit: float
) -> BoolMatrix:
    """A ring of short links; the tree of least links where no ring is found in the base graph."""
    size = len(link_s)
    if size <= 3:
        return np.isfinite(link_s)
    order = _ring(link_s)
    if not np.isfinite(link_s[order, np.roll(order, -1)]).all():
        return tree_links(finish_s, link_s, distance, limit)
    links = np.zeros(link_s.shape, dtype=bool)
    links[order, np.roll(order, -1)] = True
    return np.asarray(links | links.T)


def _ring(link_s: FloatArray) -> NDArray[np.intp]:
    """A short round trip: from each server to the nearest new one, then two links exchanged.

    A link that is not there is longer than all others together.
    """
    finite = np.isfinite(link_s)
    length = np.where(finite, link_s, 2.0 * link_s[finite].sum() + 1.0)
    order, left = [0], np.ones(len(link_s), dtype=bool)
    left[0] = False
    while left.any():
        nearest = int(np.argmin(np.where(left, length[order[-1]], np.inf)))
        order.append(nearest)
        left[nearest] = False
    trip = np.array(order)
    for _ in range(MOST_TURNS):
        if not _improved(trip, length):
            break
    return trip


def _improved(trip: NDArray[np.intp], length: FloatArray) -> bool:
    """Reverse the part of a round trip whose reversal shortens it most; False where none does."""
    after = np.roll(trip, -1)
    old = length[trip, after]
    gain = old[:, None] + old[None, :] - length[np.ix_(trip, trip)] - length[np.ix_(after, after)]
    gain[np.tril_indices(len(trip))] = 0.0
    i, j = np.unravel_index(int(np.argmax(gain)), gain.shape)
    if gain[i, j] <= 1e-12 * old.sum():
        return False
    trip[i + 1 : j + 1] = trip[i + 1 : j + 1][::-1].copy()
    return True
