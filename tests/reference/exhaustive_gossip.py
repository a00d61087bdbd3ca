"""Links, gossip steps and weights by trying every subset of the links. Up to six servers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MARGIN = 1e-12


def least_round_time_s(
    finish_s: np.ndarray,
    hop_s: np.ndarray,
    distance: np.ndarray,
    limit: float,
    rho: float,
    most_steps: int,
    zeta_of: Callable[[np.ndarray], float],
) -> float:
    """The least max over c of F_c + psi (slowest kept link); inf if no choice keeps the limits."""
    size = len(finish_s)
    rows, cols = np.nonzero(np.triu(np.isfinite(hop_s), k=1))
    if len(rows) > 15:
        raise ValueError("meant for at most six servers")
    zetas: dict[int, float] = {}
    tries = []
    for subset in range(2 ** len(rows)):
        kept = np.zeros((size, size), dtype=bool)
        chosen = (subset >> np.arange(len(rows)) & 1).astype(bool)
        kept[rows[chosen], cols[chosen]] = kept[cols[chosen], rows[chosen]] = True
        if np.linalg.matrix_power(kept + np.eye(size), size).all():
            left = np.where(kept, 0.0, distance).sum() / size**2
            if left <= limit * (1 + MARGIN):
                slowest = np.where(kept, hop_s, 0.0).max(axis=1)
                for psi in range(1, most_steps + 1):
                    tries.append((float(np.max(finish_s + psi * slowest)), subset, psi, kept))
    # From the quickest on: the first that mixes well enough is the answer.
    for time_s, subset, psi, kept in sorted(tries, key=lambda each: each[0]):
        if subset not in zetas:
            zetas[subset] = zeta_of(kept)
        if zetas[subset] ** psi <= rho:
            return time_s
    return float("inf")
