"""The backhaul times that a global round can choose from, as a cover refined where needed.

A choice of links and gossip steps psi counts here only by each server's backhaul time beta_c, psi
times the slowest link that it keeps. A cover is a set of vectors beta such that every allowed
choice takes at least as long as one of them on every server: the least over a cover is never above
the least over all choices, and equal to it if the vector that is least belongs to an allowed one.

A node of the cover stands for the choices with one psi in which server c keeps nothing slower than
its link number cap_c and something no faster than its link number low_c (links numbered by speed at
each server). All conditions (connected, consensus limit, contraction limit with the best weights
on the links) only get easier with more links, so

  - no choice of the node is allowed if the links within all caps are not;
  - low_c may rise while the links within all caps, but at c only up to low_c, are not allowed;
  - beta_c is at least psi times the slowest link within the caps up to low_c;
  - if the links up to low on all servers are allowed, the node is *exact*: those links reach beta.

Else the node splits in two at one server: cap_c = low_c, or low_c + 1. One node per psi covers all.
Whether links are allowed is asked leniently: they are refused only if disconnected, over the
consensus limit, or certified to mix too slowly (`least_contraction`), so the cover stays one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedrt.bound.duality import LinkTimes
from fedrt.bound.least_contraction import contraction_bounds, degree_contraction
from fedrt.control.topology.consensus import MARGIN

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

MOST_SERVERS = 12
"""Above this many servers each psi has one node, from degrees only: splitting would not end."""


@dataclass(eq=False)
class Node:
    """A set of link choices with the same number of gossip steps (see the module docstring)."""

    psi: int
    cap: IntArray
    low: IntArray
    backhaul_s: FloatArray
    exact: bool = False
    passed: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Servers whose low_c is known to be allowed."""


class RoundLinks:
    """The links of one global round and the cover of its possible choices."""

    def __init__(
        self,
        step_s: FloatArray,
        distance: FloatArray,
        limit: float,
        rho: float | None,
        most_steps: int,
    ) -> None:
        """`step_s` is the time of a gossip step over each link; inf = no link."""
        self.base = np.isfinite(step_s)
        np.fill_diagonal(self.base, False)
        self.size, self.step_s = len(step_s), np.where(self.base, step_s, np.inf)
        self.distance, self.limit, self.rho = distance, limit, rho
        order = np.argsort(self.step_s, axis=1, kind="stable")
        self.rank = np.argsort(order, axis=1, kind="stable")
        self.degree = self.base.sum(axis=1)
        self.nodes: list[Node] = []
        steps = range(1, 1 + (most_steps if rho is not None else min(1, most_steps)))
        for psi in steps:
            self._add(self._root(psi))

    def zeta_limit(self, psi: int) -> float:
        """The greatest contraction of one step with which psi steps reach the limit."""
        return np.inf if self.rho is None else float(self.rho ** (1.0 / psi))

    def _root(self, psi: int) -> Node | None:
        cap = self.degree - 1
        low = np.zeros(self.size, dtype=np.int64)
        if self.size > 1:
            # The least degree that the contraction limit leaves to any server.
            degrees = np.arange(1, self.size)
            enough = degree_contraction(degrees, self.size) <= self.zeta_limit(psi) * (1 + 1e-12)
            low = np.full(self.size, int(degrees[enough].min()) - 1 if enough.any() else 10**9)
        return self._tightened(Node(psi, cap, low, np.zeros(self.size)))

    def within(self, cap: IntArray) -> BoolArray:
        """The links within the caps of both their ends, for one graph or a batch of them."""
        at_end = self.rank <= cap[..., :, None]
        return self.base & at_end & np.swapaxes(at_end, -1, -2)

    def allowed(self, graphs: BoolArray, psi: int) -> BoolArray:
        """For each graph of a batch, whether it passes the cheap tests of what is allowed.

        It is connected, keeps the consensus limit, and has no server with too few links.
        """
        degree = graphs.sum(axis=2).min(axis=1)
        thin = degree_contraction(degree, self.size) > self.zeta_limit(psi) * (1 + 1e-12)
        unlinked = np.where(graphs, 0.0, self.distance).sum(axis=(1, 2)) / self.size**2
        reach = (graphs | np.eye(self.size, dtype=bool)).astype(np.float32)
        for _ in range(int(self.size - 1).bit_length()):
            reach = np.minimum(reach @ reach, 1.0)
        connected = (reach > 0).all(axis=(1, 2))
        good: BoolArray = connected & ~thin & (unlinked <= self.limit * (1 + MARGIN))
        return good

    def _tightened(self, node: Node) -> Node | None:
        """The node with every low_c raised as far as the cheap conditions allow; None if empty."""
        if self.size == 1:
            node.exact = True
            return node
        if (node.low > node.cap).any():
            return None
        if self.size <= MOST_SERVERS:
            most = int(node.cap.max()) + 1
            caps = np.broadcast_to(node.cap, (self.size, most, self.size)).copy()
            each = np.arange(self.size)
            caps[each, :, each] = np.minimum(np.arange(most), node.cap[:, None])
            good = self.allowed(self.within(caps.reshape(-1, self.size)), node.psi)
            good = good.reshape(self.size, most)
            if not good.any(axis=1).all():
                return None
            least = good.argmax(axis=1)
            if node.passed.size:
                node.passed = node.passed & (least <= node.low)
            node.low = np.maximum(node.low, least)
        kept = self.within(node.cap) & (self.rank <= node.low[:, None])
        node.backhaul_s = node.psi * np.where(kept, self.step_s, 0.0).max(axis=1)
        if not node.passed.size:
            node.passed = np.zeros(self.size, dtype=bool)
        return node

    def _add(self, node: Node | None) -> None:
        if node is not None:
            self.nodes.append(node)

    def _drop_dominated(self, exact: Node) -> None:
        """Remove nodes that an exact node beats on every server.

        Only an exact node counts: any other may turn out to be slower, or empty.
        """
        self.nodes = [
            node
            for node in self.nodes
            if node is exact or not (node.backhaul_s >= exact.backhaul_s).all()
        ]

    def tests(self, node: Node) -> BoolArray:
        """The graphs that decide how a node is refined: all servers at low, then one at a time."""
        caps = np.repeat(node.cap[None, :], self.size + 1, axis=0)
        caps[0] = node.low
        each = np.arange(self.size)
        caps[each + 1, each] = node.low
        return self.within(caps)

    def refine(self, node: Node, good: BoolArray, share: FloatArray) -> None:
        """Make a node exact or tighter, or split it, depending on its tests."""
        if good[0]:
            node.exact = True
            self._drop_dominated(node)
            return
        self.nodes.remove(node)
        node.passed = good[1:]
        if not good[1:].all():
            node.low = node.low + ~good[1:]
            self._add(self._tightened(node))
            return
        gain = np.full(self.size, -1.0)
        for c in np.flatnonzero(node.low < node.cap).tolist():
            higher = self._raised(node, c)
            gain[c] = share[c] * (higher - node.backhaul_s[c])
        c = int(gain.argmax())
        if gain[c] < 0:
            return  # all caps are reached and the links within them are refused
        capped, raised = node.cap.copy(), node.low.copy()
        capped[c], raised[c] = node.low[c], node.low[c] + 1
        again = node.passed.copy()
        again[c] = False
        self._add(self._tightened(Node(node.psi, capped, node.low.copy(), node.backhaul_s)))
        self._add(self._tightened(Node(node.psi, node.cap, raised, node.backhaul_s, False, again)))

    def _raised(self, node: Node, c: int) -> float:
        """The backhaul time of server c if it also keeps its next slower link."""
        kept = self.within(node.cap)[c] & (self.rank[c] <= node.low[c] + 1)
        return float(node.psi * np.where(kept, self.step_s[c], 0.0).max())


