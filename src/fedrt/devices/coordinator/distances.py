"""How far the edge servers' models are apart, as the servers measure it among themselves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.devices.coordinator.edges import SilentEdgeError
from fedrt.devices.coordinator.fleet import RealFleet
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.rounds import ModelDistances

log = logging.getLogger(__name__)

BoolMatrix = NDArray[np.bool_]
FloatMatrix = NDArray[np.float64]

MEASURE_S = 120.0


def measured_distances(fleet: RealFleet, key: pb.Key, linked: BoolMatrix) -> ModelDistances:
    """The distances between servers with a link; their models go over it for that."""
    found = fleet.portal.call(_measure(fleet, key, linked & fleet.reachable()))
    return distances_of(len(fleet.labels), found)


async def _measure(fleet: RealFleet, key: pb.Key, pairs: BoolMatrix) -> list[Any]:
    async def one(c: int) -> Any:
        others = [int(j) for j in np.flatnonzero(pairs[c] & fleet.answered) if j > c]
        if not others or not fleet.answered[c]:
            return c, [], []
        order = pb.DistanceOrder(
            key=key,
            base=fleet.labels[c],
            neighbours=[pb.Neighbour(number=j, address=fleet.address(j)) for j in others],
            labels=[fleet.labels[j] for j in others],
        )
        try:
            found = await fleet.calls.ask(c, "Measure", order, MEASURE_S)
        except SilentEdgeError as error:
            log.warning("%s: its distances are not known", error)
            return c, [], []
        return c, list(found.numbers), list(found.distances)

    return list(await asyncio.gather(*(one(c) for c in range(len(pairs)))))


def compared(apart: FloatMatrix, pairs: BoolMatrix) -> ModelDistances:
    """The distances of some pairs of all models; NaN for all other pairs."""
    compared = pairs & ~np.eye(len(pairs), dtype=bool)
    true = np.where(compared, apart, np.nan)
    np.fill_diagonal(true, 0.0)
    return ModelDistances(true, compared)


def distances_of(edges: int, found: Iterable[tuple[int, list[int], list[float]]]) -> ModelDistances:
    """The distances that servers have measured to some others; NaN for all other pairs."""
    true, compared = np.full((edges, edges), np.nan), np.zeros((edges, edges), dtype=bool)
    np.fill_diagonal(true, 0.0)
    for c, numbers, distances in found:
        for j, apart in zip(numbers, distances, strict=False):
            if j >= edges or j == c or not 0 <= apart < np.inf:
                log.warning("edge-%d: reports a distance that cannot be", c)
                continue
            true[c, j] = true[j, c] = apart
            compared[c, j] = compared[j, c] = True
    return ModelDistances(true, compared)
