"""The links, gossip steps and mixing weights of least round time within a contraction limit.

Given each cluster's finish time F_c and the seconds h that a link needs for one gossip step,

    minimise    tau = max over c of F_c + psi (slowest kept link of c)
    over        links inside the base graph, psi from 1 to the most steps allowed, weights on them
    subject to  connected, the consensus limit, and zeta^psi <= rho.

For one psi the argument of `best_links` carries over: a link serves a deadline tau only
if max(F_c, F_c2) + psi h <= tau, and every condition only gets easier as links are added, the last
one because the fastest weights never mix worse on more links. So the shortest good prefix of the
links in the order of that cost is optimal, found by bisection, and so is the best psi, by trying
each: one that cannot beat the best so far is seen by a single test.

Above `fastest.MOST_EXACT` servers simple weights take the place of the fastest ones. Their
zeta may rise with a link, so bisection may stop above the least time; it then also ends as soon as
the times it brackets are within `CLOSE` of each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.control.mixing.fastest import (
    MOST_EXACT,
    fastest_weights,
    laplacian_ends,
    search_weights,
    simple_weights,
)
from fedrt.control.topology.components import kappa_of
from fedrt.control.topology.consensus import MARGIN, consensus_limit, unlinked_distance
from fedrt.graph import BoolMatrix, is_connected, links_of, parts_of
from fedrt.plan import Gossip

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

CLOSE = 1e-3
# Room for rounding between the zeta that is searched for and the one that is recorded.
INSIDE = 1e-9


@dataclass(frozen=True)
class RatedGossip:
    """A choice of links, gossip steps and weights, with the contraction it achieves."""

    gossip: Gossip
    zeta: float
    """What one step leaves of the distance to the average; NaN under the scenario's rule."""

    def slowest_s(self, hop_s: FloatArray) -> FloatArray:
        """For each server, the seconds of its gossip: all steps over the slowest link it keeps."""
        return np.asarray(np.where(self.gossip.links, self.gossip.steps * hop_s, 0.0).max(axis=1))

    @property
    def contraction(self) -> float:
        """The factor by which all steps together reduce the distance to the average: zeta^psi."""
        return float(self.zeta**self.gossip.steps)


def choose_gossip(
    finish_s: FloatArray,
    hop_s: FloatArray,
    distance: FloatArray,
    limit: float,
    rho: float,
    most_steps: int,
    *,
    exact: bool | None = None,
) -> RatedGossip:
    """The links, gossip steps and weights of least round time.

    `hop_s` is inf where the base graph has no link. Where even all links break the consensus
    limit all are kept, and where they do not mix to rho in `most_steps` steps, all steps are taken.
    `exact` chooses between the fastest weights and simple ones whatever the number of servers.
    """
    base = np.isfinite(hop_s)
    if len(base) == 1:
        return RatedGossip(Gossip(base, 1, np.ones((1, 1))), 0.0)
    exact = len(base) <= MOST_EXACT if exact is None else exact
    search = _Search(finish_s, hop_s, distance, limit, exact)
    best_s, topology, steps = np.inf, base, most_steps
    for psi in range(1, most_steps + 1):
        found = search.least(psi, rho ** (1.0 / psi) * (1.0 - INSIDE), best_s)
        if found is not None:
            best_s, topology = found
            steps = psi
        if psi * search.fastest_hop_s + search.earliest_s >= best_s:
            break
    return _with_weights(topology, steps, rho, exact)


def choose_gossip_apart(
    finish_s: FloatArray,
    hop_s: FloatArray,
    distance: FloatArray,
    limit: float,
    rho: float,
    most_steps: int,
) -> RatedGossip | None:
    """As `choose_gossip`, where servers without any link stand apart and keep their models.

    None where several connected components have links: one number of steps would serve them all.
    """
    base = np.isfinite(hop_s)
    linked = [part for part in parts_of(base) if len(part) > 1]
    if is_connected(base):
        return choose_gossip(finish_s, hop_s, distance, limit, rho, most_steps)
    if len(linked) != 1:
        return None
    part, within = linked[0], np.ix_(linked[0], linked[0])
    own = consensus_limit(base[within], distance[within], kappa_of(base, distance, limit))
    found = choose_gossip(finish_s[part], hop_s[within], distance[within], own, rho, most_steps)
    links, weights = np.zeros_like(base), np.eye(len(base))
    links[within], weights[within] = found.gossip.links, found.gossip.weights
    return RatedGossip(Gossip(links, found.gossip.steps, weights), found.zeta)


