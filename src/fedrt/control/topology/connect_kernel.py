"""How many links, taken in order, connect all servers. Compiled: importing it loads numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.system.jit import compiled


@compiled()
def links_to_connect(
    rows: NDArray[np.intp], cols: NDArray[np.intp], vertices: int
) -> int:  # pragma: no cover - compiled
    """The length of the shortest prefix of a list of links that connects all servers (Kruskal)."""
    parent = np.arange(vertices)
    parts = vertices
    for link in range(len(rows)):
        a, b = rows[link], cols[link]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a != b:
            parent[a] = b
            parts -= 1
            if parts == 1:
                return link + 1
    raise ValueError("the base graph is not connected")
