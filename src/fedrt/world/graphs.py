"""Base graphs: which pairs of edge servers have a link at all."""

from __future__ import annotations

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedrt.graph import BoolMatrix, is_connected, reachable
from fedrt.scenario.processes import (
    BaseGraph,
    CompleteGraph,
    ErdosRenyiGraph,
    LinkListGraph,
    RingGraph,
    StarGraph,
)
from fedrt.seeding import pair_uniforms, stream

MOST_TRIES = 1000


def draw_base_graph(
    graph: BaseGraph, edge_key: NDArray[np.int64], seed: int
) -> tuple[BoolMatrix, str]:
    """A connected base graph over the servers, and a sentence on how it was made."""
    size = len(edge_key)
    by_key = np.zeros((size, size), dtype=bool)
    order = np.arange(size)
    match graph:
        case CompleteGraph():
            by_key[:] = True
            words = "complete"
        case RingGraph():
            by_key[order, (order + 1) % size] = True
            words = "ring"
        case StarGraph():
            by_key[0, :] = True
            words = "star"
        case LinkListGraph():
            for c, c2 in graph.links:
                by_key[c, c2] = True
            words = f"{len(graph.links)} given links"
        case ErdosRenyiGraph():
            return _erdos_renyi(graph.probability, edge_key, seed)
        case _:
            assert_never(graph)
    by_key |= by_key.T
    np.fill_diagonal(by_key, False)
    return by_key[np.ix_(edge_key, edge_key)], words


def _erdos_renyi(
    probability: float, edge_key: NDArray[np.int64], seed: int
) -> tuple[BoolMatrix, str]:
    """A random graph, drawn again until connected; after 1,000 tries its components are joined."""
    name = f"Erdos-Renyi, p = {probability:g}"
    graph = np.zeros((len(edge_key), len(edge_key)), dtype=bool)
    for attempt in range(MOST_TRIES):
        draw = pair_uniforms(edge_key, seed, "base graph", attempt)
        graph = draw < probability
        np.fill_diagonal(graph, False)
        if is_connected(graph):
            return graph, f"{name}, connected at draw {attempt + 1}"
    joined = _join_parts(graph, edge_key, seed)
    return graph, f"{name}, not connected in {MOST_TRIES} draws: {joined} random links join it"


def _join_parts(graph: BoolMatrix, edge_key: NDArray[np.int64], seed: int) -> int:
    """Add random links between components, in place, until the graph is connected; their number."""
    source = stream(seed, "base graph joints")
    rank = source.permutation(int(edge_key.max()) + 1)[edge_key]
    joined = 0
    while not (inside := reachable(graph, int(np.argmin(rank)))).all():
        near, far = np.flatnonzero(inside), np.flatnonzero(~inside)
        # Ranked by key, so that relabelled servers get the same links.
        near, far = near[np.argsort(rank[near])], far[np.argsort(rank[far])]
        c, c2 = source.choice(near), source.choice(far)
        graph[c, c2] = graph[c2, c] = True
        joined += 1
    return joined
