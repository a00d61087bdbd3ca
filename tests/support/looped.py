"""Global rounds of a scenario in its simulated world."""

from __future__ import annotations

from fedrt.policies import make_policy
from fedrt.runs.loop import simulate_rounds
from fedrt.runs.rounds import GlobalRound
from fedrt.world.simulated import SimulatedWorld


def run(scenario, policy="fedrt") -> list[GlobalRound]:
    chosen = make_policy(policy) if isinstance(policy, str) else policy
    return list(simulate_rounds(SimulatedWorld(scenario, 0), chosen))
