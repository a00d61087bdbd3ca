"""MLL-SGD: CE-FedAvg with local steps in proportion to each device's speed.

S_n = max(1, S f_n / mean f of its cluster, rounded half up), f_n being what fits at S steps. The
frequency is fitted again to the S_n steps, which are then both charged and trained.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.shares import allocate_evenly
from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.base import complete_plan, keep_all_links
from fedrt.world.observation import Observation


@dataclass(frozen=True)
class MLLSGD:
    """The baseline MLL-SGD of the paper."""

    name: ClassVar[str] = "mll-sgd"
    energy_horizon: Horizon = "paper"

    def plan(self, seen: Observation, books: Books) -> Plan:
        allowance_j = books.allowance_j(self.energy_horizon)
        steps = steps_by_speed(seen, allocate_evenly(seen, allowance_j).cpu_hz)
        slowed = replace(seen, cycles=seen.cycles * (steps / seen.local_steps))
        return complete_plan(
            seen,
            books,
            allocate_evenly(slowed, allowance_j),
            links=keep_all_links,
            allocation_is_optimal=False,
            local_steps=steps,
        )


def steps_by_speed(seen: Observation, cpu_hz: NDArray[np.float64]) -> NDArray[np.int64]:
    """The local steps of each device, in proportion to its CPU frequency within its cluster."""
    mean_hz = seen.sum_by_edge(cpu_hz) / np.maximum(seen.cluster_size, 1)
    exact = seen.local_steps * cpu_hz / mean_hz[seen.edge_of_device]
    return np.maximum(1, np.floor(exact + 0.5)).astype(np.int64)
