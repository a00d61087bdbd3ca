"""TiFL: devices of similar speed train together.

Z. Chai et al., "TiFL: A Tier-based Federated Learning System", HPDC 2020: devices are profiled and
divided into tiers by their response times; a round draws one tier and its devices from it. The
uniform policy of the paper: every tier is as likely as any other. Its adaptive one needs the
accuracy of every tier, which policies here are not told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.base import with_memory
from fedrt.policies.selection import even_times_s, plan_for
from fedrt.seeding import uniforms
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

SEED = 0
"""Of the draws, which are keyed by the round and the edge server; the same in every run."""


@dataclass(frozen=True)
class Profile:
    """For each device of the fleet, the sum of its response times so far, and their number."""

    total_s: FloatArray
    count: NDArray[np.int64]

    def add(self, who: NDArray[np.int64], time_s: FloatArray) -> Profile:
        """The profile with the response times of another edge round."""
        total_s, count = self.total_s.copy(), self.count.copy()
        total_s[who] += time_s
        count[who] += 1
        return Profile(total_s, count)


@dataclass(frozen=True)
class TiFL:
    """In every cluster the devices of one tier, drawn anew in every edge round."""

    name: str = "tifl"
    energy_horizon: Horizon = "paper"
    tiers: int = 5

    def begin(self, devices: int) -> Profile:
        """The profile before the first round."""
        return Profile(np.zeros(devices), np.zeros(devices, dtype=np.int64))

    @with_memory
    def plan(self, seen: Observation, books: Books, memory: Profile) -> tuple[Plan, Profile]:
        allowance_j = books.allowance_j(self.energy_horizon)
        profile = memory.add(seen.device, even_times_s(seen, allowance_j))
        profile_s = (profile.total_s / np.maximum(profile.count, 1))[seen.device]
        chosen = tier_of_each(seen, profile_s, self.tiers) == self._drawn(seen)[seen.edge_of_device]
        return plan_for(seen, books, allowance_j, chosen), profile

    def _drawn(self, seen: Observation) -> NDArray[np.int64]:
        """The tier that each edge server draws."""
        tiers = np.minimum(self.tiers, np.maximum(seen.cluster_size, 1))
        drawn = uniforms(np.arange(seen.num_edges), SEED, "tifl", seen.t, seen.r)
        return np.floor(drawn * tiers).astype(np.int64)


def tier_of_each(seen: Observation, time_s: FloatArray, tiers: int) -> NDArray[np.int64]:
    """The tier of each device within its cluster: 0 for the fastest, of nearly equal sizes."""
    edge = seen.edge_of_device
    ranked = np.lexsort((time_s, edge))
    place = np.empty(seen.num_devices, dtype=np.int64)
    place[ranked] = np.arange(seen.num_devices) - seen.first_device[edge[ranked]]
    size = seen.cluster_size[edge]
    return place * np.minimum(tiers, size) // np.maximum(size, 1)
