"""Proportionally fair bandwidth: rates are worth their logarithm, over time.

F. P. Kelly, A. K. Maulloo and D. K. H. Tan, "Rate control for communication networks", Journal of
the Operational Research Society 49, 1998; as a scheduler, A. Jalali, R. Padovani and R. Pankaj,
"Data throughput of CDMA-HDR", VTC 2000. Each edge round maximises the sum over devices of
log((1 - 1/W) R_n + (1/W) r_n), R_n being the mean of the rates that it has had and r_n the one it
gets. Devices with a good channel for once are preferred, and none is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.shares import allocate_at, even_split_hz
from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.base import complete_plan, keep_all_links, with_memory
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

WINDOW = 2.0
"""W, the edge rounds over which rates are averaged: a scheduler's many turns are one of them."""
LEAST = 0.5
"""The least share of an even split that a device gets: all of them have to send."""
HALVINGS = 100


@dataclass(frozen=True)
class ProportionalFair:
    """Bandwidth by the proportionally fair rule, the highest frequency that fits, every link."""

    name: str = "proportional-fair"
    energy_horizon: Horizon = "paper"

    def begin(self, devices: int) -> FloatArray:
        """For each device, the mean of its rates in nats per second; NaN before its first."""
        return np.full(devices, np.nan)

    @with_memory
    def plan(self, seen: Observation, books: Books, memory: FloatArray) -> tuple[Plan, FloatArray]:
        efficiency = np.log1p(seen.snr)
        even_hz = even_split_hz(seen)
        mean = memory[seen.device]
        mean = np.where(np.isnan(mean), efficiency * even_hz, mean)
        bandwidth_hz = even_hz
        if seen.laws.block_hz is None and seen.num_devices:
            bandwidth_hz = fair_hz(seen, efficiency, (WINDOW - 1) * mean)
        rate = efficiency * bandwidth_hz
        after = memory.copy()
        after[seen.device] = (1 - 1 / WINDOW) * mean + rate / WINDOW
        allocation = allocate_at(seen, bandwidth_hz, books.allowance_j(self.energy_horizon))
        plan = complete_plan(
            seen, books, allocation, links=keep_all_links, allocation_is_optimal=False
        )
        return plan, after


def fair_hz(seen: Observation, efficiency: FloatArray, before: FloatArray) -> FloatArray:
    """The bandwidths that maximise the sum of log(before + efficiency b), each at least a share.

    At a price of bandwidth b = 1/price - before/efficiency where that is more than the least.
    """
    edge = seen.edge_of_device
    least_hz = LEAST * even_split_hz(seen)
    worth = before / efficiency
    low, high = np.zeros(seen.num_edges), seen.edge_bandwidth_hz + seen.max_by_edge(worth)
    for _ in range(HALVINGS):
        level = (low + high) / 2
        need = seen.sum_by_edge(np.maximum(level[edge] - worth, least_hz))
        fits = need <= seen.edge_bandwidth_hz
        low, high = np.where(fits, level, low), np.where(fits, high, level)
    return np.maximum(low[edge] - worth, least_hz)
