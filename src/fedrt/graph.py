"""Functions on graphs given as boolean adjacency matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BoolMatrix = NDArray[np.bool_]


def reachable(graph: BoolMatrix, start: int) -> NDArray[np.bool_]:
    """Which vertices can be reached from `start`, including itself."""
    seen = np.zeros(len(graph), dtype=bool)
    seen[start] = True
    frontier = seen
    while frontier.any():
        frontier = graph[frontier].any(axis=0) & ~seen
        seen = seen | frontier
    return seen


def is_connected(graph: BoolMatrix) -> bool:
    """Whether a graph is connected: the second Laplacian eigenvalue is positive."""
    return bool(reachable(graph, 0).all())


def parts_of(graph: BoolMatrix) -> list[NDArray[np.intp]]:
    """The vertices of every connected component, in the order of their first vertex."""
    parts, left = [], np.ones(len(graph), dtype=bool)
    while left.any():
        part = reachable(graph, int(np.argmax(left)))
        parts.append(np.flatnonzero(part))
        left &= ~part
    return parts


def same_parts(graph: BoolMatrix, other: BoolMatrix) -> bool:
    """Whether two graphs have the same connected components."""
    one, two = parts_of(graph), parts_of(other)
    return len(one) == len(two) and all(map(np.array_equal, one, two))


def links_of(graph: BoolMatrix) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Both ends of every link, each link once with c < c2, in row order."""
    rows, cols = np.nonzero(np.triu(graph, k=1))
    return rows, cols
