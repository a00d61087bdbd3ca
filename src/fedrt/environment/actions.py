"""Actions of the environment: numbers from -1 to 1, and the plans that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.shares import allocate_evenly, even_split_hz, whole_blocks
from fedrt.control.topology.components import links_by_part
from fedrt.control.topology.consensus import meets_limit
from fedrt.cost.backhaul import link_time_s
from fedrt.cost.round import price
from fedrt.graph import BoolMatrix, is_connected, links_of
from fedrt.ledger import Books
from fedrt.plan import Gossip, Plan
from fedrt.world.observation import Observation
from fedrt.world.simulated import SimulatedWorld

FloatArray = NDArray[np.float64]

SHARPNESS = 3.0
"""How far shares of bandwidth go apart: weights are exp(3 a), from 1/20 to 20."""
MOST_TILT = 2.0
"""The greatest power of a device's time that its share of bandwidth follows."""


class Actions(Protocol):
    """What an agent decides, as a vector."""

    @property
    def size(self) -> int:
        """The length of the vector."""
        ...

    def plan(self, seen: Observation, books: Books, action: FloatArray) -> Plan:
        """The plan that an action stands for."""
        ...


@dataclass(frozen=True)
class FullActions:
    """Every device's share of bandwidth and its CPU frequency, and a score for every link.

    In this order: a number for each device of the fleet, from which its cluster's bandwidth is
    divided by exp(3 a); one for each device, from its lowest frequency (-1) to its highest (1) on a
    logarithmic scale; one for each link of the base graph. Links with scores above 0 are used, and
    of the others the best ones until all servers are connected and the consensus limit is kept.
    """

    devices: int
    base_graph: BoolMatrix

    @property
    def size(self) -> int:
        return 2 * self.devices + len(links_of(self.base_graph)[0])

    def plan(self, seen: Observation, books: Books, action: FloatArray) -> Plan:
        weight = np.exp(SHARPNESS * action[: self.devices][seen.device])
        part = (action[self.devices : 2 * self.devices][seen.device] + 1) / 2
        cpu_hz = seen.cpu_min_hz * (seen.cpu_max_hz / seen.cpu_min_hz) ** part
        score = np.zeros(self.base_graph.shape)
        score[links_of(self.base_graph)] = action[2 * self.devices :]
        return _plan(seen, shared_hz(seen, weight), cpu_hz, score + score.T)


@dataclass(frozen=True)
class SmallActions:
    """Three numbers that change the even split: for a first agent.

    How much more bandwidth slow devices get (-1: none, 1: in proportion to their time squared), the
    frequency over the highest that fits an even split (from half of it to twice), and the share of
    the links that are used beside those that are needed, fast ones first.
    """

    @property
    def size(self) -> int:
        return 3

    def plan(self, seen: Observation, books: Books, action: FloatArray) -> Plan:
        even = allocate_evenly(seen, books.allowance_j("exact"))
        steps = np.full(seen.num_devices, seen.local_steps, dtype=np.int64)
        time_s = price(Plan("feasible", even.bandwidth_hz, even.cpu_hz, steps), seen).busy_s
        bandwidth_hz = shared_hz(seen, time_s ** (MOST_TILT * (action[0] + 1) / 2))
        cpu_hz = np.clip(even.cpu_hz * 2.0 ** action[1], seen.cpu_min_hz, seen.cpu_max_hz)
        score = None
        if seen.backhaul is not None:
            base = seen.backhaul.base_graph
            speed = np.where(base, seen.backhaul.bps, 0.0)
            rows, cols = links_of(base)
            rank = np.zeros(len(rows))
            rank[np.argsort(-speed[rows, cols], kind="stable")] = np.arange(len(rows))
            score = np.zeros(base.shape)
            score[rows, cols] = (action[2] + 1) / 2 - (rank + 0.5) / max(len(rows), 1)
            score = score + score.T
        return _plan(seen, bandwidth_hz, cpu_hz, score)


def actions_of(world: SimulatedWorld, kind: str) -> Actions:
    """The actions of an environment in a world."""
    if kind == "small":
        return SmallActions()
    return FullActions(world.fleet.num_devices, world.base_graph)


def shared_hz(seen: Observation, weight: FloatArray) -> FloatArray:
    """Each cluster's bandwidth divided in proportion to weights; in whole blocks, one at least."""
    edge = seen.edge_of_device
    share = weight / np.maximum(seen.sum_by_edge(weight), 1e-300)[edge]
    block_hz = seen.laws.block_hz
    if block_hz is None:
        return share * seen.edge_bandwidth_hz[edge]
    spare = whole_blocks(seen) - seen.cluster_size
    if (spare < 0).any():
        return even_split_hz(seen)
    exact = share * spare[edge]
    blocks = np.floor(exact)
    order = np.lexsort((blocks - exact, edge))
    place = np.empty(seen.num_devices, dtype=np.int64)
    place[order] = np.arange(seen.num_devices) - seen.first_device[edge[order]]
    more = spare - seen.sum_by_edge(blocks).astype(np.int64)
    return block_hz * (1 + blocks + (place < more[edge]))


def _plan(
    seen: Observation, bandwidth_hz: FloatArray, cpu_hz: FloatArray, score: FloatArray | None
) -> Plan:
    gossip = None
    if seen.backhaul is not None and score is not None:
        gossip = Gossip(scored_links(seen, score), seen.gossip_steps)
    steps = np.full(seen.num_devices, seen.local_steps, dtype=np.int64)
    return Plan("feasible", bandwidth_hz, cpu_hz, steps, gossip)


def scored_links(seen: Observation, score: FloatArray) -> BoolMatrix:
    """Links with scores above 0, and the best others until the servers are well enough linked."""
    backhaul = seen.backhaul
    assert backhaul is not None

    def rule(
        finish_s: FloatArray, link_s: FloatArray, distance: FloatArray, limit: float
    ) -> BoolMatrix:
        # The scores travel in the place of the links' times: the higher, the sooner.
        rows, cols = links_of(np.isfinite(link_s))
        order = np.argsort(link_s[rows, cols], kind="stable")
        rows, cols = rows[order], cols[order]

        def best(count: int) -> BoolMatrix:
            chosen = np.zeros(link_s.shape, dtype=bool)
            chosen[rows[:count], cols[:count]] = chosen[cols[:count], rows[:count]] = True
            return chosen

        # More links only help: the fewest that do are found by halving.
        low, high = int((link_s[rows, cols] < 0).sum()), len(rows)
        while low < high:
            middle = (low + high) // 2
            chosen = best(middle)
            if meets_limit(chosen, distance, limit) and is_connected(chosen):
                high = middle
            else:
                low = middle + 1
        return best(high)

    there = np.isfinite(link_time_s(1.0, 1, backhaul.bps))
    return links_by_part(
        rule,
        np.zeros(seen.num_edges),
        np.where(there, -score, np.inf),
        backhaul.consensus_distance,
        backhaul.consensus_limit,
    )
