"""Columns of runs on real devices: what was predicted, beside what was measured.

Nothing here is written where the world is simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.records.columns.failures import planned_time_s
from fedrt.rounds import RoundCost
from fedrt.runs.rounds import EdgeRound, GlobalRound

Columns = dict[str, Any]
FloatArray = NDArray[np.float64]


def round_measured(done: GlobalRound) -> Columns:
    """The columns of one global round: sums over its edge rounds and devices."""
    turns = done.edge_rounds
    if not done.last.outcome.measured:
        return {}
    planned = [turn.outcome.planned for turn in turns]
    return {
        "planned_time_s": np.array([planned_time_s(done)]),
        "clock_s": np.array([sum(turn.outcome.clock_s or 0.0 for turn in turns)]),
        "planned_clock_s": np.array(
            [by_the_clock_s(planned) + sum(t.outcome.planned_overhead_s or 0.0 for t in turns)]
        ),
        "planned_upload_bytes": np.array([sum(cost.upload_bytes.sum() for cost in planned)]),
        "energy_j": np.array([sum(turn.cost.energy_j.sum() for turn in turns)]),
        "planned_energy_j": np.array([sum(cost.energy_j.sum() for cost in planned)]),
        "expected": np.array([sum(int(turn.plan.trained.sum()) for turn in turns)]),
        "delivered": np.array([sum(int(turn.outcome.delivered.sum()) for turn in turns)]),
    }


def by_the_clock_s(costs: Sequence[RoundCost]) -> float:
    """The seconds of a global round by the clock, where all edge servers wait for each other.

    On real devices they do, after every edge round and before they gossip; the cost model lets
    each go on by itself.
    """
    return float(sum(cost.edge_time_s.max() for cost in costs) + costs[-1].backhaul_s.max())


def edge_measured(turn: EdgeRound) -> Columns:
    """The columns of one edge round, for every edge server."""
    if not turn.outcome.measured:
        return {}
    by_edge, outcome = turn.seen.sum_by_edge, turn.outcome
    unknown = np.full(turn.seen.num_edges, np.nan)  # in a run that an older version began
    return {
        "edge_time_s": outcome.cost.edge_time_s,
        "planned_edge_time_s": outcome.planned.edge_time_s,
        "planned_backhaul_s": outcome.planned.backhaul_s,
        "enforce_s": unknown if outcome.enforce_s is None else outcome.enforce_s,
        "expected": by_edge(turn.plan.trained.astype(np.float64)).astype(np.int64),
        "delivered": by_edge(outcome.delivered.astype(np.float64)).astype(np.int64),
    }


def device_measured(turn: EdgeRound) -> Columns:
    """The columns of one edge round, for every device."""
    outcome, planned = turn.outcome, turn.outcome.planned
    if not outcome.measured:
        return {}
    count = turn.seen.num_devices
    became = np.full(count, "delivered", dtype="U9")
    became[outcome.late] = "late"
    became[outcome.is_refused] = "refused"
    became[~turn.plan.trained] = "left out"
    return {
        "download_s": turn.cost.download_s,
        "planned_compute_s": planned.compute_s,
        "planned_upload_s": planned.upload_s,
        "planned_upload_bytes": planned.upload_bytes,
        "planned_energy_j": planned.energy_j,
        "metered": np.zeros(count, dtype=bool) if outcome.metered is None else outcome.metered,
        "outcome": became,
    }


def overhead_s(turn: EdgeRound, slowest_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What a measured edge round takes beyond its slowest device, and waiting for late ones.

    For every edge server: seconds of orders on the way, checks, averages and saving; and, where a
    device was late, from the last update to the deadline.
    """
    outcome = turn.outcome
    is_late = turn.seen.sum_by_edge(outcome.late.astype(np.float64)) > 0
    waiting_s = np.where(is_late, outcome.lost_s, 0.0)
    return np.maximum(outcome.cost.edge_time_s - waiting_s - slowest_s, 0.0), waiting_s
