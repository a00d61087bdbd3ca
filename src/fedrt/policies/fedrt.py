"""FedRT: optimised bandwidth and frequency, links by the paper's greedy search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedrt.control.allocation.allocate import allocate
from fedrt.control.topology.links import prune_greedily
from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.base import complete_plan
from fedrt.world.observation import Observation


@dataclass(frozen=True)
class FedRT:
    """The policy of the paper, FedRT."""

    name: ClassVar[str] = "fedrt"
    energy_horizon: Horizon = "paper"

    def plan(self, seen: Observation, books: Books) -> Plan:
        allocation = allocate(seen, books.allowance_j(self.energy_horizon))
        return complete_plan(
            seen, books, allocation, links=prune_greedily, allocation_is_optimal=True
        )
