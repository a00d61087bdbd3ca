"""One policy on one world: its time, energy and overspending, and which work it did.

Which of the two classes a policy belongs to on a world is read off its plans there. It did the same
work as the bound's plans if every device that was drawn trained the scenario's local steps and sent
all bits, and if its links connected the edge servers, kept the consensus limit and mixed as well as
rho asks in every global round. A time of other work stands beside no bound.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.bench.worlds import load_world
from fedrt.bound.distances import stand_in_distances
from fedrt.ledger import overspend_j
from fedrt.runs.loop import make_world
from fedrt.studies.bound import (
    REFERENCE,
    ROUNDING,
    PolicyRun,
    hindsight_contraction_limit,
    reachable_limit,
    run_policy,
    scenario_limit,
)
from fedrt.world.simulated import SimulatedWorld

FloatArray = NDArray[np.float64]

WORDS = {
    "left_out": "leaves devices out",
    "other_steps": "other local steps",
    "fewer_bits": "fewer bits",
    "unconnected": "links that do not connect",
    "over_consensus_limit": "over the consensus limit",
    "over_rho": "mixes less than rho",
}
"""What a policy may do differently from the bound's plans, and how tables say it."""


@dataclass(frozen=True)
class BenchWorld:
    """The world of one name and seed, with the limits by which a policy's work is judged."""

    world: SimulatedWorld
    distances: list[FloatArray]
    reference: PolicyRun
    """The run of the policy `fedrt`, which sets the limits."""
    rho: FloatArray | None
    limit_j: FloatArray
    """What a plan may spend on each device: its budget, or what `fedrt` spends beyond it."""


@lru_cache(maxsize=2)
def bench_world(name: str, seed: int) -> BenchWorld:
    """The world of a name and seed; the last ones are remembered."""
    world = make_world(load_world(name), seed)
    distances = stand_in_distances(world)
    reference = run_policy(world, REFERENCE, distances)
    budget_j = world.fleet.energy_budget_j
    over = overspend_j(reference.spent_j, budget_j) > 0
    wanted = hindsight_contraction_limit(scenario_limit(world.scenario), reference)
    return BenchWorld(
        world,
        distances,
        reference,
        reachable_limit(world, wanted),
        np.where(over, reference.spent_j, budget_j),
    )


def run_task(name: str, policy: str, seed: int) -> dict[str, Any]:
    """A policy's outcome on a world of a seed, as plain data."""
    at = bench_world(name, seed)
    began_s = time.process_time()
    run = run_policy(at.world, policy, at.distances)
    cpu_s = time.process_time() - began_s
    over_j = overspend_j(run.spent_j, at.world.fleet.energy_budget_j)
    limit = np.inf if at.rho is None else at.rho * (1 + ROUNDING)
    return {
        "policy": policy,
        "name": run.own_name,
        "time_s": run.time_s,
        "energy_j_mean": float(run.spent_j.mean()),
        "over_budget_devices": int((over_j > 0).sum()),
        "over_budget_j": float(over_j.sum()),
        "over_limit_devices": int((overspend_j(run.spent_j, at.limit_j) > 0).sum()),
        **run.work,
        "over_consensus_limit": run.unlinked_rounds,
        "over_rho": int((run.contraction > limit).sum()),
        "cpu_s": cpu_s,
    }


def other_work(outcome: Mapping[str, Any]) -> list[str]:
    """What a policy did differently from the bound's plans, in words; nothing for the same work."""
    return [words for name, words in WORDS.items() if outcome[name]]
