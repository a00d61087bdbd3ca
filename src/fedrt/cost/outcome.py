"""The outcome of an edge round by the cost model, where devices can fail or be slow.

The plan is made with what is known before the edge round; who falls silent, who is slow and who
misses the deadline shows on the way. docs/faults.md states the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.round import end_of_edge_round_s, idle_energy_j, price
from fedrt.plan import ROUNDING, Plan
from fedrt.rounds import Outcome, as_planned
from fedrt.scenario import Scenario
from fedrt.world.faults import Failures
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Deadline:
    """When an edge server stops waiting: in seconds, or as a multiple of the median time."""

    seconds: float | None = None
    factor: float | None = None

    def of_edges(self, seen: Observation, planned_s: FloatArray, trained: BoolArray) -> FloatArray:
        """Each edge server's deadline in seconds from the start of the edge round; inf for none.

        The median is that of the times the plan gives those of the edge's devices that train.
        """
        if self.seconds is not None:
            return np.full(seen.num_edges, self.seconds)
        found = np.full(seen.num_edges, np.inf)
        if self.factor is None or not trained.any():
            return found
        edge, planned_s = seen.edge_of_device[trained], planned_s[trained]
        in_order = planned_s[np.lexsort((planned_s, edge))]
        size = np.bincount(edge, minlength=seen.num_edges)
        filled = size > 0
        first, size = (np.cumsum(size) - size)[filled], size[filled]
        middle = in_order[first + (size - 1) // 2] + in_order[first + size // 2]
        found[filled] = self.factor * middle / 2
        return found


@dataclass(frozen=True)
class FailureRules:
    """How long edge servers wait for updates, and how much energy a silent device spends."""

    deadline: Deadline = Deadline()
    silent_spends: str = "compute"
    """What a silent device spends: `nothing`, `compute` or `all`."""


def failure_rules(scenario: Scenario) -> FailureRules:
    """The deadline and the energy rule of a scenario."""
    faults = scenario.faults
    if faults is None:
        return FailureRules()
    return FailureRules(Deadline(faults.deadline_s, faults.deadline_factor), faults.silent_spends)


def simulate(
    plan: Plan, seen: Observation, failures: Failures | None, rules: FailureRules
) -> Outcome:
    """The outcome of a plan by the cost model, with the given failures if there are any."""
    if failures is None:
        return as_planned(plan, seen, price(plan, seen))
    return carry_out(plan, seen, failures, rules)


def carry_out(plan: Plan, seen: Observation, failures: Failures, rules: FailureRules) -> Outcome:
    """The outcome of a plan when devices fail or slow down. A pure function, like `price`.

    A straggler runs at its fraction of the planned frequency, and pays for that speed. A silent
    device trains (or not, or sends as well: `silent_spends`), and its server waits until its
    planned end. A device that has not finished at the deadline stops there and pays
    for what it did until then. An edge round ends when nothing more is awaited, at the deadline at
    the latest. A device that the plan leaves out neither fails nor is awaited.
    """
    planned = price(plan, seen)
    full = price(replace(plan, cpu_hz=plan.cpu_hz * failures.cpu_fraction), seen)
    trained = plan.trained
    silent = failures.silent & trained
    planned_s = planned.busy_s
    ends_s = rules.deadline.of_edges(seen, planned_s, trained)[seen.edge_of_device]
    through_s = full.busy_s
    late = trained & ~silent & (through_s > ends_s * (1 + ROUNDING))
    delivered = trained & ~silent & ~late

    computes = ~silent | (rules.silent_spends != "nothing")
    sends = ~silent | (rules.silent_spends == "all")
    cut = (late | silent) & (through_s > ends_s)
    download_s = np.where(cut, np.minimum(full.download_s, ends_s), full.download_s) * computes
    left_s = np.maximum(ends_s - full.download_s, 0.0)
    compute_s = np.where(cut, np.minimum(full.compute_s, left_s), full.compute_s) * computes
    left_s = np.maximum(ends_s - full.download_s - full.compute_s, 0.0)
    upload_s = np.where(cut, np.minimum(full.upload_s, left_s), full.upload_s) * sends
    delivered_s = end_of_edge_round_s(seen, np.where(delivered, through_s, 0.0), delivered)
    awaited_s = np.where(silent, np.minimum(planned_s, ends_s), np.where(late, ends_s, through_s))
    # Of a device that takes no time no part can be cut off.
    whole_compute_s = np.where(trained, full.compute_s, 1.0)
    whole_upload_s = np.where(trained, full.upload_s, 1.0)
    sent = upload_s / whole_upload_s
    whole_download_s = np.where(full.download_s > 0, full.download_s, 1.0)
    edge_time_s = np.maximum(end_of_edge_round_s(seen, awaited_s, trained), delivered_s)
    busy_s = np.where(computes, download_s + compute_s + upload_s, np.inf)
    cost = replace(
        full,
        compute_s=compute_s,
        upload_s=upload_s,
        compute_j=full.compute_j * (compute_s / whole_compute_s),
        upload_j=full.upload_j * sent,
        edge_time_s=edge_time_s,
        upload_bytes=full.upload_bytes * sent,
        download_s=download_s,
        download_j=full.download_j * (download_s / whole_download_s),
        idle_j=idle_energy_j(seen, busy_s, edge_time_s, trained),
    )
    return Outcome(seen.device, cost, planned, delivered, late, delivered_s, failures)
