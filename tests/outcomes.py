"""Outcomes of edge rounds made of given joules and seconds, for tests of the books."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedrt.rounds import Outcome, RoundCost


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
