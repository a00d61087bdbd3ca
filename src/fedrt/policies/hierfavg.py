"""HierFAVG: client-edge-cloud averaging, with one edge server in the place of the cloud.

L. Liu, J. Zhang, S. H. Song and K. B. Letaief, "Client-Edge-Cloud Hierarchical Federated Learning",
ICC 2020. Every edge server sends its model to the cloud, which returns the average of all. Without
a cloud the server with the least slowest link to the others does that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrt.control.topology.consensus import shortest_paths
from fedrt.graph import BoolMatrix, parts_of
from fedrt.ledger import Books, Horizon
from fedrt.plan import Gossip, Plan
from fedrt.policies.base import even_plan
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

THERE_AND_BACK = 2
"""Ways that models go: to the server in the middle, and the average from it."""


@dataclass(frozen=True)
class HierFAVG:
    """An even split, and the exact average of all models through one server."""

    name: ClassVar[str] = "hierfavg"
    energy_horizon: Horizon = "paper"

    def plan(self, seen: Observation, books: Books) -> Plan:
        plan = even_plan(seen, books, self.energy_horizon, star_links, THERE_AND_BACK)
        if plan.gossip is None:
            return plan
        links = plan.gossip.links
        steps = THERE_AND_BACK * max(1, -(-diameter(links) // 2))
        gossip = Gossip(links, steps, averages(links), codec="none", relayed=True)
        return replace(plan, gossip=gossip)


def star_links(
    finish_s: FloatArray, link_s: FloatArray, distance: FloatArray, limit: float
) -> BoolMatrix:
    """The links of the server whose star ends earliest; shortest paths where none reaches all.

    Where the base graph has no such server, models are passed on along shortest paths to the one
    whose farthest server is nearest.
    """
    there = np.isfinite(link_s)
    ends_s = np.where(np.eye(len(finish_s), dtype=bool), 0.0, np.maximum.outer(finish_s, finish_s))
    ends_s = (ends_s + np.where(np.eye(len(finish_s), dtype=bool), 0.0, link_s)).max(axis=1)
    middle = int(np.argmin(ends_s))
    links = np.zeros_like(there)
    if np.isfinite(ends_s[middle]):
        links[middle] = there[middle]
        return np.asarray(links | links.T)
    return shortest_path_tree(link_s)


def shortest_path_tree(link_s: FloatArray) -> BoolMatrix:
    """The tree of shortest paths to the server whose farthest one is nearest."""
    length_s = shortest_paths(link_s)
    middle = int(np.argmin(length_s.max(axis=1)))
    links = np.zeros(link_s.shape, dtype=bool)
    others = np.flatnonzero(np.arange(len(link_s)) != middle)
    through_s = length_s[middle][None, :] + np.where(np.isfinite(link_s), link_s, np.inf)
    np.fill_diagonal(through_s, np.inf)
    links[others, np.argmin(through_s[others], axis=1)] = True
    return np.asarray(links | links.T)


def averages(links: BoolMatrix) -> FloatArray:
    """The weights of an exact average over every part that the links connect."""
    weights = np.zeros(links.shape)
    for part in parts_of(links):
        weights[np.ix_(part, part)] = 1.0 / len(part)
    return weights


def diameter(links: BoolMatrix) -> int:
    """The most links on the shortest way between two servers that some way connects."""
    hops = shortest_paths(np.where(links, 1.0, np.inf))
    return int(hops[np.isfinite(hops)].max())
