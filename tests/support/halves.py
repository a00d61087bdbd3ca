"""A user's policy that leaves devices out, for tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedrt.ledger import Books
from fedrt.plan import Plan
from fedrt.policies import make_policy
from fedrt.seeding import uniforms
from fedrt.world.observation import Observation


def drawn_half(seen: Observation, seed: int = 0) -> np.ndarray:
    """A drawn half of the devices of each cluster, rounded down: of one device, nobody."""
    draw = uniforms(seen.device, seed, "halves", seen.t, seen.r)
    order = np.lexsort((draw, seen.edge_of_device))
    place = np.empty(seen.num_devices, dtype=np.int64)
    place[order] = np.arange(seen.num_devices)
    rank = place - seen.first_device[seen.edge_of_device]
    return rank < (seen.cluster_size // 2)[seen.edge_of_device]


class Halves:
    """Plans as another policy does, and leaves out half of each cluster, drawn for each round.

    What stands for those that are left out is no number that anything could be computed with.
    """

    energy_horizon = "paper"

    def __init__(self, policy: str = "fedrt", seed: int = 0) -> None:
        self.inner, self.seed = make_policy(policy), seed
        self.name = "halves"

    def plan(self, seen: Observation, books: Books) -> Plan:
        plan, trains = self.inner.plan(seen, books), drawn_half(seen, self.seed)
        return replace(
            plan,
            status="feasible",
            bandwidth_hz=np.where(trains, plan.bandwidth_hz, np.nan),
            cpu_hz=np.where(trains, plan.cpu_hz, 0.0),
            local_steps=np.where(trains, plan.local_steps, 0),
            trains=trains,
        )


class Nobody(Halves):
    """Leaves everybody of edge 1 out, and trains all others."""

    def plan(self, seen: Observation, books: Books) -> Plan:
        return replace(self.inner.plan(seen, books), trains=seen.edge_of_device != 1)