def gossip_on(topology: BoolMatrix, steps: int, *, fastest: bool) -> RatedGossip:
    """Gossip over the given links, with the fastest weights or those of the scenario's rule."""
    if not fastest:
        return RatedGossip(Gossip(topology, steps), np.nan)
    fast = fastest_weights(topology)
    return RatedGossip(Gossip(topology, steps, fast.mixing), fast.zeta)


def _with_weights(topology: BoolMatrix, steps: int, rho: float, exact: bool) -> RatedGossip:
    """Gossip with the fastest weights, searched further where they just miss rho."""
    fast = fastest_weights(topology) if exact else simple_weights(topology)
    enough = rho ** (1.0 / steps) * (1.0 - INSIDE)
    if exact and fast.zeta > enough:
        closer = fastest_weights(topology, enough)
        fast = closer if closer.zeta < fast.zeta else fast
    return RatedGossip(Gossip(topology, steps, fast.mixing), fast.zeta)


class _Search:
    """A search over links for a given number of steps; holds what all numbers of steps share."""

    def __init__(
        self,
        finish_s: FloatArray,
        hop_s: FloatArray,
        distance: FloatArray,
        limit: float,
        exact: bool,
    ) -> None:
        self.base = np.isfinite(hop_s)
        self.size = len(self.base)
        self.rows, self.cols = links_of(self.base)
        self.finish_s, self.all_hops_s = finish_s, hop_s
        self.hop_s = hop_s[self.rows, self.cols]
        self.ready_s = np.maximum(finish_s[self.rows], finish_s[self.cols])
        self.distance = distance[self.rows, self.cols] * (2.0 / self.size**2)
        self.unlinked = unlinked_distance(self.base, distance)
        self.limit = limit
        self.fastest_hop_s = float(self.hop_s.min())
        self.earliest_s = float(finish_s.max())
        self.mixes: Callable[[IndexArray, float], bool] = self._exactly if exact else self._simply
        self.close = 0.0 if exact else CLOSE

    def least(self, psi: int, enough: float, below_s: float) -> tuple[float, BoolMatrix] | None:
        """The least round time below `below_s` with psi steps, and its links; None for none."""
        from fedrt.control.topology.connect_kernel import links_to_connect

        cost_s = self.ready_s + psi * self.hop_s
        order = np.argsort(cost_s, kind="stable")
        cost_s = cost_s[order]
        low = links_to_connect(self.rows[order], self.cols[order], self.size)
        # Distance left unlinked by each prefix, summed from the tail: no cancellation.
        tail = np.append(np.cumsum(self.distance[order][::-1])[::-1], 0.0)
        within = np.flatnonzero(self.unlinked + tail <= self.limit * (1 + MARGIN))
        low = max(low, int(within[0]) if within.size else len(order))
        high = int(np.searchsorted(cost_s, below_s, side="left"))
        if low > high or not self.mixes(order[:high], enough):
            return None
        while low < high and cost_s[high - 1] - cost_s[low - 1] > self.close * cost_s[high - 1]:
            middle = (low + high) // 2
            if self.mixes(order[:middle], enough):
                high = middle
            else:
                low = middle + 1
        end_s = float(cost_s[high - 1])
        ready_s = np.maximum(self.finish_s[:, None], self.finish_s[None, :])
        kept: BoolMatrix = ready_s + psi * self.all_hops_s <= end_s
        return end_s, kept & self.base

    def _exactly(self, links: IndexArray, enough: float) -> bool:
        _, zeta, _ = search_weights(self.rows[links], self.cols[links], self.size, enough)
        return zeta <= enough

    def _simply(self, links: IndexArray, enough: float) -> bool:
        """Whether one weight for all links reaches the contraction `enough`.

        Its zeta is at least (high - low) / (high + low) of the degrees, which is quick to see:
        the Laplacian's ends lie beyond C / (C - 1) of the extreme degrees.
        """
        rows, cols = self.rows[links], self.cols[links]
        degree = np.bincount(rows, minlength=self.size) + np.bincount(cols, minlength=self.size)
        low, high = float(degree.min()), float(degree.max())
        if high - low > enough * (high + low):
            return False
        low, high = laplacian_ends(rows, cols, self.size)
        return high - low <= enough * (high + low)
