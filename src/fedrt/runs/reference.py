"""The reference: the policy `fedrt`, run in the same world beside another policy.

A policy may want to be held against FedRT: what it would have spent and how far it would be by now,
and how well its gossip mixes. All of it comes from rounds that have been seen: a plan of FedRT for
the coming edge round is made from what everybody sees before it, and what became of it is charged
after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.control.mixing.weights import mixing_of, slowest_contraction
from fedrt.control.pacing.slowness import SlownessSeen
from fedrt.cost.outcome import Deadline, failure_rules, simulate
from fedrt.cost.round import global_round_time_s, price
from fedrt.ledger import Ledger, PartOfBooks, ReferenceRound
from fedrt.plan import Plan
from fedrt.policies.base import CONTRACTION_LIMIT, REFERENCE, Needs
from fedrt.policies.fedrt import FedRT
from fedrt.scenario import Scenario
from fedrt.world.faults import Failures
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

LEAST_RHO = 1e-9


@dataclass(frozen=True)
class Reference:
    """The policy `fedrt` in the same world: its ledger, its contraction, and slow devices."""

    scenario: Scenario
    ledger: Ledger
    slowness: SlownessSeen
    contraction: float = 1.0
    """zeta^psi of its plan for the last edge round that it has planned."""
    planned: Plan | None = None
    """Its plan for the present edge round; None between two of them."""

    def plan(self, seen: Observation) -> tuple[Reference, ReferenceRound]:
        """The reference with its plan for the coming edge round, and what is known of it before."""
        planned = FedRT().plan(seen, PartOfBooks(self.ledger, seen.device))
        found = reference_round(self.ledger, seen, planned, self.scenario.control.mixing)
        after = replace(self, planned=planned, contraction=found.contraction)
        deadline = failure_rules(self.scenario).deadline
        if not self._has_stragglers:
            return after, found if deadline == Deadline() else replace(found, deadline=deadline)
        slowness = self.slowness.expected(seen.device, deadline)
        return after, replace(found, deadline=deadline, slowness=slowness)

    def after(self, seen: Observation, failures: Failures | None) -> Reference:
        """The reference after the edge round, once it is known which devices failed."""
        if self.planned is None:  # a round that is not planned again
            return self
        outcome = simulate(self.planned, seen, failures, failure_rules(self.scenario))
        slowness = self.slowness
        if self._has_stragglers and failures is not None:
            # Late devices report too, silent ones do not.
            heard = ~failures.silent
            slowness = slowness.add(seen.device[heard], 1.0 / failures.cpu_fraction[heard])
        return replace(self, ledger=self.ledger.charge(outcome), slowness=slowness, planned=None)

    @property
    def _has_stragglers(self) -> bool:
        faults = self.scenario.faults
        return faults is not None and faults.straggler is not None


def reference_round(before: Ledger, seen: Observation, plan: Plan, mixing: str) -> ReferenceRound:
    """What is known of a plan of `fedrt`, with the ledger `before`, when the edge round begins.

    `mixing` is the rule for the weights of its gossip. Nothing is known to fail.
    """
    planned, end_s, contraction = price(plan, seen), np.inf, 1.0
    who, gossip = seen.device, plan.gossip
    if gossip is not None:
        end_s = global_round_time_s(before.elapsed_s, planned)
        zeta = slowest_contraction(mixing_of(gossip, mixing), gossip.links)
        # A graph that averages exactly leaves nothing; a limit has to stay above rounding.
        contraction = min(1.0, max(zeta**gossip.steps, LEAST_RHO))
    return ReferenceRound(
        spent_j=before.spent_j[who],
        bandwidth_hz=plan.bandwidth_hz,
        cpu_hz=plan.cpu_hz,
        tx_power_w=plan.tx_power_w,
        energy_j=planned.energy_j,
        allowance_j=before.allowance_j(FedRT().energy_horizon)[who],
        elapsed_s=before.elapsed_s + planned.edge_time_s,
        end_s=end_s,
        time_s=before.time_s,
        links=None if gossip is None else gossip.links,
        contraction=contraction,
        slowness=None,
    )


def reference_for(needs: Needs, scenario: Scenario, ledger: Ledger) -> Reference | None:
    """The reference for a policy that needs it or its contraction limit, else None."""
    its_limit = CONTRACTION_LIMIT in needs and isinstance(scenario.control.contraction_limit, str)
    if not (its_limit or REFERENCE in needs):
        return None
    return Reference(scenario, ledger, SlownessSeen.nothing(len(ledger.spent_j)))
