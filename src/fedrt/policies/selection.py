"""What policies that leave devices out of an edge round share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.shares import Allocation, allocate_evenly
from fedrt.cost.round import price
from fedrt.ledger import Books
from fedrt.plan import Plan
from fedrt.policies.base import complete_plan, keep_all_links
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def even_times_s(seen: Observation, allowance_j: FloatArray) -> FloatArray:
    """The seconds of each device's edge round if its cluster splits the bandwidth evenly."""
    even = allocate_evenly(seen, allowance_j)
    steps = np.full(seen.num_devices, seen.local_steps, dtype=np.int64)
    return price(Plan("feasible", even.bandwidth_hz, even.cpu_hz, steps), seen).busy_s


def plan_for(seen: Observation, books: Books, allowance_j: FloatArray, chosen: BoolArray) -> Plan:
    """The plan in which the chosen devices train, with an even split among them."""
    part = allocate_evenly(seen.only(chosen), allowance_j[chosen])
    bandwidth_hz, cpu_hz = np.zeros(seen.num_devices), seen.cpu_max_hz.copy()
    bandwidth_hz[chosen], cpu_hz[chosen] = part.bandwidth_hz, part.cpu_hz
    allocation = Allocation(bandwidth_hz, cpu_hz, part.relaxed)
    return complete_plan(
        seen,
        books,
        allocation,
        links=keep_all_links,
        allocation_is_optimal=False,
        trains=chosen,
    )


def first_of_each(seen: Observation, order: FloatArray, count: NDArray[np.int64]) -> BoolArray:
    """The devices with the least values of `order` in each cluster, `count` of them."""
    ranked = np.lexsort((order, seen.edge_of_device))
    place = np.empty(seen.num_devices, dtype=np.int64)
    place[ranked] = np.arange(seen.num_devices) - seen.first_device[seen.edge_of_device[ranked]]
    return np.asarray(place < count[seen.edge_of_device])


def share_of_each(seen: Observation, share: float) -> NDArray[np.int64]:
    """A share of every cluster's devices, rounded up; none of an empty one."""
    return np.ceil(share * seen.cluster_size).astype(np.int64)
