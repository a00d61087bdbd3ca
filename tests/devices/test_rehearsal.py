"""Plans before a run on real devices, so that nothing is compiled in the middle of it."""

from __future__ import annotations

import pytest

from fedrt.devices.coordinator import run
from fedrt.scenario import load_scenario


@pytest.mark.parametrize(("seconds", "rounds"), [(60.0, 5), (-1.0, 1)])
def test_whole_runs_are_planned_unless_that_takes_too_long(monkeypatch, seconds, rounds):
    simulated, seen = run.simulate_rounds, []

    def watched(world, policy):
        for done in simulated(world, policy):
            seen.append(done.last.t)
            yield done

    monkeypatch.setattr(run, "simulate_rounds", watched)
    monkeypatch.setattr(run, "REHEARSAL_S", seconds)
    run.rehearse(load_scenario("quickstart", ["rounds.global_rounds=5"]), 0, "fedrt-plus")
    assert seen == list(range(rounds))
