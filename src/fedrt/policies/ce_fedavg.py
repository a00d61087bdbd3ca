"""CE-FedAvg: even bandwidth, the highest frequency that fits, every link of the base graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.base import even_plan, keep_all_links
from fedrt.world.observation import Observation


@dataclass(frozen=True)
class CEFedAvg:
    """The baseline CE-FedAvg of the paper."""

    name: ClassVar[str] = "ce-fedavg"
    energy_horizon: Horizon = "paper"

    def plan(self, seen: Observation, books: Books) -> Plan:
        return even_plan(seen, books, self.energy_horizon, keep_all_links)
