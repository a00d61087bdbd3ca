"""P2.2 by trying every subset of the links: the answer no search can beat. Up to six servers."""

from __future__ import annotations

import numpy as np

# Room for the rounding of the sums of distances, as the statement of the limit has it.
MARGIN = 1e-12


def least_round_time_s(
    finish_s: np.ndarray, link_s: np.ndarray, distance: np.ndarray, limit: float
) -> float | None:
    """The least max over c of F_c + slowest kept link; None if no subset meets both conditions."""
    size = len(finish_s)
    rows, cols = np.nonzero(np.triu(np.isfinite(link_s), k=1))
    links = len(rows)
    if links > 15:
        raise ValueError("meant for at most six servers")
    kept = (np.arange(2**links)[:, None] >> np.arange(links)[None, :] & 1).astype(bool)

    # Distance left unlinked: all pairs, in both directions, less the kept links.
    unlinked = np.full(len(kept), distance[~np.isfinite(link_s)].sum())
    for j in range(links):
        unlinked = unlinked + np.where(kept[:, j], 0.0, 2.0 * distance[rows[j], cols[j]])
    allowed = unlinked / size**2 <= limit * (1 + MARGIN)

    # Servers reached from server 0, spread over the kept links until nothing can change.
    reached = np.zeros((len(kept), size), dtype=bool)
    reached[:, 0] = True
    for _ in range(size - 1):
        for j in range(links):
            either = kept[:, j] & (reached[:, rows[j]] | reached[:, cols[j]])
            reached[:, rows[j]] |= either
            reached[:, cols[j]] |= either
    allowed &= reached.all(axis=1)
    if not allowed.any():
        return None

    slowest = np.zeros((len(kept), size))
    for j in range(links):
        time = np.where(kept[:, j], link_s[rows[j], cols[j]], 0.0)
        for end in (rows[j], cols[j]):
            slowest[:, end] = np.maximum(slowest[:, end], time)
    return float((finish_s + slowest).max(axis=1)[allowed].min())
