"""D-PSGD on the minimum spanning tree of link times.

O. Marfoq, C. Xu, G. Neglia and R. Vidal, "Throughput-Optimal Topology Design for Cross-Silo
Federated Learning", NeurIPS 2020: where links and not servers are the bottleneck, the tree of least
slowest link is the best undirected overlay, and a minimum spanning tree is one.
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
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class DPSGDMst:
    """An even split, and one gossip step on the minimum spanning tree."""

    name: ClassVar[str] = "d-psgd-mst"
    energy_horizon: Horizon = "paper"

    def plan(self, seen: Observation, books: Books) -> Plan:
        return even_plan(seen, books, self.energy_horizon, tree_links, 1)


def tree_links(
    finish_s: FloatArray, link_s: FloatArray, distance: FloatArray, limit: float
) -> BoolMatrix:
    """The minimum spanning tree of the link times."""
    tree = bounded_tree(link_s, len(link_s))
    assert tree is not None  # the base graph is connected
    return tree


def bounded_tree(link_s: FloatArray, bound: int) -> BoolMatrix | None:
    """Prim's tree with at most `bound` links at every server; None where it gets stuck."""
    size = len(link_s)
    tree = np.zeros((size, size), dtype=bool)
    inside = np.zeros(size, dtype=bool)
    inside[0] = True
    for _ in range(size - 1):
        may = inside & (tree.sum(axis=1) < bound)
        open_s = np.where(may[:, None] & ~inside[None, :], link_s, np.inf)
        one, two = np.unravel_index(int(np.argmin(open_s)), open_s.shape)
        if not np.isfinite(open_s[one, two]):
            return None
        tree[one, two] = tree[two, one] = True
        inside[two] = True
    return tree
