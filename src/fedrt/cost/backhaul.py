"""The time that edge servers need for gossip."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def link_time_s(model_bits: float, gossip_steps: int, bps: FloatArray) -> FloatArray:
    """The seconds that each link needs for all gossip steps: psi Lambda / B; inf where B is 0."""
    with np.errstate(divide="ignore"):
        return gossip_steps * model_bits / bps


def backhaul_time_s(
    model_bits: float, gossip_steps: int, bps: FloatArray, topology: NDArray[np.bool_]
) -> FloatArray:
    """The seconds of each server's gossip: psi Lambda / (its slowest link); 0 without links."""
    return np.where(topology, link_time_s(model_bits, gossip_steps, bps), 0.0).max(axis=1)
