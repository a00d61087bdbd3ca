"""Splitting an order into shares of whole clusters, one for a worker at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.learning.engines.engine import TrainingOrder, part_of

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Share:
    """A share of an order: some whole clusters."""

    owner: int
    """The number of the worker that trains it while all goes well."""
    edges: IntArray
    """Their numbers in the fleet, rising."""
    place: IntArray
    """Where their devices stand in the whole order."""
    order: TrainingOrder
    """The devices' own order; `edge_of_device` counts within the share."""


def share_out(order: TrainingOrder, workers: int, pieces: int, most_edges: int) -> list[Share]:
    """The shares of an order: whole clusters, about equal in local steps for each worker.

    A worker's edges are in `pieces` shares, so that little is lost with it and others can help
    out, and in more where one would have over `most_edges` edges: memory stays bounded.
    """
    by_edge = np.argsort(order.edge_of_device, kind="stable")
    edges, first = np.unique(order.edge_of_device[by_edge], return_index=True)
    if not len(edges):
        return []
    ends = np.append(first[1:], len(by_edge))
    steps = np.add.reduceat(order.local_steps[by_edge], first)
    middle = np.cumsum(steps) - steps / 2
    owner = np.minimum((middle * workers / max(steps.sum(), 1)).astype(np.int64), workers - 1)
    shares = []
    for number in range(workers):
        mine = np.flatnonzero(owner == number)
        count = max(min(pieces, len(mine)), -(-len(mine) // most_edges))
        for some in np.array_split(mine, count) if len(mine) else []:
            place = by_edge[first[some[0]] : ends[some[-1]]]
            shares.append(Share(number, edges[some], place, _part(order, edges[some], place)))
    return shares


def _part(order: TrainingOrder, edges: IntArray, place: IntArray) -> TrainingOrder:
    mine = part_of(order, place)
    own = np.searchsorted(edges, mine.edge_of_device)
    moves = mine.past_move
    if moves is not None:
        moves = {place: moves[edge] for place, edge in enumerate(edges.tolist())}
    return replace(mine, edge_of_device=own, past_move=moves)
