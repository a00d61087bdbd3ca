"""Strict budgets hold for what devices have really spent, not only for what was planned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.tiny import tiny

from fedrt.errors import InfeasibleError
from fedrt.policies import make_policy
from fedrt.runs.executor import SimulatedExecutor
from fedrt.runs.loop import make_world, run_rounds


class Thirsty(SimulatedExecutor):
    """Devices whose radios take ten thousand times the energy that the plan foresees."""

    def run(self, seen, plan):
        outcome = super().run(seen, plan)
        return replace(outcome, cost=replace(outcome.cost, upload_j=1e4 * outcome.cost.upload_j))


def test_what_devices_spend_beyond_their_budgets_ends_a_strict_run():
    for budgets in ("best-effort", "strict"):
        settings = (f'control.budgets="{budgets}"', "fleet.energy_j_per_edge_round=3")
        world = make_world(tiny(*settings), 0)
        assert len(list(run_rounds(world, make_policy("fedrt"), SimulatedExecutor(world)))) == 4
        rounds = run_rounds(world, make_policy("fedrt"), Thirsty(world))
        if budgets == "best-effort":
            assert list(rounds)[-1].last.after.overspent_j.any()
        else:
            with pytest.raises(InfeasibleError, match=r"round 0, edge round 0: .* has spent"):
                list(rounds)
