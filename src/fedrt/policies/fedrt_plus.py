"""fedrt-plus: optimised bandwidth and frequency, exact links, the true energy horizon.

Beyond the paper. The round time is the least there is for the given gossip steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedrt.control.allocation import allocate
from fedrt.control.topology import best_links
from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.base import complete_plan
from fedrt.world.observation import Observation


@dataclass(frozen=True)
class FedRTPlus:
    """See the module."""

    name: ClassVar[str] = "fedrt-plus"
    energy_horizon: Horizon = "exact"

    def plan(self, seen: Observation, books: Books) -> Plan:
        allocation = allocate(seen, books.allowance_j(self.energy_horizon))
        return complete_plan(seen, books, allocation, links=best_links, allocation_is_optimal=True)
