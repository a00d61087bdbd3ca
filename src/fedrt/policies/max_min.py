"""Max-min fair bandwidth: every device of a cluster has the same rate.

The fairness of D. Bertsekas and R. Gallager, "Data Networks", 2nd ed., 1992, section 6.5.2: no rate
can be raised without lowering one that is no greater. On one shared band all rates are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.shares import allocate_at, even_split_hz
from fedrt.cost.uplink import bandwidth_of_rate_hz
from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.base import complete_plan, keep_all_links
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

HALVINGS = 100


@dataclass(frozen=True)
class MaxMin:
    """Bandwidth for equal rates, the highest frequency that fits, every link."""

    name: ClassVar[str] = "max-min"
    energy_horizon: Horizon = "paper"

    def plan(self, seen: Observation, books: Books) -> Plan:
        allowance_j = books.allowance_j(self.energy_horizon)
        allocation = allocate_at(seen, equal_rates_hz(seen), allowance_j)
        return complete_plan(
            seen, books, allocation, links=keep_all_links, allocation_is_optimal=False
        )


def equal_rates_hz(seen: Observation) -> FloatArray:
    """The bandwidths with which all devices of a cluster have the same rate.

    In whole blocks an even split stands in for it.
    """
    edge, cn0_hz = seen.edge_of_device, seen.laws.cn0_hz
    if seen.laws.block_hz is not None:
        return even_split_hz(seen)
    if cn0_hz is None:
        per_bit = 1.0 / np.log1p(seen.snr)
        return per_bit * (seen.edge_bandwidth_hz / _safe(seen.sum_by_edge(per_bit)))[edge]
    # The common rate is below that of the worst device at any bandwidth.
    most = np.full(seen.num_edges, np.inf)
    np.minimum.at(most, edge, cn0_hz / np.log(2.0))
    low, high = np.zeros(seen.num_edges), np.where(np.isfinite(most), most, 1.0)
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        need = seen.sum_by_edge(bandwidth_of_rate_hz(rate[edge], cn0_hz))
        fits = need <= seen.edge_bandwidth_hz
        low, high = np.where(fits, rate, low), np.where(fits, high, rate)
    needed_hz = bandwidth_of_rate_hz(low[edge], cn0_hz)
    return needed_hz * (seen.edge_bandwidth_hz / _safe(seen.sum_by_edge(needed_hz)))[edge]


def _safe(sums: FloatArray) -> FloatArray:
    """Sums over clusters, 1 for one without devices."""
    return np.where(sums > 0, sums, 1.0)
