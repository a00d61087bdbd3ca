"""What an edge round really took where devices fail: seconds and joules of what happened.

The plan is made with what is known before the edge round; who falls silent, who is slow and who
misses the deadline shows on the way. docs/faults.md states the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.round import RoundCost, price
from fedrt.plan import ROUNDING, Plan
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Deadline:
    """When an edge server stops waiting: after so many seconds, or a multiple of the median."""

    seconds: float | None = None
    factor: float | None = None

    def of_edges(self, seen: Observation, planned_s: FloatArray) -> FloatArray:
        """Per edge, in seconds from its edge round's start; inf where there is none.

        The median is that of the times the plan gives the edge's devices.
        """
        if self.seconds is not None:
            return np.full(seen.num_edges, self.seconds)
        found = np.full(seen.num_edges, np.inf)
        if self.factor is None or not seen.num_devices:
            return found
        filled = seen.cluster_size > 0
        in_order = planned_s[np.lexsort((planned_s, seen.edge_of_device))]
        first, size = seen.first_device[:-1][filled], seen.cluster_size[filled]
        middle = in_order[first + (size - 1) // 2] + in_order[first + size // 2]
        found[filled] = self.factor * middle / 2
        return found


@dataclass(frozen=True)
class Outcome:
    """How an edge round went; `silent`, `late` and `delivered` are every device once."""

    cost: RoundCost
    """What is charged."""
    planned: RoundCost
    """What the plan would have cost, had nothing failed."""
    silent: BoolArray
    late: BoolArray
    delivered: BoolArray
    delivered_s: FloatArray
    """Per edge: when its last update arrived; 0 where none did."""

    @property
    def lost_s(self) -> FloatArray:
        """Per edge: seconds that it waited for devices that failed, after its last update."""
        return self.cost.edge_time_s - self.delivered_s


def carry_out(
    plan: Plan,
    seen: Observation,
    silent: BoolArray,
    cpu_fraction: FloatArray,
    deadline: Deadline,
    silent_spends: str = "compute",
) -> Outcome:
    """What happens when a plan meets what fails. Pure, like `price`.

    A straggler runs at its fraction of the planned frequency, and pays for that speed. A silent
    device trains (or not, or sends as well: `silent_spends`), and its server waits until the plan
    said that it would be through. A device that is not through at the deadline stops there and pays
    for what it did until then. An edge round ends when nothing more is awaited, at the deadline at
    the latest.
    """
    planned = price(plan, seen)
    slowed = replace(plan, cpu_hz=plan.cpu_hz * cpu_fraction)
    full = price(slowed, seen)
    planned_s = planned.compute_s + planned.upload_s
    ends_s = deadline.of_edges(seen, planned_s)[seen.edge_of_device]
    through_s = full.compute_s + full.upload_s
    late = ~silent & (through_s > ends_s * (1 + ROUNDING))
    delivered = ~silent & ~late

    trains = ~silent | (silent_spends != "nothing")
    sends = ~silent | (silent_spends == "all")
    cut = (late | silent) & (through_s > ends_s)
    compute_s = np.where(cut, np.minimum(full.compute_s, ends_s), full.compute_s) * trains
    left_s = np.maximum(ends_s - full.compute_s, 0.0)
    upload_s = np.where(cut, np.minimum(full.upload_s, left_s), full.upload_s) * sends
    delivered_s = seen.max_by_edge(np.where(delivered, through_s, 0.0))
    awaited_s = np.where(silent, np.minimum(planned_s, ends_s), np.where(late, ends_s, through_s))
    cost = replace(
        full,
        compute_s=compute_s,
        upload_s=upload_s,
        compute_j=full.compute_j * (compute_s / full.compute_s),
        upload_j=full.upload_j * (upload_s / full.upload_s),
        edge_time_s=np.maximum(seen.max_by_edge(awaited_s), delivered_s),
    )
    return Outcome(cost, planned, silent, late, delivered, delivered_s)
