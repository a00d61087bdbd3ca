"""The ledger of a run: what has been spent, and what policies may know of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrt.arrays import freeze_arrays
from fedrt.rounds import Outcome

if TYPE_CHECKING:
    from fedrt.control.pacing.slowness import Slowness
    from fedrt.cost.outcome import Deadline

FloatArray = NDArray[np.float64]

Horizon = Literal["paper", "exact"]

# Spending beyond an allowance by no more than this fraction is rounding and counts as within it.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Pace:
    """What is left of each budget and for how many edge rounds, for policies that pace energy.

    One entry per device that takes part in the coming edge round.
    """

    device: NDArray[np.int64]
    """Its number in the fleet."""
    fleet_size: int
    budget_j: FloatArray
    """For the whole run; inf = no limit."""
    spent_j: FloatArray
    rounds_left: FloatArray
    """Edge rounds that it still expects to train in, the coming one included."""
    most_rounds_left: int
    """Edge rounds of the run that are left, the coming one included."""
    t: int
    r: int
    edge_rounds: int
    time_s: float
    """Seconds of all finished global rounds."""
    is_measured: bool = False
    """Whether seconds and joules are those of real devices, which plans predict nearly."""

    @property
    def left_j(self) -> FloatArray:
        """The joules left of each budget; inf for no limit, negative after overspending."""
        return self.budget_j - self.spent_j


@dataclass(frozen=True)
class ReferenceRound:
    """The state of the reference policy `fedrt` in the same world, and its plan for this round.

    FedRT is run beside a policy that asks for it, on the same rounds with books of its own, so that
    the policy can be held against it. Nothing in here has not been seen yet.
    """

    spent_j: FloatArray
    """Per device that takes part: what FedRT has spent on it before the coming edge round."""
    bandwidth_hz: FloatArray
    """Per device that takes part, as its plan for the coming edge round has it; so is `cpu_hz`."""
    cpu_hz: FloatArray
    energy_j: FloatArray
    """Per device that takes part: what that plan takes."""
    allowance_j: FloatArray
    """Per device that takes part: what FedRT allows it."""
    elapsed_s: FloatArray
    """Per edge: seconds from the start of its global round to the end of the coming edge round."""
    end_s: float
    """Seconds from the start of its global round to its end; inf before the last edge round."""
    time_s: float
    """Seconds of all its finished global rounds."""
    links: NDArray[np.bool_] | None
    """The links that it uses in the last edge round."""
    contraction: float
    """What its gossip over them leaves of the servers' distance to their average; 1 before."""
    slowness: Slowness | None
    """What past reports predict about devices that compute more slowly than planned;
    None where the scenario has none such."""
    tx_power_w: FloatArray | None = None
    """The radios' powers in its plan; None: full power."""
    deadline: Deadline | None = None
    """When servers stop waiting for devices; None: never."""

    def __post_init__(self) -> None:
        freeze_arrays(self)


class Books(Protocol):
    """What a policy may know of the past: allowances, elapsed time, pace, and the reference."""

    @property
    def elapsed_s(self) -> FloatArray:
        """For each edge server, the seconds since this global round began."""
        ...

    def allowance_j(self, horizon: Horizon) -> FloatArray:
        """The joules each device may spend in the coming edge round; inf for no limit.

        They may be zero or negative after overspending.
        """
        ...

    def pace(self, horizon: Horizon) -> Pace | None:
        """What is left for the rest of the run; None where only the allowance is known."""
        ...

    @property
    def reference(self) -> ReferenceRound | None:
        """The reference policy's state; None unless the policy needs it."""
        ...


@dataclass(frozen=True)
class GivenAllowance:
    """The allowances and elapsed times of a single decision, as given from outside."""

    allowance: FloatArray
    elapsed_s: FloatArray

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def allowance_j(self, horizon: Horizon) -> FloatArray:
        return self.allowance

    def pace(self, horizon: Horizon) -> None:
        return None

    @property
    def reference(self) -> None:
        return None


@dataclass(frozen=True)
class PartOfBooks:
    """The ledger as seen by a policy: only the devices that take part in the edge round."""

    ledger: Ledger
    who: NDArray[np.int64]
    reference: ReferenceRound | None = None

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def elapsed_s(self) -> FloatArray:
        return self.ledger.elapsed_s

    def allowance_j(self, horizon: Horizon) -> FloatArray:
        return self.ledger.allowance_j(horizon)[self.who]

    def pace(self, horizon: Horizon) -> Pace:
        ledger = self.ledger
        return Pace(
            device=self.who,
            fleet_size=len(ledger.budget_j),
            budget_j=ledger.budget_j[self.who],
            spent_j=ledger.spent_j[self.who],
            rounds_left=ledger.rounds_left(horizon)[self.who],
            most_rounds_left=(ledger.global_rounds - ledger.t) * ledger.edge_rounds - ledger.r,
            t=ledger.t,
            r=ledger.r,
            edge_rounds=ledger.edge_rounds,
            time_s=ledger.time_s,
            is_measured=ledger.is_measured,
        )


