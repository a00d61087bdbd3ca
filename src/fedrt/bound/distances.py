"""Consensus distances that are known in advance: a finished run's, or drawn ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError, reason
from fedrt.graph import links_of
from fedrt.system.inputs import MOST_DATA, open_regular, refuse_many_cells
from fedrt.world.simulated import SimulatedWorld

FloatArray = NDArray[np.float64]


def stand_in_distances(world: SimulatedWorld) -> list[FloatArray]:
    """The drawn distances of a run without training, for every global round."""
    return [world.stand_in_distance(t) for t in range(world.scenario.rounds.global_rounds)]


def recorded_distances(path: Path, world: SimulatedWorld) -> list[FloatArray]:
    """The distances that a finished run planned with, from its `links` table.

    The table has the links of the base graph. Other pairs are 0 here: no choice of links changes
    what they leave unlinked, so they raise both sides of the consensus limit alike.
    """
    from pyarrow import ArrowException, parquet

    file = path / "links.parquet"
    if not os.path.isfile(file):
        raise InputError(f"{path}: has no links.parquet: its distances were not recorded")
    try:
        columns = ("global_round", "edge", "edge2", "distance")
        with open_regular(file, MOST_DATA) as source, parquet.ParquetFile(source) as packed:
            refuse_many_cells(file, packed.metadata.num_rows, len(columns))
            table = packed.read(columns=list(columns))
        t, c, c2, distance = (table.column(name).to_numpy() for name in columns)
    except (OSError, ValueError, KeyError, ArrowException) as error:
        raise InputError(f"{file}: cannot be read: {reason(error)}") from None
    rounds, size = world.scenario.rounds.global_rounds, world.fleet.num_edges
    rows, cols = links_of(world.base_graph)
    whole = np.zeros((rounds, size, size))
    expected = (
        np.repeat(np.arange(rounds), len(rows)),
        np.tile(rows, rounds),
        np.tile(cols, rounds),
    )
    if len(t) != len(expected[0]) or not all(
        np.array_equal(found, wanted) for found, wanted in zip((t, c, c2), expected, strict=True)
    ):
        raise InputError(
            f"{file}: must have the {len(rows)} links of the base graph in each of {rounds} rounds;"
            " has the run ended?"
        )
    whole[t, c, c2] = whole[t, c2, c] = distance
    # Where nothing was known yet the loop counts every link as 1 and prunes nothing.
    unknown = (whole[:, rows, cols] == 1.0).all(axis=1)
    whole[unknown] = 0.0
    return list(whole)
