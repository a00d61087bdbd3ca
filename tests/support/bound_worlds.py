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


def enumerated(
    seed: int, servers: int, devices: int, rounds: int, steps: int
) -> tuple[SimulatedWorld, float | None, float]:
    """A random world for exhaustive search, its contraction limit, and how far budgets reach.

    Computing, uploads or the backhaul take the time, so that choices of links come close to each
    other, and budgets are up to a quarter above what `fedrt` spends.
    """
    rng = np.random.default_rng(seed)
    rho = (None, 0.5, 0.2, 0.05)[int(rng.integers(4))]
    low_bps = 10 ** rng.uniform(5.7, 7)
    scenario = tiny(
        f"fleet.num_edges={servers}",
        f"fleet.num_devices={devices}",
        "fleet.cluster_sizes=even",
        f"rounds={{global_rounds={rounds},edge_rounds=2,local_steps=10,gossip_steps={steps}}}",
        f"fleet.cycles_per_sample={10 ** rng.uniform(6, 8)}",
        f"fleet.tx_power_w={10 ** rng.uniform(-3, -1)}",
        f"learning.model_bits={10 ** rng.uniform(5.5, 7)}",
        f"backhaul={{kind='uniform',low_bps={low_bps},high_bps={10 * low_bps}}}",
        # Every tenth world forbids pruning.
        f"control.kappa={rng.uniform(0, 1) * (seed % 10 != 9)}",
    )
    return SimulatedWorld(scenario, seed), rho, 10 ** rng.uniform(0, 0.1)
