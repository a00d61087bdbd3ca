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
from numpy.typing import NDArray

from fedrt import quantities as q
from fedrt.cost.round import price
from fedrt.decision.answer import answer_of
from fedrt.decision.state import BACKHAUL_FIELDS, load_data, read_state
from fedrt.errors import InputError
from fedrt.ledger import Ledger
from fedrt.policies import Policy, make_policy
from fedrt.policies.base import CONTRACTION_LIMIT, ask, first_memory, needs_of
from fedrt.rounds import ModelDistances, RoundCost, as_planned
from fedrt.runs.belief import Belief
from fedrt.runs.least_codecs import LeastCodecs
from fedrt.runs.reference import reference_for
from fedrt.runs.state import RunState
from fedrt.runs.suspensions import Suspensions
from fedrt.scenario import Scenario, load_scenario
from fedrt.system.files import write_json
from fedrt.validation import Rule, Whole
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

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
        self.scenario = load_scenario("quickstart")  # only its control counts: the defaults
        self.run = _begun(
            self.policy, self.scenario, allowed_j * count, len(self.state["edges"]), count
        )
        self.round: PlannedRound | None = None

    @property
    def ledger(self) -> Ledger:
        """What has been spent up to now."""
        return self.run.ledger

    def plan(self, present: Sequence[int]) -> PlannedRound:
        """The plan of the next round for the devices that are there, by their numbers."""
        state, members = self._state_of({*present})
        checked, numbers = read_state(state), [n for own in members for n in own]
        # Policies that remember earlier rounds know devices by their numbers.
        seen = replace(checked.seen, device=np.array(numbers, dtype=np.int64))
        point = self.run.observe(OneServer(seen, self.scenario))
        decided, memory = ask(self.policy, point.seen, point.books, self.run.memory)
        # One server averages all clients: how models are mixed is its own affair.
        decided = replace(decided, gossip=None)
        plan = answer_of(replace(checked, seen=seen), self.policy, decided)
        orders, energy_j = {}, {}
        for c, edge in enumerate(plan["edges"]):
            for n, device in zip(members[c], edge["devices"], strict=True):
                if device["trains"]:
                    orders[n] = self._orders(n, device, edge["time_s"])
                    energy_j[n] = device["energy_j"]
        self.round = PlannedRound(self.ledger.t + 1, state, plan, orders, energy_j)
        self._decision = (point, decided, memory)
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
        point, plan, memory = self._decision
        planned = price(plan, point.seen)
        energy_j, taken_s = planned.energy_j.copy(), []
        for i, n in enumerate(point.seen.device.tolist()):
            if n not in self.round.energy_j:
                continue
            report = _checked(reports.get(n, {}), f"device {n}", lines)
            energy_j[i] = report.get("energy-j", energy_j[i])
            if "time-s" in report:
                taken_s.append(report["time-s"])
            if "snr-db" in report and "snr_db" in self.devices[n]:
                self.devices[n]["snr_db"] = report["snr-db"]
        clock_s = max(taken_s) if len(taken_s) == len(self.round.energy_j) and taken_s else None
        outcome = replace(
            as_planned(plan, point.seen, planned),
            cost=_charged(planned, energy_j, clock_s),
            clock_s=clock_s,
        )
        self.run = point.after(plan, outcome, memory)
        self._save("replies", {str(n): _finite(reports[n]) for n in sorted(reports)})
        self.round = None
        return lines

    def _save(self, name: str, value: Mapping[str, Any]) -> None:
        if self.out is not None and self.round is not None:
            folder = self.out / f"round-{self.round.number:04}"
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / f"{name}.json", value)


@dataclass(frozen=True)
class OneServer:
    """What a run observes where one server averages all clients.

    Models pass between base stations in no time, so that a round ends with the slowest of them.
    """

    seen: Observation
    scenario: Scenario
    gossip_latency_s: float = 0.0

    def observe(self, t: int, r: int) -> Observation:
        """The clients that are there."""
        return self.seen

    def backhaul_bps(self, t: int) -> FloatArray:
        """Links between all base stations."""
        return np.where(_everyone(self.seen.num_edges), np.inf, 0.0)


def _everyone(edges: int) -> NDArray[np.bool_]:
    return ~np.eye(edges, dtype=bool)


def _begun(
    policy: Policy, scenario: Scenario, budget_j: FloatArray, edges: int, rounds: int
) -> RunState:
    """The state before the first round; what is left is divided over the rounds that are left."""
    ledger, needs = Ledger.open(budget_j, edges, rounds, 1, "exact"), needs_of(policy)
    limit = scenario.control.contraction_limit
    return RunState(
        ledger,
        Belief.first(_everyone(edges), ModelDistances(np.zeros((edges, edges)))),
        LeastCodecs(np.zeros(len(budget_j), dtype=np.int64)),
        Suspensions.of(len(budget_j), 1),
        reference_for(needs, scenario, ledger),
        contraction_limit=limit if CONTRACTION_LIMIT in needs else None,
        memory=first_memory(policy, len(budget_j)),
    )


def _charged(planned: RoundCost, energy_j: FloatArray, clock_s: float | None) -> RoundCost:
    """The cost of a round with the joules that devices spent, and the seconds if all said so."""
    nothing, time_s = np.zeros_like(energy_j), planned.edge_time_s
    return replace(
        planned,
        compute_j=energy_j,
        upload_j=nothing,
        download_j=nothing,
        idle_j=nothing,
        edge_time_s=time_s if clock_s is None else np.full_like(time_s, clock_s),
    )


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