def link_times(rounds: Sequence[RoundLinks]) -> LinkTimes:
    """The covers of all rounds as arrays."""
    counts = [len(each.nodes) for each in rounds]
    first = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return LinkTimes(first, np.array([node.backhaul_s for each in rounds for node in each.nodes]))


def refine(rounds: Sequence[RoundLinks], share: FloatArray, most_passes: int) -> int:
    """Refine every round's cover until its best node is exact; return the rounds still open.

    All rounds take a step together, so that their graphs are tested as one batch.
    """
    for _ in range(most_passes):
        work = []
        for t, each in enumerate(rounds):
            node = each.nodes[int(np.argmin([node.backhaul_s @ share[t] for node in each.nodes]))]
            if not node.exact and each.size <= MOST_SERVERS:
                work.append((t, each, node))
        if not work:
            break
        graphs = [each.tests(node) for _, each, node in work]
        good = [
            each.allowed(graph, node.psi)
            for (_, each, node), graph in zip(work, graphs, strict=True)
        ]
        _test_contraction(work, graphs, good)
        for (t, each, node), answer in zip(work, good, strict=True):
            each.refine(node, answer, share[t])
    return sum(
        not each.nodes[int(np.argmin([n.backhaul_s @ share[t] for n in each.nodes]))].exact
        for t, each in enumerate(rounds)
    )


def _test_contraction(
    work: Sequence[tuple[int, RoundLinks, Node]],
    graphs: Sequence[BoolArray],
    good: Sequence[BoolArray],
) -> None:
    """Reject graphs on which no weights mix fast enough.

    All servers at low come first, the other graphs only if they are needed.
    """
    for part in (slice(0, 1), slice(1, None)):
        where, asked, target = [], [], []
        for i, (_, each, node) in enumerate(work):
            if each.rho is None or (part.start == 1 and good[i][0]):
                continue
            for j in range(len(good[i]))[part]:
                if good[i][j] and not (j and node.passed[j - 1]):
                    where.append((i, j))
                    asked.append(graphs[i][j])
                    target.append(each.zeta_limit(node.psi))
        if where:
            low, _ = contraction_bounds(np.array(asked), np.array(target))
            for (i, j), bound, most in zip(where, low, target, strict=True):
                good[i][j] = bound <= most * (1 + 1e-9)
