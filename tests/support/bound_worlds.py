"""Worlds small enough to search through, and limits for the hindsight bound in them."""

from __future__ import annotations

import numpy as np

from fedrt.bound.distances import stand_in_distances
from fedrt.studies.bound import (
    run_policy,
)
from fedrt.world.simulated import SimulatedWorld
from support.tiny import tiny

SMALL = {
    2: ("fleet.num_edges=2", "fleet.num_devices=4", "fleet.cluster_sizes=even"),
    3: ("fleet.num_edges=3", "fleet.num_devices=5", "fleet.cluster_sizes=even"),
    4: ("fleet.num_edges=4", "fleet.num_devices=4", "fleet.cluster_sizes=even"),
}


def small(edges: int, seed: int, rounds: int = 2, steps: int = 3, *more: str) -> SimulatedWorld:
    loop = f"rounds={{global_rounds={rounds},edge_rounds=2,local_steps=10,gossip_steps={steps}}}"
    return SimulatedWorld(tiny(*SMALL[edges], loop, *more), seed)


def limits(world: SimulatedWorld, factor: float) -> tuple[list[np.ndarray], np.ndarray]:
    """Distances, and what `fedrt` spends times a factor: feasible and more or less binding."""
    distances = stand_in_distances(world)
    return distances, factor * run_policy(world, "fedrt", distances).spent_j
