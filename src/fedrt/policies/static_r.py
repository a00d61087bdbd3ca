"""Static-R: even bandwidth, the highest frequency that fits, links by the paper's greedy search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedrt.control.topology.links import prune_greedily
from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.base import even_plan
from fedrt.world.observation import Observation


@dataclass(frozen=True)
class StaticR:
    """The baseline Static-R of the paper."""

    name: ClassVar[str] = "static-r"
    energy_horizon: Horizon = "paper"

    def plan(self, seen: Observation, books: Books) -> Plan:
        return even_plan(seen, books, self.energy_horizon, prune_greedily)
