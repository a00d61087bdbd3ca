"""LROA: sampling probabilities, frequencies and shares by Lyapunov optimisation.

Z. Gao, Z. Zhang, Y. Zhang, T. Wang, Y. Gong and Y. Guo, "Online Client Scheduling and Resource
Allocation for Efficient Federated Edge Learning", arXiv 2410.10833, 2024. Every device has a
virtual queue Q_n of the energy that it has spent beyond its mean allowance. In every round K
devices of a cluster are drawn with replacement, device n with the probability q_n, and

    V (sum of q_n T_n + penalty x sum of 1 / (N^2 q_n)) + sum of Q_n (1 - (1 - q_n)^K) E_n

is minimised over frequencies and probabilities in turn: in f_n, a closed form; in q_n, with the
concave last term replaced by its tangent, q_n = sqrt(d / (c_n + price)).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.shares import Allocation, allocate_at, even_split_hz
from fedrt.cost.compute import training_energy_j
from fedrt.cost.uplink import seconds_to_send
from fedrt.ledger import Books, Horizon, Pace
from fedrt.plan import Plan
from fedrt.policies.base import complete_plan, keep_all_links, with_memory
from fedrt.policies.selection import share_of_each
from fedrt.seeding import stream
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

SEED = 0
"""Of the draws, which are keyed by the round and the edge server; the same in every run."""
TURNS = 5
"""How often frequencies and probabilities are improved in turn."""
HALVINGS = 60
LEAST = 1e-4


@dataclass(frozen=True)
class Queues:
    """For each device of the fleet, its virtual queue, and its spending when it was last seen."""

    queue_j: FloatArray
    spent_j: FloatArray

    def add(self, pace: Pace) -> Queues:
        """The queues with what devices have spent beyond an equal share of their budgets."""
        who, limited = pace.device, np.isfinite(pace.budget_j)
        rounds = pace.most_rounds_left + (pace.t * pace.edge_rounds + pace.r)
        mean_j = np.where(limited, pace.budget_j, 0.0) / rounds
        queue_j, spent_j = self.queue_j.copy(), self.spent_j.copy()
        more_j = pace.spent_j - spent_j[who]
        queue_j[who] = np.where(limited, np.maximum(queue_j[who] + more_j - mean_j, 0.0), 0.0)
        spent_j[who] = pace.spent_j
        return Queues(queue_j, spent_j)


@dataclass(frozen=True)
class LROA:
    """Devices drawn with probabilities that trade time, energy and convergence."""

    name: str = "lroa"
    energy_horizon: Horizon = "paper"
    share: float = 0.5
    """K over the size of a cluster."""
    time_worth: float = 1.0
    """V, the worth of time against energy in the queues."""
    penalty: float = 1.0
    """The worth of even sampling, in median times of the cluster."""

    def begin(self, devices: int) -> Queues:
        """The queues before the first round: empty."""
        return Queues(np.zeros(devices), np.zeros(devices))

    @with_memory
    def plan(self, seen: Observation, books: Books, memory: Queues) -> tuple[Plan, Queues]:
        pace = books.pace(self.energy_horizon)
        queues = memory if pace is None else memory.add(pace)
        queue_j = queues.queue_j[seen.device]
        count = share_of_each(seen, self.share)
        draws = np.maximum(count, 1)[seen.edge_of_device]
        # Those who train share the band: a K-th part each.
        hz = even_split_hz(seen) * (seen.cluster_size[seen.edge_of_device] / draws)
        upload_s = seconds_to_send(seen, seen.upload_bits, hz)
        chance = 1.0 / seen.cluster_size[seen.edge_of_device]
        cpu_hz = seen.cpu_max_hz.copy()
        for _ in range(TURNS):
            cpu_hz = self._frequencies(seen, queue_j, chance, draws)
            time_s = seen.cycles / cpu_hz + upload_s
            energy_j = training_energy_j(seen, seen.cycles, cpu_hz) + seen.tx_power_w * upload_s
            chance = self._chances(seen, time_s, queue_j * energy_j, chance, draws)
        chosen = _drawn(seen, chance, count)
        return self._plan(seen, books, chosen, cpu_hz), queues

    def _frequencies(
        self, seen: Observation, queue_j: FloatArray, chance: FloatArray, draws: FloatArray
    ) -> FloatArray:
        """The frequency at which V q W / f + Q (1 - (1 - q)^K) (alpha / 2) W f^2 is least."""
        taken = 1.0 - (1.0 - chance) ** draws
        with np.errstate(divide="ignore"):
            cubed = self.time_worth * chance / (queue_j * taken * seen.capacitance)
        return np.clip(np.cbrt(cubed), seen.cpu_min_hz, seen.cpu_max_hz)

    def _chances(
        self,
        seen: Observation,
        time_s: FloatArray,
        energy_cost: FloatArray,
        chance: FloatArray,
        draws: FloatArray,
    ) -> FloatArray:
        """The probabilities of each cluster, which add up to one."""
        edge, size = seen.edge_of_device, np.maximum(seen.cluster_size, 1)
        slope = self.time_worth * time_s
        slope = slope + energy_cost * draws * (1.0 - chance) ** (draws - 1)
        mean_s = seen.sum_by_edge(time_s) / size
        even = (self.time_worth * self.penalty * mean_s / size**2)[edge]
        # sum of sqrt(even / (slope + price)) = 1: it falls as the price grows from its least value.
        least = -(np.minimum.reduceat(slope, seen.first_device[:-1][seen.cluster_size > 0]))
        low = np.zeros(seen.num_edges)
        low[seen.cluster_size > 0] = least
        high = np.maximum(low, 0.0) + seen.max_by_edge(even) * size**2 + 1e-300
        for _ in range(HALVINGS):
            price = (low + high) / 2
            total = seen.sum_by_edge(np.sqrt(even / np.maximum(slope + price[edge], 1e-300)))
            low, high = np.where(total > 1, price, low), np.where(total > 1, high, price)
        found = np.sqrt(even / np.maximum(slope + high[edge], 1e-300))
        found = np.maximum(found, LEAST / size[edge])
        return np.asarray(found / seen.sum_by_edge(found)[edge])

    def _plan(self, seen: Observation, books: Books, chosen: BoolArray, cpu_hz: FloatArray) -> Plan:
        """The plan in which the chosen devices share the band and run as the queues say."""
        allowance_j = books.allowance_j(self.energy_horizon)
        part = seen.only(chosen)
        fits = allocate_at(part, even_split_hz(part), allowance_j[chosen])
        allocation = Allocation(np.zeros(seen.num_devices), cpu_hz, fits.relaxed)
        allocation.bandwidth_hz[chosen] = fits.bandwidth_hz
        allocation.cpu_hz[chosen] = np.minimum(cpu_hz[chosen], fits.cpu_hz)
        plan = complete_plan(
            seen,
            books,
            allocation,
            links=keep_all_links,
            allocation_is_optimal=False,
            trains=chosen,
        )
        return replace(plan, trains=chosen)


def _drawn(seen: Observation, chance: FloatArray, count: NDArray[np.int64]) -> BoolArray:
    """The devices that are drawn at least once: `count` draws with replacement in each cluster."""
    chosen = np.zeros(seen.num_devices, dtype=bool)
    for c in np.flatnonzero(seen.cluster_size).tolist():
        low, high = seen.first_device[c], seen.first_device[c + 1]
        draw = stream(SEED, "lroa", seen.t, seen.r, c)
        chosen[low + draw.choice(high - low, size=count[c], p=chance[low:high])] = True
    return chosen