@dataclass(frozen=True)
class Ledger:
    """What every device has spent, and the time, before edge round r of global round t.

    Charging returns a new ledger.
    """

    budget_j: FloatArray
    """The joules each device may spend in the whole run; inf means no limit."""
    spent_j: FloatArray
    elapsed_s: FloatArray
    """Per edge: seconds since this global round began."""
    time_s: float
    """Seconds of all finished global rounds."""
    global_rounds: int
    edge_rounds: int
    participation: FloatArray
    """Per device: the share of edge rounds that it takes part in, on average."""
    t: int = 0
    r: int = 0
    is_measured: bool = False
    """Whether what was charged last was measured on real devices."""
    forced_horizon: Horizon | None = None
    """The horizon that the scenario sets for all policies, if it does."""

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @staticmethod
    def open(
        budget_j: FloatArray,
        num_edges: int,
        global_rounds: int,
        edge_rounds: int,
        forced_horizon: Horizon | None = None,
        participation: FloatArray | None = None,
    ) -> Ledger:
        """The ledger before the first round, with nothing spent."""
        return Ledger(
            budget_j=budget_j,
            spent_j=np.zeros_like(budget_j),
            elapsed_s=np.zeros(num_edges),
            time_s=0.0,
            global_rounds=global_rounds,
            edge_rounds=edge_rounds,
            participation=np.ones_like(budget_j) if participation is None else participation,
            forced_horizon=forced_horizon,
        )

    def going_on(self, before: Ledger) -> Ledger:
        """The same ledger with what was spent in the global rounds of another one before it."""
        return replace(self, spent_j=before.spent_j, time_s=before.time_s, t=before.t)

    @property
    def in_last_edge_round(self) -> bool:
        """Whether the coming edge round ends a global round, with gossip."""
        return self.r + 1 == self.edge_rounds

    @property
    def left_j(self) -> FloatArray:
        """For each device, the joules left of its budget; negative after overspending."""
        return self.budget_j - self.spent_j

    @property
    def overspent_j(self) -> FloatArray:
        """For each device, the joules spent beyond its budget."""
        return overspend_j(self.spent_j, self.budget_j)

    def allowance_j(self, horizon: Horizon) -> FloatArray:
        """For each device, the joules it may spend in the coming edge round: what is left, divided.

        It is divided by the number of edge rounds in which the device can expect to train.
        """
        return self.left_j / self.rounds_left(horizon)

    def rounds_left(self, horizon: Horizon) -> FloatArray:
        """For each device, the edge rounds it can expect to train in, the coming one included.

        The paper counts (T - t) R + R - r of them, a global round more than there are, so energy
        stays unspent; the exact count is (T - t) R - r.
        """
        horizon = self.forced_horizon or horizon
        left = (self.global_rounds - self.t) * self.edge_rounds - self.r
        if horizon == "paper":
            left += self.edge_rounds
        return np.maximum(1.0, 1.0 + (left - 1) * self.participation)

    def charge(self, outcome: Outcome) -> Ledger:
        """The ledger after an edge round with the given outcome.

        After the last edge round of a global round all edge servers wait for the slowest.
        """
        cost = outcome.cost
        energy_j = np.zeros_like(self.spent_j)
        energy_j[outcome.device] = cost.energy_j
        spent_j = self.spent_j + energy_j
        elapsed_s = self.elapsed_s + cost.edge_time_s + cost.backhaul_s
        charged = replace(self, spent_j=spent_j, is_measured=outcome.clock_s is not None)
        if not self.in_last_edge_round:
            return replace(charged, elapsed_s=elapsed_s, r=self.r + 1)
        return replace(
            charged,
            elapsed_s=np.zeros_like(elapsed_s),
            time_s=self.time_s + float(elapsed_s.max()),
            t=self.t + 1,
            r=0,
        )


def overspend_j(energy_j: FloatArray, allowance_j: FloatArray) -> FloatArray:
    """The joules beyond what was allowed; 0 if within it, up to rounding."""
    over = energy_j - allowance_j
    return np.where(over > ROUNDING * np.maximum(energy_j, np.abs(allowance_j)), over, 0.0)
