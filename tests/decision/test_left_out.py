"""Devices that a plan leaves out of the round: they send, spend and overspend nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.states import random_state

from fedrt.decision import plan_round
from fedrt.errors import InfeasibleError
from fedrt.policies.ce_fedavg import CEFedAvg


class LeavesTheFirstOut(CEFedAvg):
    """As CE-FedAvg, without the first device."""

    name = "leaves-the-first-out"

    def plan(self, seen, books):
        trains = np.arange(seen.num_devices) > 0
        return replace(super().plan(seen, books), trains=trains, status="feasible")


def state_of(allowance_j: float) -> dict:
    """A state whose first device has spent more than its budget so far, and the others nothing."""
    state = random_state(0) | {"schema_version": 2}
    for edge in state["edges"]:
        for device in edge["devices"]:
            device["energy_allowance_j"] = 1e6
    state["edges"][0]["devices"][0]["energy_allowance_j"] = allowance_j
    return state


@pytest.mark.parametrize("allowance_j", [-3.5, 0.0, 1e6])
def test_a_device_that_is_left_out_spends_nothing_whatever_it_has_left(allowance_j):
    answer = plan_round(state_of(allowance_j), LeavesTheFirstOut(), strict=True)
    first, second = answer["edges"][0]["devices"][:2]
    assert (first["trains"], second["trains"]) == (False, True)
    for name in ("bandwidth_hz", "cpu_hz", "local_steps", "upload_s", "energy_j", "over_budget_j"):
        assert first[name] == 0
    assert second["energy_j"] > 0


def test_one_that_trains_with_nothing_left_overspends_all_of_it_and_what_it_owes():
    answer = plan_round(state_of(-3.5), "ce-fedavg")
    first = answer["edges"][0]["devices"][0]
    assert first["over_budget_j"] == pytest.approx(first["energy_j"] + 3.5)
    with pytest.raises(InfeasibleError, match=r"devices\[0\].energy_allowance_j"):
        plan_round(state_of(-3.5), "ce-fedavg", strict=True)
