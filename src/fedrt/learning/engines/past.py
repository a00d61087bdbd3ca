"""What an edge server remembers of the updates that it has screened.

The usual norms of its last edge rounds, how far their scores lay apart, and the last scores of each
of its devices. A score says
how far an update was from the others of its cluster in one edge round: the logarithm of its norm
over their median norm, less the cosine of its angle with their coordinate-wise median.

Of responses (`engines.responses`) it remembers the evidence against each device, how far each last
update went along the edge server's move, and that move: one vector for an edge server.
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
EVIDENCE, ALONG = "screened_evidence", "screened_along"
HEARD, MOVES = "screened_heard", "screened_moves"
DIGITS = 9
"""Decimal places that are remembered: sums of another order give the same."""


class ScreeningPast:
    """The accepted norms of edge servers, scores of and evidence against devices, newest last."""

    def __init__(self, num_edges: int, num_devices: int, num_parameters: int) -> None:
        self.norms: FloatArray = np.full((num_edges, WINDOW), np.nan)
        """For each edge server, logarithms of the median accepted norms; NaN before the first."""
        self.excess: FloatArray = np.zeros((num_edges, WINDOW))
        """For each edge server, the greatest accepted scores, less their cluster's median."""
        self.scores: FloatArray = np.full((num_devices, WINDOW), np.nan)
        self.evidence: FloatArray = np.full((num_devices, WINDOW), np.nan)
        self.along: FloatArray = np.full(num_devices, np.nan)
        """For each device, its last update along the move that its edge server then made."""
        self.heard: IntArray = np.full(num_devices, -1)
        """For each device, the edge server whose last edge round it took part in, or -1."""
        self.moves: NDArray[np.float32] = np.zeros((num_edges, num_parameters), dtype=np.float32)
        """For each edge server, the change of its model in its last edge round."""

    def ordered(self, order: TrainingOrder) -> TrainingOrder:
        """The order with what its edge servers remember."""
        assert order.state_row is not None
        usual = np.exp(np.fmax.reduce(self.norms, axis=1))
        edge, along = order.edge_of_device, self.along[order.state_row]
        return replace(
            order,
            past_norm=usual[edge],
            past_excess=self.excess.max(axis=1)[edge],
            past_scores=self.scores[order.state_row, 1:],
            past_evidence=self.evidence[order.state_row, 1:],
            past_along=np.where(self.heard[order.state_row] == edge, along, np.nan),
            past_move={place: self.moves[place] for place in np.unique(edge).tolist()},
        )

    def after(
        self, order: TrainingOrder, results: DeviceResults, moves: NDArray[np.float32]
    ) -> None:
        """Remember the edge round of an order, in which edge servers' models have so changed."""
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
        self._moved(order, results, moves)

    def _moved(
        self, order: TrainingOrder, results: DeviceResults, moves: NDArray[np.float32]
    ) -> None:
        """Remember evidence and moves."""
        assert order.state_row is not None
        assert results.evidence is not None
        assert results.along is not None
        known = np.isfinite(results.evidence)
        row, newest = order.state_row[known], np.round(results.evidence[known], DIGITS)
        self.evidence[row] = np.column_stack([self.evidence[row, 1:], newest])
        edges = np.unique(order.edge_of_device)
        self.heard[np.isin(self.heard, edges)] = -1
        self.heard[order.state_row] = order.edge_of_device
        self.along[order.state_row] = np.round(results.along, DIGITS)
        self.moves = self.moves.copy()
        self.moves[edges] = moves[edges]

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything on which later screening depends."""
        return {name: array.copy() for name, array in self._arrays().items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state; one that has nothing of it was saved before there was any."""
        for name, array in self._arrays().items():
            if name in state:
                array[:] = np.reshape(state[name], array.shape)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            NORMS: self.norms,
            EXCESS: self.excess,
            SCORES: self.scores,
            EVIDENCE: self.evidence,
            ALONG: self.along,
            HEARD: self.heard,
            MOVES: self.moves,
        }
