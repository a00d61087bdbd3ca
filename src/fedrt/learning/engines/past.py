"""What an edge server remembers of the updates that it has screened.

The usual norms of its last edge rounds, how far their scores lay apart, and the last scores of each
of its devices. A score says
how far an update was from the others of its cluster in one edge round: the logarithm of its norm
over their median norm, less the cosine of its angle with their coordinate-wise median.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.learning.engines.engine import DeviceResults, TrainingOrder
from fedrt.rounds import ACCEPTED

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

WINDOW = 8
"""Edge rounds that count: of an edge server for its norms, of a device for its scores."""
NORMS, EXCESS, SCORES = "screened_norms", "screened_excess", "screened_scores"
DIGITS = 9
"""Decimal places that are remembered: sums of another order give the same."""


class ScreeningPast:
    """The accepted norms of edge servers and the scores of devices, the newest last."""

    def __init__(self, num_edges: int, num_devices: int) -> None:
        self.norms: FloatArray = np.full((num_edges, WINDOW), np.nan)
        """For each edge server, logarithms of the median accepted norms; NaN before the first."""
        self.excess: FloatArray = np.zeros((num_edges, WINDOW))
        """For each edge server, the greatest accepted scores, less their cluster's median."""
        self.scores: FloatArray = np.full((num_devices, WINDOW), np.nan)

    def ordered(self, order: TrainingOrder) -> TrainingOrder:
        """The order with what its edge servers remember."""
        assert order.state_row is not None
        usual = np.exp(np.fmax.reduce(self.norms, axis=1))
        edge = order.edge_of_device
        return replace(
            order,
            past_norm=usual[edge],
            past_excess=self.excess.max(axis=1)[edge],
            past_scores=self.scores[order.state_row, 1:],
        )

    def after(self, order: TrainingOrder, results: DeviceResults) -> None:
        """Remember the edge round of an order."""
        if results.norm is None or results.score is None or order.state_row is None:
            return
        good = (results.refused == ACCEPTED) & (results.norm > 0)
        for edge in np.unique(order.edge_of_device[good]).tolist():
            norm = np.median(results.norm[good & (order.edge_of_device == edge)])
            self.norms[edge] = [*self.norms[edge, 1:], np.round(np.log(norm), DIGITS)]
        scored = np.isfinite(results.score)
        for edge in np.unique(order.edge_of_device[good & scored]).tolist():
            mine = scored & (order.edge_of_device == edge)
            excess = results.score[mine & good].max() - np.median(results.score[mine])
            self.excess[edge] = [*self.excess[edge, 1:], np.round(max(excess, 0.0), DIGITS)]
        row = order.state_row[scored]
        newest = np.round(results.score[scored], DIGITS)
        self.scores[row] = np.column_stack([self.scores[row, 1:], newest])

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything on which later screening depends."""
        return {NORMS: self.norms.copy(), EXCESS: self.excess.copy(), SCORES: self.scores.copy()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state; one that has nothing of it was saved before there was any."""
        for name, array in ((NORMS, self.norms), (EXCESS, self.excess), (SCORES, self.scores)):
            if name in state:
                array[:] = np.reshape(state[name], array.shape)
