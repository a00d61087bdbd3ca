"""CE-FedAvg: even bandwidth, the highest frequency that fits, every link of the base graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedrt.control.allocation.shares import allocate_evenly
from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.base import complete_plan, keep_all_links
from fedrt.world.observation import Observation


@dataclass(frozen=True)
class CEFedAvg:
    """The baseline CE-FedAvg of the paper."""

    name: ClassVar[str] = "ce-fedavg"
    energy_horizon: Horizon = "paper"

    def plan(self, seen: Observation, books: Books) -> Plan:
        allocation = allocate_evenly(seen, books.allowance_j(self.energy_horizon))
        return complete_plan(
            seen, books, allocation, links=keep_all_links, allocation_is_optimal=False
        )
