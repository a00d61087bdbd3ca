"""Outcomes of edge rounds made of given joules and seconds, for tests of the books."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedrt.rounds import Outcome, RoundCost
from fedrt.world.faults import Failures
from fedrt.world.observation import Observation


def outcome_of(
    energy_j: ArrayLike,
    edge_time_s: ArrayLike,
    backhaul_s: ArrayLike | None = None,
    device: Sequence[int] | None = None,
) -> Outcome:
    """An edge round in which every device delivered; half of its joules went into uploading."""
    joules, seconds = np.asarray(energy_j, dtype=float), np.asarray(edge_time_s, dtype=float)
    count = len(joules)
    cost = RoundCost(
        compute_s=np.zeros(count),
        upload_s=np.zeros(count),
        compute_j=joules - joules / 2,
        upload_j=joules / 2,
        edge_time_s=seconds,
        backhaul_s=np.zeros(len(seconds)) if backhaul_s is None else np.asarray(backhaul_s),
        upload_bytes=np.zeros(count),
    )
    return Outcome(
        device=np.arange(count) if device is None else np.asarray(device),
        cost=cost,
        planned=cost,
        delivered=np.ones(count, dtype=bool),
        late=np.zeros(count, dtype=bool),
        delivered_s=seconds,
    )


def failures_of(seen: Observation, speed: ArrayLike) -> Failures:
    """Nothing but devices that run at these parts of their planned frequencies."""
    nobody, nowhere = np.zeros(seen.num_devices, dtype=bool), np.zeros(seen.num_edges, dtype=int)
    return Failures(
        silent=nobody,
        cpu_fraction=np.asarray(speed, dtype=float),
        expected=seen.cluster_size,
        absent=nowhere,
        idle=nowhere,
        server_up=np.ones(seen.num_edges, dtype=bool),
        links_down=0,
    )
