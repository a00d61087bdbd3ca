"""TiFL: devices of similar speed train together.

Z. Chai et al., "TiFL: A Tier-based Federated Learning System", HPDC 2020: devices are profiled and
divided into tiers by their response times; a round draws one tier and its devices from it. The
uniform policy of the paper: every tier is as likely as any other. Its adaptive one needs the
accuracy of every tier, which policies here are not told.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.selection import even_times_s, plan_for
from fedrt.seeding import uniforms
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

SEED = 0
"""Of the draws, which are keyed by the round and the edge server; the same in every run."""


@dataclass
class TiFL:
    """In every cluster the devices of one tier, drawn anew in every edge round."""

    name: str = "tifl"
    energy_horizon: Horizon = "paper"
    tiers: int = 5
    sums: dict[int, tuple[float, int]] = field(default_factory=dict, repr=False)
    """By device: the sum of its response times so far, and their number."""

    def plan(self, seen: Observation, books: Books) -> Plan:
        if seen.t == 0 and seen.r == 0:
            self.sums = {}
        allowance_j = books.allowance_j(self.energy_horizon)
        profile_s = self._profile_s(seen, even_times_s(seen, allowance_j))
        chosen = tier_of_each(seen, profile_s, self.tiers) == self._drawn(seen)[seen.edge_of_device]
        return plan_for(seen, books, allowance_j, chosen)

    def _profile_s(self, seen: Observation, time_s: FloatArray) -> FloatArray:
        """The mean response time of each device up to now."""
        means = []
        for device, now_s in zip(seen.device.tolist(), time_s.tolist(), strict=True):
            total_s, count = self.sums.get(device, (0.0, 0))
            self.sums[device] = (total_s + now_s, count + 1)
            means.append((total_s + now_s) / (count + 1))
        return np.array(means)

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
