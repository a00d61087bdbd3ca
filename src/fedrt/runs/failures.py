"""What failed in a run and what it cost: columns of the tables, and sums for the summary.

In every edge round the devices that were to train are, each once, delivered, silent, late, refused,
absent or idle. Nothing here is written where the scenario has no `[faults]`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.round import RoundCost
from fedrt.graph import parts_of
from fedrt.plan import ROUNDING
from fedrt.turns import REASONS, EdgeRound, GlobalRound

Columns = dict[str, Any]
IntArray = NDArray[np.int64]

COUNTS = ("expected", "delivered", "silent", "late", "refused", "absent", "idle")
MOST_NAMED = 100
"""Refused updates that a summary names one by one."""


def arrived(turn: EdgeRound) -> RoundCost:
    """The cost with only those devices' times that delivered, and when the last of them did."""
    if turn.outcome is None:
        return turn.cost
    came = turn.outcome.delivered
    return replace(
        turn.cost,
        compute_s=np.where(came, turn.cost.compute_s, 0.0),
        upload_s=np.where(came, turn.cost.upload_s, 0.0),
        edge_time_s=turn.outcome.delivered_s,
    )


def counts(turn: EdgeRound, done: GlobalRound) -> dict[str, IntArray]:
    """Per edge: how many devices were to train, and what became of them."""
    failures, outcome = turn.failures, turn.outcome
    assert failures is not None
    assert outcome is not None
    refused = is_refused(turn, done)

    def of(which: NDArray[np.bool_]) -> IntArray:
        return turn.seen.sum_by_edge(which.astype(np.float64)).astype(np.int64)

    return {
        "expected": failures.expected,
        "delivered": of(outcome.delivered & ~refused),
        "silent": of(outcome.silent),
        "late": of(outcome.late),
        "refused": of(refused),
        "absent": failures.absent,
        "idle": failures.idle,
    }


def is_refused(turn: EdgeRound, done: GlobalRound) -> NDArray[np.bool_]:
    """Per device of the turn: whether its update was refused."""
    return np.isin(turn.who, done.refused[done.refused[:, 0] == turn.r, 1])


def wasted_j(turn: EdgeRound, done: GlobalRound) -> float:
    """Joules that devices spent on updates that did not count."""
    counted = turn.delivered & ~is_refused(turn, done)
    return float(turn.cost.energy_j[~counted].sum())


def planned_time_s(done: GlobalRound) -> float:
    """Seconds that the global round would have taken by its plans."""
    costs = [turn.outcome.planned for turn in done.edge_rounds if turn.outcome is not None]
    return float(np.max(np.sum([cost.edge_time_s + cost.backhaul_s for cost in costs], axis=0)))


def round_columns(done: GlobalRound) -> Columns:
    """Of one global round: the devices by what became of them, what was down, what it cost."""
    failures = done.last.failures
    if failures is None:
        return {}
    each = [counts(turn, done) for turn in done.edge_rounds]
    columns = {name: np.array([sum(int(c[name].sum()) for c in each)]) for name in COUNTS}
    return columns | {
        "servers_down": np.array([int((~failures.server_up).sum())]),
        "links_down": np.array([failures.links_down]),
        "parts": np.array([parts_up(done)]),
        "wasted_j": np.array([sum(wasted_j(turn, done) for turn in done.edge_rounds)]),
        "planned_time_s": np.array([planned_time_s(done)]),
    }


def parts_up(done: GlobalRound) -> int:
    """In how many parts the servers that are up mix."""
    assert done.last.failures is not None
    assert done.last.plan.topology is not None
    up = np.flatnonzero(done.last.failures.server_up)
    return len(parts_of(done.last.plan.topology[np.ix_(up, up)])) if len(up) else 0


def edge_columns(turn: EdgeRound, done: GlobalRound) -> Columns:
    """Of one edge round of every edge."""
    if turn.failures is None or turn.outcome is None:
        return {}
    up = {"up": turn.failures.server_up}
    return up | counts(turn, done) | {"lost_s": turn.outcome.lost_s}


def device_columns(turn: EdgeRound, done: GlobalRound) -> Columns:
    """Of one edge round of every device that was there to train."""
    if turn.failures is None or turn.outcome is None:
        return {}
    became = np.full(len(turn.who), "delivered", dtype="U9")
    became[turn.outcome.silent] = "silent"
    became[turn.outcome.late] = "late"
    became[is_refused(turn, done)] = "refused"
    return {"cpu_fraction": turn.failures.cpu_fraction, "outcome": became}


class FailureSums:
    """Sums over a run."""

    def __init__(self, edge_of_device: IntArray) -> None:
        self.edge_of_device = edge_of_device
        self.counts = dict.fromkeys(COUNTS, 0)
        self.straggling = self.server_rounds = self.link_rounds = self.rounds_in_parts = 0
        self.wasted_j = self.lost_s = self.beyond_plan_s = 0.0
        self.named: list[dict[str, Any]] = []

    def add(self, done: GlobalRound) -> None:
        """Take in one global round."""
        for turn in done.edge_rounds:
            assert turn.failures is not None
            assert turn.outcome is not None
            for name, count in counts(turn, done).items():
                self.counts[name] += int(count.sum())
            self.straggling += int((turn.failures.cpu_fraction < 1).sum())
            self.wasted_j += wasted_j(turn, done)
            self.lost_s += float(turn.outcome.lost_s.mean())
        failures = done.last.failures
        assert failures is not None
        self.server_rounds += int((~failures.server_up).sum())
        self.link_rounds += failures.links_down
        self.rounds_in_parts += parts_up(done) > 1
        planned_s = planned_time_s(done)
        # Rounding in adding up many rounds is no time that anybody waited.
        if abs(done.time_s - planned_s) > ROUNDING * planned_s:
            self.beyond_plan_s += done.time_s - planned_s
        for r, device, reason in done.refused[: MOST_NAMED - len(self.named)].tolist():
            edge = int(self.edge_of_device[device])
            where = {"global_round": done.last.t, "edge_round": r, "edge": edge, "device": device}
            self.named.append(where | {"reason": REASONS[reason]})

    def summary(self) -> dict[str, Any]:
        """What failed and what it cost, for the summary of the run."""
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
