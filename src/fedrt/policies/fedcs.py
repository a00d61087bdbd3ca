"""FedCS: as many devices as can finish by a deadline.

T. Nishio and R. Yonetani, "Client Selection for Federated Learning with Heterogeneous Resources in
Mobile Edge", ICC 2019: the server asks devices for their resources and selects greedily, those that
lengthen the round least first, while the round ends by its deadline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.selection import even_times_s, first_of_each, plan_for
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class FedCS:
    """In every cluster the most devices that finish by the deadline, with an even split."""

    name: str = "fedcs"
    energy_horizon: Horizon = "paper"
    deadline: float = 1.0
    """In median times of the cluster's devices, under an even split among all of them."""

    def plan(self, seen: Observation, books: Books) -> Plan:
        allowance_j = books.allowance_j(self.energy_horizon)
        time_s = even_times_s(seen, allowance_j)
        latest_s = self.deadline * _medians(seen, time_s)
        low, high = np.minimum(seen.cluster_size, 1), seen.cluster_size
        # With one device more all have less bandwidth: the last end only grows with the number.
        while (low < high).any():
            count = (low + high + 1) // 2
            chosen = first_of_each(seen, time_s, count)
            end_s = np.zeros(seen.num_devices)
            end_s[chosen] = even_times_s(seen.only(chosen), allowance_j[chosen])
            fits = seen.max_by_edge(end_s) <= latest_s
            low, high = np.where(fits, count, low), np.where(fits, high, count - 1)
        return plan_for(seen, books, allowance_j, first_of_each(seen, time_s, low))


def _medians(seen: Observation, time_s: FloatArray) -> FloatArray:
    """The median of each cluster's times; 0 without devices."""
    parts = np.split(time_s, seen.first_device[1:-1])
    return np.array([np.median(part) if len(part) else 0.0 for part in parts])
