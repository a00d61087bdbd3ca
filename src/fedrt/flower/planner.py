"""The plans of a run in which clients train and one server averages them, round by round.

Nothing here knows Flower: a planner is told which devices are there and what they report.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedrt import quantities as q
from fedrt.decision.answer import plan_round
from fedrt.decision.state import BACKHAUL_FIELDS, load_data, read_state
from fedrt.errors import InputError
from fedrt.ledger import Ledger
from fedrt.policies import Policy, make_policy
from fedrt.system.files import write_json
from fedrt.validation import Rule, Whole

PREFIX = "fedrt."
"""What the names of orders begin with in a client's config record."""
REPORT = "fedrt"
"""The name of the record with a client's report in its reply."""
ORDERS = {
    "bandwidth_hz": "bandwidth-hz",
    "cpu_hz": "cpu-hz",
    "local_steps": "local-steps",
    "codec": "codec",
    "tx_power_w": "tx-power-w",
}
"""Fields of a device in a plan -> the names of the orders that they become."""
REPORTED: dict[str, Rule] = {"energy-j": q.BUDGET_J, "time-s": q.SECONDS, "snr-db": q.SNR_DB}
"""What a client may report of a round, beside numbers that are only kept."""

ROUNDS = Whole(1, 1_000_000)
FARTHEST_J = 1e15
"""No allowance is farther from 0, whatever clients report."""

Orders = dict[str, int | float | str]
Report = Mapping[str, float]


@dataclass(frozen=True)
class PlannedRound:
    """The plan of one round: its state, the answer of `fedrt plan`, and each device's orders."""

    number: int
    state: dict[str, Any]
    plan: dict[str, Any]
    orders: dict[int, Orders]
    """For each device that is to train."""
    energy_j: dict[int, float]
    """What the plan says that each of them spends."""


class Planner:
    """Plans round after round for the devices of a state, and charges what they spent.

    The state is one of `fedrt plan` without backhaul. Each device's `energy_allowance_j` is what it
    may spend in a round on average: what is left of `rounds` times that is divided over the rounds
    that are left.
    """

    def __init__(
        self,
        state: Mapping[str, Any] | str | Path,
        policy: str | Policy = "fedrt",
        rounds: int | None = None,
        out: str | Path | None = None,
    ) -> None:
        found: Any = load_data(state) if isinstance(state, str | Path) else state
        checked = read_state(found)
        for name in BACKHAUL_FIELDS:
            if name in found:
                raise InputError(f"state.{name}: must not be given, as Flower has one server")
        self.state: dict[str, Any] = copy.deepcopy({**found, "schema_version": 2})
        allowed_j = checked.books.allowance
        problems: list[str] = []
        if rounds is None and np.isfinite(allowed_j).any():
            problems.append("rounds: must be given where a device has an energy_allowance_j")
        count = ROUNDS.read(1 if rounds is None else rounds, "rounds", problems)
        if problems or count is None:
            raise InputError(problems)
        self.policy = make_policy(policy) if isinstance(policy, str) else policy
        self.out = None if out is None else Path(out)
        self.devices = [device for edge in self.state["edges"] for device in edge["devices"]]
        self.ledger = Ledger.open(allowed_j * count, len(self.state["edges"]), count, 1)
        self.round: PlannedRound | None = None

    def plan(self, present: Sequence[int]) -> PlannedRound:
        """The plan of the next round for the devices that are there, by their numbers."""
        state, members = self._state_of({*present})
        checked, numbers = read_state(state), [n for own in members for n in own]
        # Policies that remember earlier rounds know devices by their numbers.
        seen = replace(checked.seen, device=np.array(numbers, dtype=np.int64))
        plan = plan_round(replace(checked, seen=seen), self.policy)
        orders, energy_j = {}, {}
        for c, edge in enumerate(plan["edges"]):
            for n, device in zip(members[c], edge["devices"], strict=True):
                if device["trains"]:
                    orders[n] = self._orders(n, device, edge["time_s"])
                    energy_j[n] = device["energy_j"]
        self.round = PlannedRound(self.ledger.t + 1, state, plan, orders, energy_j)
        self._save("state", state)
        self._save("plan", plan)
        return self.round

    def _state_of(self, present: set[int]) -> tuple[dict[str, Any], list[list[int]]]:
        """The state of the next round, and for each edge the devices that are there."""
        allowance_j = np.clip(self.ledger.allowance_j("exact"), -FARTHEST_J, np.inf)
        for device, own_j in zip(self.devices, allowance_j.tolist(), strict=True):
            device["energy_allowance_j"] = own_j if own_j < np.inf else None
        edges, members, first = [], [], 0
        for edge in self.state["edges"]:
            numbers = range(first, first + len(edge["devices"]))
            members.append([n for n in numbers if n in present])
            listed = [dict(self.devices[n]) for n in members[-1]]
            edges.append({**edge, "elapsed_s": 0.0, "devices": listed})
            first = numbers.stop
        return {**self.state, "global_round": self.ledger.t, "edges": edges}, members

    def _orders(self, n: int, device: Mapping[str, Any], time_s: float) -> Orders:
        given = {name: device[field] for field, name in ORDERS.items() if device.get(field)}
        return {PREFIX + name: value for name, value in given.items()} | {
            f"{PREFIX}device": n,
            f"{PREFIX}time-s": time_s,
        }

    def charge(self, reports: Mapping[int, Report]) -> list[str]:
        """Charge a round: what devices report, and what was planned for those that do not.

        One line comes back for each report that cannot be right, which counts as none.
        """
        assert self.round is not None, "no round was planned"
        lines: list[str] = []
        spent_j = self.ledger.spent_j.copy()
        time_s = float(self.round.plan["round_time_s"])
        taken_s = []
        for n, planned_j in self.round.energy_j.items():
            report = _checked(reports.get(n, {}), f"device {n}", lines)
            spent_j[n] += report.get("energy-j", planned_j)
            if "time-s" in report:
                taken_s.append(report["time-s"])
            if "snr-db" in report and "snr_db" in self.devices[n]:
                self.devices[n]["snr_db"] = report["snr-db"]
        if len(taken_s) == len(self.round.energy_j) and taken_s:
            time_s = max(taken_s)
        ledger = self.ledger
        self.ledger = replace(
            ledger, spent_j=spent_j, time_s=ledger.time_s + time_s, t=ledger.t + 1
        )
        self._save("replies", {str(n): _finite(reports[n]) for n in sorted(reports)})
        self.round = None
        return lines

    def _save(self, name: str, value: Mapping[str, Any]) -> None:
        if self.out is not None and self.round is not None:
            folder = self.out / f"round-{self.round.number:04}"
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / f"{name}.json", value)


def _checked(report: Report, whose: str, lines: list[str]) -> dict[str, float]:
    """The reported numbers that follow their rules."""
    right: dict[str, float] = {}
    for name in REPORTED.keys() & report.keys():
        before = len(lines)
        value = REPORTED[name].read(report[name], f"{whose}: {PREFIX}{name}", lines)
        if len(lines) == before:
            right[name] = value
    return right


def _finite(report: Report) -> dict[str, float | None]:
    return {name: value if np.isfinite(value) else None for name, value in report.items()}
