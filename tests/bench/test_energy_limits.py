"""What a policy may spend in a world of the bench: the budget, or what `fedrt` spends beyond it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.tiny import tiny

from fedrt.bench import outcomes
from fedrt.bench.outcomes import bench_world, run_task
from fedrt.policies.ce_fedavg import CEFedAvg
from fedrt.system.plugins import Offer, offered

BUDGETS = "fleet.energy_j_per_edge_round=[0.02,0.02,5,5,5,5,5]"
"""Devices 0 and 1 cannot even compute at their lowest frequency with it; the others have plenty."""


@pytest.fixture(autouse=True)
def world(monkeypatch):
    """A quick world of the bench in which the first server's budgets are too small."""
    monkeypatch.setattr(outcomes, "load_world", lambda name: tiny(BUDGETS))
    bench_world.cache_clear()
    yield bench_world("tiny", 0)
    bench_world.cache_clear()


def test_the_limit_is_the_budget_or_what_fedrt_spends_beyond_it(world):
    """4 global rounds of 2 edge rounds: budgets of 0.16 J and 40 J."""
    np.testing.assert_allclose(world.world.fleet.energy_budget_j, [0.16] * 2 + [40.0] * 5)
    spent_j = world.reference.spent_j
    assert (spent_j[:2] > 0.16).all()
    assert (spent_j[2:] < 40).all()
    np.testing.assert_array_equal(world.limit_j[:2], spent_j[:2])
    np.testing.assert_allclose(world.limit_j[2:], 40.0)


def test_who_spends_as_fedrt_does_is_over_budget_and_within_the_limit():
    fedrt = run_task("tiny", "fedrt", 0)
    assert (fedrt["over_budget_devices"], fedrt["over_limit_devices"]) == (2, 0)


class Hasty(CEFedAvg):
    """All devices at their highest frequency, whatever that takes."""

    def plan(self, seen, books):
        return replace(super().plan(seen, books), cpu_hz=seen.cpu_max_hz)


def test_who_spends_more_than_fedrt_is_over_the_limit_only_beyond_the_budget(world):
    """The other five spend more than under `fedrt` too: they have the budget for it."""
    with offered({"python:Hasty": Offer(Hasty, Hasty)}):
        hasty = run_task("tiny", "python:Hasty", 0)
    assert (hasty["over_budget_devices"], hasty["over_limit_devices"]) == (2, 2)
    assert hasty["energy_j_mean"] > world.reference.spent_j.mean()
