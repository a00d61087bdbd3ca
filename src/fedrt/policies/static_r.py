"""Static-R: even bandwidth, the highest frequency that fits, links by the paper's greedy search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedrt.control.allocation.shares import allocate_evenly
from fedrt.control.topology.links import prune_greedily
from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.base import complete_plan
from fedrt.world.observation import Observation


@dataclass(frozen=True)
class StaticR:
    """The baseline Static-R of the paper."""

    name: ClassVar[str] = "static-r"
    energy_horizon: Horizon = "paper"

    def plan(self, seen: Observation, books: Books) -> Plan:
        allocation = allocate_evenly(seen, books.allowance_j(self.energy_horizon))
        return complete_plan(
            seen, books, allocation, links=prune_greedily, allocation_is_optimal=False
        )
