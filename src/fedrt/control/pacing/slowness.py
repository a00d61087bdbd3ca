"""Stragglers: how likely devices are to be slow, and allocations that allow for it.

In the allocation of least time all devices of a cluster end at once, so every slow one holds the
cluster up. One that allows for slow devices ends later where nobody is slow, and earlier where
somebody is. Which is better depends on how often devices are slow, how slow they then are and
whether it lasts: all of it is learned from what devices report after each edge round. The end that
an allocation lets expect is then a closed sum, and of a few allocations the one with the least is
taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedrt.arrays import freeze_arrays
from fedrt.control.allocation.allocate import allocate
from fedrt.control.allocation.priced import cost_of
from fedrt.control.allocation.shares import Allocation, evenly_where_it_fits
from fedrt.cost.compute import compute_time_s
from fedrt.cost.outcome import Deadline
from fedrt.cost.round import broadcast_s
from fedrt.cost.uplink import seconds_to_send
from fedrt.plan import ROUNDING
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# How far allocations go for devices that are not likely to be slow, from not at all to fully.
LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Slowness:
    """How likely each device of the coming edge round is to be slow, and by how much."""

    chance: FloatArray
    """Per device: how likely it is to be slow."""
    slowdown: float
    """Computing time of a slow device over what was planned; 1 while none was seen."""
    deadline: Deadline
    """When servers stop waiting."""

    def __post_init__(self) -> None:
        freeze_arrays(self)


@dataclass(frozen=True)
class SlownessSeen:
    """What the devices of a fleet have reported about their computing speed so far.

    Counts are kept of all reports, of those after one of full speed, and of those after a slow one.
    """

    last: IntArray
    """Per device: 0 before its first report, 1 if it last ran at full speed, 2 if slowly."""
    reports: FloatArray = field(default_factory=lambda: np.zeros(3))
    slow: FloatArray = field(default_factory=lambda: np.zeros(3))
    """The number of those reports that were of slow devices."""
    slowdowns: float = 0.0
    """The sum of the slowdowns in all reports of slow devices."""

    @staticmethod
    def nothing(fleet_size: int) -> SlownessSeen:
        """The reports before the first edge round: none."""
        return SlownessSeen(np.zeros(fleet_size, dtype=np.int64))

    def add(self, who: IntArray, slowdown: FloatArray) -> SlownessSeen:
        """The same with the reports of one edge round: actual over planned computing times."""
        slow, last = slowdown > 1.0, self.last[who]
        states = (last >= 0, last == 1, last == 2)
        now = self.last.copy()
        now[who] = np.where(slow, 2, 1)
        return SlownessSeen(
            now,
            self.reports + [which.sum() for which in states],
            self.slow + [(slow & which).sum() for which in states],
            self.slowdowns + float(slowdown[slow].sum()),
        )

    def expected(self, who: IntArray, deadline: Deadline) -> Slowness:
        """The chance that each device is slow in the coming edge round, given its last report.

        To each of these shares the share of all reports is added as if it were one report more.
        """
        share = self.slow[0] / max(self.reports[0], 1.0)
        chance = (self.slow + share) / (self.reports + 1.0)
        chance[0] = share
        slowdown = self.slowdowns / self.slow[0] if self.slow[0] else 1.0
        return Slowness(chance[self.last[who]], slowdown, deadline)


def quickest_expected(
    seen: Observation,
    cap_j: FloatArray,
    slowness: Slowness,
    begin_s: FloatArray,
    usual: Allocation,
    kept: BoolArray,
) -> Allocation:
    """Of several allocations, the one under which the last cluster is expected to end earliest.

    Tried are the usual one, the even split and some that allow for slow devices, within the caps;
    the others only if they are expected to lose no more updates to the deadline. Clusters that are
    `kept` have the usual one in any case. `begin_s`: when each cluster begins.
    """
    tries = [evenly_where_it_fits(seen, cap_j, usual), *_allowing(seen, cap_j, slowness, usual)]
    tries = [usual, *(each.with_clusters(usual, kept, seen) for each in tries)]
    ends = [expected_end(seen, each, slowness, begin_s) for each in tries]
    least = ends[0][1] * (1 - ROUNDING)
    return tries[int(np.argmin([end_s if arrive >= least else np.inf for end_s, arrive in ends]))]


def no_later_than(
    other: Allocation,
    allocation: Allocation,
    seen: Observation,
    cap_j: FloatArray,
    deadline: Deadline,
) -> Allocation:
    """The given allocation, and the other one in clusters whose round its deadline cuts short.

    A deadline in multiples of the median time depends on the plan: one in which most devices end
    early does without the last ones, and its round may end before that of a plan which waits for
    all. Only where the other one keeps the caps.
    """
    own, its = cost_of(seen, allocation), cost_of(seen, other)
    everyone = np.ones(seen.num_devices, dtype=bool)
    ends_s = [
        np.minimum(seen.max_by_edge(each.busy_s), deadline.of_edges(seen, each.busy_s, everyone))
        for each in (own, its)
    ]
    over = its.energy_j > cap_j + ROUNDING * np.abs(cap_j)
    keeps = seen.sum_by_edge(over.astype(np.float64)) == 0
    cut = ends_s[1] < seen.max_by_edge(its.busy_s)
    earlier = keeps & cut & (ends_s[1] < ends_s[0])
    return allocation.with_clusters(other, earlier, seen) if earlier.any() else allocation


def _allowing(
    seen: Observation, cap_j: FloatArray, slowness: Slowness, otherwise: Allocation
) -> list[Allocation]:
    """Allocations of least time if some devices compute more slowly than planned.

    As much longer as slow devices take for those that are more likely slow than not, and for the
    others a part of that. Clusters whose caps no allocation keeps get what `otherwise` says.
    """
    found = []
    for level in LEVELS:
        part = np.where(slowness.chance > 0.5, 1.0, level)
        each = allocate(seen, cap_j, 1.0 + (slowness.slowdown - 1.0) * part)
        found.append(each.with_clusters(otherwise, each.relaxed, seen))
    return found


def expected_end(
    seen: Observation, allocation: Allocation, slowness: Slowness, begin_s: FloatArray
) -> tuple[float, float]:
    """The expected second at which the last cluster ends, and the expected number of updates.

    Devices are slow independently of each other. The round ends with a slow device if it is slow
    and none is that would be later; if no such device is slow, it ends as planned.
    """
    bandwidth_hz, power_w = allocation.bandwidth_hz, allocation.tx_power_w
    upload_s = seconds_to_send(seen, seen.upload_bits, bandwidth_hz, power_w) + broadcast_s(seen)
    compute_s = compute_time_s(seen.cycles, allocation.cpu_hz)
    edge, chance = seen.edge_of_device, slowness.chance
    begin_s = begin_s + np.where(seen.cluster_size > 0, seen.laws.overhead_s, 0.0)
    planned_s, slow_s = compute_s + upload_s, slowness.slowdown * compute_s + upload_s
    everyone = np.ones(seen.num_devices, dtype=bool)
    cut_s = slowness.deadline.of_edges(seen, planned_s, everyone)[edge]
    last_s = cut_s * (1 + ROUNDING)
    arrive = (1.0 - chance) * (planned_s <= last_s) + chance * (slow_s <= last_s)
    ends_s = begin_s[edge] + np.minimum(slow_s, cut_s)
    planned_end_s = max(
        float(np.max(begin_s)), float(np.max(begin_s[edge] + np.minimum(planned_s, cut_s)))
    )
    late = np.flatnonzero(ends_s > planned_end_s)
    late = late[np.argsort(-ends_s[late], kind="stable")]
    none_later = np.cumprod(np.concatenate([[1.0], 1.0 - chance[late]]))
    end_s = np.dot(ends_s[late], none_later[:-1] * chance[late]) + none_later[-1] * planned_end_s
    return float(end_s), float(arrive.sum())
