"""D-PSGD on the degree-bounded tree of least slowest link, delta-MBST.

O. Marfoq, C. Xu, G. Neglia and R. Vidal, "Throughput-Optimal Topology Design for Cross-Silo
Federated Learning", NeurIPS 2020: where servers share their access links among their neighbours,
few neighbours each are better. Prim's algorithm that never gives a server more than delta of them;
of several delta the tree with the least slowest link, and of equal ones the least delta.
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
from fedrt.policies.d_psgd_mst import bounded_tree, tree_links
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

DEGREES = (2, 3, 4)


@dataclass(frozen=True)
class DPSGDMbst:
    """An even split, and one gossip step on a tree with few links at every server."""

    name: ClassVar[str] = "d-psgd-mbst"
    energy_horizon: Horizon = "paper"

    def plan(self, seen: Observation, books: Books) -> Plan:
        return even_plan(seen, books, self.energy_horizon, bounded_tree_links, 1)


def bounded_tree_links(
    finish_s: FloatArray, link_s: FloatArray, distance: FloatArray, limit: float
) -> BoolMatrix:
    """The best tree over the bounds; the minimum spanning tree where no bounded one is found."""
    found = [tree for bound in DEGREES if (tree := bounded_tree(link_s, bound)) is not None]
    if not found:
        return tree_links(finish_s, link_s, distance, limit)
    return min(found, key=lambda tree: float(link_s[tree].max(initial=0.0)))
