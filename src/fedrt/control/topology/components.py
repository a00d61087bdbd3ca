"""Link selection in a backhaul that has several connected components: each component by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedrt.control.topology.consensus import consensus_limit, unlinked_distance
from fedrt.graph import BoolMatrix, is_connected, parts_of

FloatArray = NDArray[np.float64]

# (finish time of each cluster, time of each link, distances, limit) -> the links to use
LinkRule = Callable[[FloatArray, FloatArray, FloatArray, float], BoolMatrix]


def links_by_part(
    rule: LinkRule, finish_s: FloatArray, link_s: FloatArray, distance: FloatArray, limit: float
) -> BoolMatrix:
    """The links that a rule selects in every connected component of the base graph.

    Each part has its own consensus limit, as far between what its links leave unlinked and what no
    link would as the whole one is: base_p + kappa (full_p - base_p). Pairs in different parts count
    in neither, so parts that keep theirs keep the whole one. A part of one server has no links.
    """
    base = np.isfinite(link_s)
    if is_connected(base):
        return rule(finish_s, link_s, distance, limit)
    kappa = kappa_of(base, distance, limit)
    topology = np.zeros_like(base)
    for part in parts_of(base):
        if len(part) == 1:
            continue
        within = np.ix_(part, part)
        own = consensus_limit(base[within], distance[within], kappa)
        topology[within] = rule(finish_s[part], link_s[within], distance[within], own)
    return topology


def kappa_of(base: BoolMatrix, distance: FloatArray, limit: float) -> float:
    """The kappa of a consensus limit: 0 at that of the base graph, 1 at that of no link."""
    least = unlinked_distance(base, distance)
    span = unlinked_distance(np.zeros_like(base), distance) - least
    return float(np.clip((limit - least) / span, 0.0, 1.0)) if span > 0 else 0.0
