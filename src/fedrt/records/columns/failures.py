"""Failures in a run and their cost: columns of the tables, and totals for the summary.

In every edge round the devices that were to train are, each once, delivered, silent, late, refused,
absent or idle. Nothing here is written where the scenario has no `[faults]`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.graph import parts_of
from fedrt.plan import ROUNDING
from fedrt.rounds import REASONS, RoundCost
from fedrt.runs.rounds import EdgeRound, GlobalRound
from fedrt.world.faults import Failures

Columns = dict[str, Any]
IntArray = NDArray[np.int64]

COUNTS = ("expected", "delivered", "silent", "late", "refused", "absent", "idle")
MOST_NAMED = 100
"""Refused updates that a summary names one by one."""


def arrived(turn: EdgeRound) -> RoundCost:
    """The cost with only the times of devices that delivered, and when the last of them did."""
    came = turn.outcome.delivered
    return replace(
        turn.cost,
        download_s=np.where(came, turn.cost.download_s, 0.0),
        compute_s=np.where(came, turn.cost.compute_s, 0.0),
        upload_s=np.where(came, turn.cost.upload_s, 0.0),
        edge_time_s=turn.outcome.delivered_s,
    )


def failures_of(turn: EdgeRound) -> Failures:
    """The failures of an edge round, in a world that has faults."""
    assert turn.outcome.failures is not None
    return turn.outcome.failures


def counts(turn: EdgeRound) -> dict[str, IntArray]:
    """For each edge server, how many devices were to train and how many failed in which way."""
    failures, outcome = failures_of(turn), turn.outcome
    refused, trained = outcome.is_refused, turn.plan.trained

    def of(which: NDArray[np.bool_]) -> IntArray:
        return turn.seen.sum_by_edge(which.astype(np.float64)).astype(np.int64)

    return {
        "expected": failures.expected - of(~trained),
        "delivered": of(outcome.delivered & ~refused),
        "silent": of(failures.silent & trained),
        "late": of(outcome.late),
        "refused": of(refused),
        "absent": failures.absent,
        "idle": failures.idle,
    }


def wasted_j(turn: EdgeRound) -> float:
    """The joules that devices spent on updates that were not used."""
    counted = turn.outcome.delivered & ~turn.outcome.is_refused
    return float(turn.cost.energy_j[~counted].sum())


def planned_time_s(done: GlobalRound) -> float:
    """The seconds that the global round would have taken had everything gone as planned."""
    costs = [turn.outcome.planned for turn in done.edge_rounds]
    return float(np.max(np.sum([cost.edge_time_s + cost.backhaul_s for cost in costs], axis=0)))


def round_columns(done: GlobalRound) -> Columns:
    """The failure columns of one global round: counts of devices, what was down, what it cost."""
    failures = done.last.outcome.failures
    if failures is None:
        return {}
    each = [counts(turn) for turn in done.edge_rounds]
    columns = {name: np.array([sum(int(c[name].sum()) for c in each)]) for name in COUNTS}
    return columns | {
        "servers_down": np.array([int((~failures.server_up).sum())]),
        "links_down": np.array([failures.links_down]),
        "parts": np.array([parts_up(done)]),
        "wasted_j": np.array([sum(wasted_j(turn) for turn in done.edge_rounds)]),
        "planned_time_s": np.array([planned_time_s(done)]),
    }


def parts_up(done: GlobalRound) -> int:
    """The number of connected components among the servers that are up."""
    up = np.flatnonzero(failures_of(done.last).server_up)
    return len(parts_of(done.last.gossip.links[np.ix_(up, up)])) if len(up) else 0


def edge_columns(turn: EdgeRound) -> Columns:
    """The failure columns of one edge round, for every edge server."""
    failures = turn.outcome.failures
    if failures is None:
        return {}
    return {"up": failures.server_up} | counts(turn) | {"lost_s": turn.outcome.lost_s}


def device_columns(turn: EdgeRound) -> Columns:
    """The failure columns of one edge round, for every device that was there."""
    failures = turn.outcome.failures
    if failures is None:
        return {}
    became = np.full(turn.seen.num_devices, "delivered", dtype="U9")
    became[failures.silent] = "silent"
    became[turn.outcome.late] = "late"
    became[turn.outcome.is_refused] = "refused"
    became[~turn.plan.trained] = "left out"
    return {"cpu_fraction": failures.cpu_fraction, "outcome": became}


class FailureSums:
    """Totals of failures over a run."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(COUNTS, 0)
        self.straggling = self.server_rounds = self.link_rounds = self.rounds_in_parts = 0
        self.wasted_j = self.lost_s = self.beyond_plan_s = 0.0
        self.named: list[dict[str, Any]] = []

    def add(self, done: GlobalRound) -> None:
        """Add one global round to the totals."""
        for turn in done.edge_rounds:
            for name, count in counts(turn).items():
                self.counts[name] += int(count.sum())
            slowed = failures_of(turn).cpu_fraction < 1
            self.straggling += int((slowed & turn.plan.trained).sum())
            self.wasted_j += wasted_j(turn)
            self.lost_s += float(turn.outcome.lost_s.mean())
            self._name_refused(turn)
        failures = failures_of(done.last)
        self.server_rounds += int((~failures.server_up).sum())
        self.link_rounds += failures.links_down
        self.rounds_in_parts += parts_up(done) > 1
        planned_s = planned_time_s(done)
        # Rounding in adding up many rounds is no time that anybody waited.
        if abs(done.time_s - planned_s) > ROUNDING * planned_s:
            self.beyond_plan_s += done.time_s - planned_s

    def _name_refused(self, turn: EdgeRound) -> None:
        reasons = turn.outcome.refused
        if reasons is None:
            return
        bad = np.flatnonzero(turn.outcome.is_refused)[: MOST_NAMED - len(self.named)]
        for n in bad.tolist():
            edge, device = int(turn.seen.edge_of_device[n]), int(turn.seen.device[n])
            where = {"global_round": turn.t, "edge_round": turn.r, "edge": edge, "device": device}
            self.named.append(where | {"reason": REASONS[int(reasons[n])]})

    def summary(self) -> dict[str, Any]:
        """The failures of the run and what they cost, for its summary."""
        return {
            "updates": dict(self.counts),
            "straggling": self.straggling,
            "server_rounds_down": self.server_rounds,
            "link_rounds_down": self.link_rounds,
            "rounds_in_parts": self.rounds_in_parts,
            "wasted_j": self.wasted_j,
            "lost_s": self.lost_s,
            "beyond_plan_s": self.beyond_plan_s,
            "refused": self.named,
        }
