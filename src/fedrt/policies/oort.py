"""Oort: devices of high utility, the slow ones marked down, with some exploration.

F. Lai, X. Zhu, H. V. Madhyastha and M. Chowdhury, "Oort: Efficient Federated Learning via Guided
Participant Selection", OSDI 2021. A device's utility is what its data are worth times (T / t)^alpha
if its time t is beyond the preferred T, plus a bonus for devices not chosen for long. What data are
worth is measured by training losses there; policies here are not told them, so all data are worth
the same, and what is left of Oort is its view of the system.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan
from fedrt.policies.base import with_memory
from fedrt.policies.selection import (
    even_times_s,
    first_of_each,
    plan_for,
    share_of_each,
)
from fedrt.seeding import uniforms
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SEED = 0
"""Of the draws, which are keyed by the round and the device; the same in every run."""
PENALTY = 2.0
"""alpha, by which slow devices are marked down."""
EXPLORE, LEAST_EXPLORED, FADES = 0.9, 0.2, 0.98
"""The share of devices that are drawn among those not tried yet: first, least, and its decay."""
BONUS = 0.1


@dataclass(frozen=True)
class Oort:
    """A share of every cluster by utility."""

    name: str = "oort"
    energy_horizon: Horizon = "paper"
    share: float = 0.5
    """Of every cluster's devices, how many train."""
    preferred: float = 0.3
    """The quantile of the cluster's times that is the preferred time T."""

    def begin(self, devices: int) -> IntArray:
        """For each device, the last edge round in which it was chosen, counted from 1: none."""
        return np.zeros(devices, dtype=np.int64)

    @with_memory
    def plan(self, seen: Observation, books: Books, memory: IntArray) -> tuple[Plan, IntArray]:
        now = self.round_number(seen, books)
        allowance_j = books.allowance_j(self.energy_horizon)
        time_s = even_times_s(seen, allowance_j)
        last = memory[seen.device]
        tried = last > 0
        count = share_of_each(seen, self.share)
        explored = max(EXPLORE * FADES ** (now - 1), LEAST_EXPLORED)
        new = np.minimum(
            np.floor(explored * count).astype(np.int64),
            seen.sum_by_edge((~tried).astype(np.float64)).astype(np.int64),
        )
        # Among those not tried yet faster ones are likelier, as in the source.
        drawn = uniforms(seen.device, SEED, "oort", seen.t, seen.r) ** (1.0 / _speed(seen, time_s))
        fresh = first_of_each(seen, np.where(tried, np.inf, -drawn), new)
        utility = self._utility(seen, time_s, last, now)
        order = np.where(fresh, np.inf, np.where(tried, -utility, np.finfo(np.float64).max))
        chosen = fresh | first_of_each(seen, order, count - new)
        after = memory.copy()
        after[seen.device[chosen]] = now
        return plan_for(seen, books, allowance_j, chosen), after

    def round_number(self, seen: Observation, books: Books) -> int:
        """The number of this edge round, from 1."""
        pace = books.pace(self.energy_horizon)
        per_round = 1 if pace is None else pace.edge_rounds
        return seen.t * per_round + seen.r + 1

    def _utility(
        self, seen: Observation, time_s: FloatArray, last: IntArray, now: int
    ) -> FloatArray:
        bonus = np.sqrt(BONUS * np.log(max(now, 2)) / np.maximum(last, 1))
        parts = np.split(time_s, seen.first_device[1:-1])
        limit_s = np.array([np.quantile(p, self.preferred) if len(p) else 1.0 for p in parts])
        over = np.minimum(limit_s[seen.edge_of_device] / time_s, 1.0)
        return np.asarray((1.0 + bonus) * over**PENALTY)


def _speed(seen: Observation, time_s: FloatArray) -> FloatArray:
    """Each device's speed over the greatest of its cluster."""
    speed = 1.0 / time_s
    return np.asarray(speed / seen.max_by_edge(speed)[seen.edge_of_device])
