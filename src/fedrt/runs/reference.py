"""FedRT run beside another policy, round by round, on the same world with books of its own.

A policy may want to be held against FedRT: what it would have spent and how far it would be by now,
and how well its gossip mixes. All of it comes from rounds that have been seen: a plan of FedRT for
the coming edge round is made from what everybody sees before it, and what became of it is charged
after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.control.mixing import mixing_of, slowest_contraction
from fedrt.control.slowness import SlownessSeen
from fedrt.cost.outcome import Deadline, Outcome, carry_out
from fedrt.cost.round import RoundCost, global_round_time_s, price
from fedrt.ledger import Ledger, PartOfBooks, ReferenceRound
from fedrt.plan import Plan
from fedrt.policies.base import Policy, uses_contraction_limit, uses_reference
from fedrt.policies.fedrt import FedRT
from fedrt.scenario import Scenario
from fedrt.world.faults import Failures
from fedrt.world.observation import Observation
from fedrt.world.world import World

FloatArray = NDArray[np.float64]

LEAST_RHO = 1e-9


def carry_out_plan(
    world: World, plan: Plan, seen: Observation, failures: Failures | None
) -> tuple[RoundCost, Outcome | None]:
    """What a plan costs, and in a world where devices fail what became of it."""
    faults = world.scenario.faults
    if faults is None or failures is None:
        return price(plan, seen), None
    deadline = Deadline(faults.deadline_s, faults.deadline_factor)
    late = (failures.silent, failures.cpu_fraction, deadline)
    outcome = carry_out(plan, seen, *late, faults.silent_spends)
    return outcome.cost, outcome


def charge(ledger: Ledger, who: NDArray[np.int64], cost: RoundCost) -> Ledger:
    """The books after an edge round in which these devices took part."""
    energy_j = np.zeros_like(ledger.spent_j)
    energy_j[who] = cost.energy_j
    return ledger.charge(energy_j, cost.edge_time_s, cost.backhaul_s)


@dataclass
class Reference:
    """FedRT in the same world, what its gossip leaves, and who was slow."""

    ledger: Ledger
    slowness: SlownessSeen
    contraction: float = 1.0
    """zeta^psi of its plan for the last edge round that it has planned."""

    def take_turn(
        self, world: World, who: NDArray[np.int64], seen: Observation, failures: Failures | None
    ) -> ReferenceRound:
        """Plan and charge the coming edge round; what of it is known before it begins."""
        before, faults = self.ledger, world.scenario.faults
        plan = FedRT().plan(seen, PartOfBooks(before, who))
        cost, _ = carry_out_plan(world, plan, seen, failures)
        self.ledger = charge(before, who, cost)
        found = reference_round(before, who, seen, plan, world.scenario.control.mixing)
        self.contraction = found.contraction
        if faults is None or faults.straggler is None or failures is None:
            return found
        expected = self.slowness.expected(who, Deadline(faults.deadline_s, faults.deadline_factor))
        # Late devices report too, silent ones do not.
        heard = ~failures.silent
        self.slowness.add(who[heard], 1.0 / failures.cpu_fraction[heard])
        return replace(found, slowness=expected)


def reference_round(
    before: Ledger, who: NDArray[np.int64], seen: Observation, plan: Plan, mixing: str
) -> ReferenceRound:
    """What is known of a plan of FedRT, whose books are `before`, when the edge round begins.

    `mixing` is the rule for the weights of its gossip. Nothing is known to fail.
    """
    planned, end_s, contraction = price(plan, seen), np.inf, 1.0
    if plan.topology is not None:
        end_s = global_round_time_s(before.elapsed_s, planned)
        zeta = slowest_contraction(mixing_of(plan, mixing), plan.topology)
        # A graph that averages exactly leaves nothing; a limit has to stay above rounding.
        contraction = min(1.0, max(zeta**plan.gossip_steps, LEAST_RHO))
    return ReferenceRound(
        spent_j=before.spent_j[who],
        bandwidth_hz=plan.bandwidth_hz,
        cpu_hz=plan.cpu_hz,
        energy_j=planned.energy_j,
        allowance_j=before.allowance_j(FedRT().energy_horizon)[who],
        elapsed_s=before.elapsed_s + planned.edge_time_s,
        end_s=end_s,
        time_s=before.time_s,
        topology=plan.topology,
        contraction=contraction,
        slowness=None,
    )


def reference_for(policy: Policy, world: World, ledger: Ledger) -> Reference | None:
    """FedRT beside a policy that asks for it, or for its contraction; the books are still empty."""
    own_limit = uses_contraction_limit(policy) and isinstance(
        world.scenario.control.contraction_limit, str
    )
    if not (own_limit or uses_reference(policy)):
        return None
    return Reference(ledger, SlownessSeen.nothing(len(ledger.spent_j)))


def contraction_limit(scenario: Scenario, reference: Reference | None) -> float:
    """Rho of the coming round: the scenario's, or what FedRT's own plan for it leaves."""
    given = scenario.control.contraction_limit
    if not isinstance(given, str):
        return given
    assert reference is not None
    return reference.contraction
