"""How devices' updates respond to the moves of their edge server's model.

Training takes a model towards the optimum of a device's loss. After the edge server's model has
moved, the next update therefore goes less far along that move than the last one did, whatever data
the device has: so much does the curvature of its loss along the move make. An update that is the
negative of what was trained goes further. What speaks against a device in an edge round is its
response, that change over the cluster's usual one, with a part of its score (`engines.past`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

MAJORITY = 4
"""The least number of updates that are compared with each other: of three, two may be wrong."""
MOST_RESPONSE, MOST_OF_SCORE, SHARE_OF_SCORE = 2.0, 1.5, 0.6
"""Evidence is the response, at most so much either way, and of how far the score lies above the
median, at most so much either way, this share."""
MOST_EVIDENCE = np.array([np.inf, np.inf, 1.25, 0.75, 0.45, 0.4, 0.35, 0.3, 0.3])
"""What the mean evidence of a device's last two, three and more edge rounds may be."""


def along(
    model: Tensor, sent: Tensor | Sequence[Tensor], move: Tensor, steps: IntArray
) -> FloatArray:
    """How far each update went along a move, over its length, in a local step; NaN if unknown."""
    move = move.double()
    size, square = len(move), float(move @ move)
    if not square > 0:
        return np.full(len(sent), np.nan)
    start = model[:size].double()
    inner = [
        float((row[:size].double() - start) @ move) if row.shape == model.shape else np.nan
        for row in sent
    ]
    found = np.array(inner) / square / steps
    return np.where(np.isfinite(found), found, np.nan)


def evidence(change: FloatArray, score: FloatArray) -> FloatArray:
    """What speaks against each device of a cluster; NaN where its change is unknown.

    Unknown for all where the median change has the wrong sign: then the server's model has also
    been moved by others, or noise is stronger than curvature.
    """
    known = np.isfinite(change)
    if known.sum() < MAJORITY or not np.median(change[known]) < 0:
        return np.full(len(change), np.nan)
    response = change / np.median(np.abs(change[known]))
    above = np.clip(score - np.median(score), -MOST_OF_SCORE, MOST_OF_SCORE)
    found: FloatArray = np.clip(response, -MOST_RESPONSE, MOST_RESPONSE) + SHARE_OF_SCORE * above
    return found


def is_against(evidence: FloatArray) -> BoolArray:
    """Against which devices the mean evidence of their last edge rounds, any number, is too much.

    Each device has a row, the newest last.
    """
    found = np.zeros(len(evidence), dtype=bool)
    for n, row in enumerate(evidence):
        newest = row[np.isfinite(row)][::-1]
        count = np.arange(1, len(newest) + 1)
        found[n] = (np.cumsum(newest) / count > MOST_EVIDENCE[count]).any()
    return found
