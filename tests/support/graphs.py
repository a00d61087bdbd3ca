"""Graphs of edge servers for tests."""

from __future__ import annotations

import numpy as np

from fedrt.graph import is_connected


def random_graph(rng: np.random.Generator, size: int) -> np.ndarray:
    """A connected graph, between sparse and complete."""
    while True:
        upper = np.triu(rng.uniform(size=(size, size)) < rng.uniform(0.3, 1), k=1)
        if is_connected(upper | upper.T):
            return upper | upper.T
