"""HFEL's allocation: the least weighted sum of time and energy in every cluster.

S. Luo, X. Chen, Q. Wu, Z. Zhou and S. Yu, "HFEL: Joint Edge Association and Resource Allocation for
Cost-Efficient Hierarchical Federated Edge Learning", IEEE Transactions on Wireless Communications
19, 2020: for given clusters, bandwidth and CPU frequencies minimise lambda_e E + lambda_t T, a
convex problem. Clusters are given here; all links of the base graph are used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrt.control.allocation.priced import PricedFleet
from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.base import complete_plan, keep_all_links
from fedrt.world.observation import Observation


@dataclass(frozen=True)
class HFEL:
    """The allocation of least lambda_t T + lambda_e E in every cluster, within the allowances."""

    name: str = "hfel"
    energy_horizon: Horizon = "paper"
    seconds_per_joule: float = 1.0
    """lambda_e / lambda_t: what a joule of any device is worth."""

    def plan(self, seen: Observation, books: Books) -> Plan:
        price = np.full(seen.num_devices, self.seconds_per_joule)
        fleet = PricedFleet(seen, price, books.allowance_j(self.energy_horizon))
        allocation = fleet.fastest
        if seen.num_devices:
            allocation = fleet.found(fleet.at_price(np.ones(seen.num_edges)))
        return complete_plan(
            seen, books, allocation, links=keep_all_links, allocation_is_optimal=False
        )
