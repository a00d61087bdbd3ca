"""The choice of backhaul links (P2.2), given when each cluster finishes its edge rounds.

Bandwidth and frequency do not depend on the links, so each cluster's finish time F_c is known
first. The round then ends at max over c of (F_c + the time of its slowest kept link). Kept links
must connect all servers and meet the consensus limit (`consensus`).
"""

from __future__ import annotations

from math import isqrt

import numpy as np
from numpy.typing import NDArray

from fedrt.control.topology.consensus import MARGIN, unlinked_distance
from fedrt.graph import BoolMatrix, links_of, reachable

FloatArray = NDArray[np.float64]


def finish_time_s(topology: BoolMatrix, finish_s: FloatArray, link_s: FloatArray) -> float:
    """The seconds until the global round ends: max over c of F_c + the slowest link of c."""
    return float(np.max(finish_s + np.where(topology, link_s, 0.0).max(axis=1)))


def prune_greedily(
    finish_s: FloatArray, link_s: FloatArray, distance: FloatArray, limit: float
) -> BoolMatrix:
    """The links that the paper's Algorithm 3 keeps: drop the e slowest while the round gets faster.

    e starts at floor(sqrt(sum of adjacency entries)) and is recomputed after each success, halved
    after each failure; the search ends when e = 1 fails. Of the e slowest links those whose loss
    would break the limit or disconnect the servers stay. Each try works on a copy of the incumbent.
    Not optimal: it ranks links by speed alone, whatever the clusters' finish times.
    """
    best = np.isfinite(link_s)
    rows, cols = links_of(best)
    by_speed = np.argsort(-link_s[rows, cols], kind="stable")
    rows, cols = rows[by_speed], cols[by_speed]
    best_s = finish_time_s(best, finish_s, link_s)
    drop = isqrt(int(best.sum()))
    while drop >= 1:
        slowest = np.flatnonzero(best[rows, cols])[:drop]
        trial = _without(best, rows[slowest].tolist(), cols[slowest].tolist(), distance, limit)
        trial_s = finish_time_s(trial, finish_s, link_s)
        if trial_s < best_s:
            best, best_s = trial, trial_s
            drop = isqrt(int(best.sum()))
        else:
            drop //= 2
    return best


def _without(
    graph: BoolMatrix, rows: list[int], cols: list[int], distance: FloatArray, limit: float
) -> BoolMatrix:
    """A copy of the graph without those of the given links that can be removed."""
    graph = graph.copy()
    missing = unlinked_distance(graph, distance)
    share = 2.0 / len(graph) ** 2
    for c, c2 in zip(rows, cols, strict=True):
        without = missing + share * float(distance[c, c2])
        if without > limit * (1 + MARGIN):
            continue
        graph[c, c2] = graph[c2, c] = False
        # A shared neighbour is the common case and far cheaper to see than a whole walk.
        if (graph[c] & graph[c2]).any() or reachable(graph, c)[c2]:
            missing = without
        else:
            graph[c, c2] = graph[c2, c] = True
    return graph


def best_links(
    finish_s: FloatArray, link_s: FloatArray, distance: FloatArray, limit: float
) -> BoolMatrix:
    """The links with the least round time, found exactly.

    A link serves a round that ends at tau only if max(F_c, F_c2) + its time <= tau, and connection
    and limit only get easier as links are added. So with links in the order of that cost, the
    shortest prefix that is connected and meets the limit is optimal, and every other link of no
    greater cost stays in for free. If even the base graph breaks the limit, all of it is kept.
    """
    from fedrt.control.topology.connect_kernel import links_to_connect

    base = np.isfinite(link_s)
    rows, cols = links_of(base)
    if not rows.size:
        return base
    cost = np.maximum(finish_s[:, None], finish_s[None, :]) + link_s
    link_cost = cost[rows, cols]
    order = np.argsort(link_cost, kind="stable")
    connected = links_to_connect(rows[order], cols[order], len(base))
    # Distance left unlinked by each prefix, summed from the tail: no cancellation.
    tail = np.cumsum(distance[rows, cols][order][::-1])[::-1] * (2.0 / len(base) ** 2)
    unlinked = unlinked_distance(base, distance) + np.append(tail, 0.0)
    within = np.flatnonzero(unlinked <= limit * (1 + MARGIN))
    if not within.size:
        return base
    prefix = max(connected, int(within[0]))
    kept: BoolMatrix = cost <= link_cost[order[prefix - 1]]
    return kept
