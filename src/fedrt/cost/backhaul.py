"""The time that edge servers need for gossip, and the bytes they send."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def link_time_s(
    bits: float, gossip_steps: int, bps: FloatArray, latency_s: float = 0.0
) -> FloatArray:
    """The seconds that each link needs for all gossip steps: psi (Lambda / B + latency).

    Lambda is the length of a message. Both directions send at once. inf where B is 0.
    """
    with np.errstate(divide="ignore"):
        return gossip_steps * bits / bps + gossip_steps * latency_s


def backhaul_time_s(
    bits: float,
    gossip_steps: int,
    bps: FloatArray,
    topology: NDArray[np.bool_],
    latency_s: float = 0.0,
) -> FloatArray:
    """The seconds of each server's gossip: those of its slowest link; 0 without links."""
    return np.where(topology, link_time_s(bits, gossip_steps, bps, latency_s), 0.0).max(axis=1)


def link_bytes(bits: float, gossip_steps: int, topology: NDArray[np.bool_]) -> FloatArray:
    """The bytes that each server sends to each other in a gossip; 0 where they are not linked."""
    return np.where(topology, gossip_steps * bits / 8, 0.0)
