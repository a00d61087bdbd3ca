"""What devices report is limited to what can be: losses, seconds and joules."""

from __future__ import annotations

import numpy as np
import pytest
from support.parties import six

from fedrt.devices.coordinator.outcomes import outcome_of, possible_losses
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.policies import make_policy
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld


@pytest.fixture(scope="module")
def turn():
    world = SimulatedWorld(six(), 0)
    return next(iter(simulate_rounds(world, make_policy("ce-fedavg")))).edge_rounds[0]


def reports_of(turn, changes):
    """Reports of all edge servers; `changes` has what some devices say."""
    reports = []
    for c in range(turn.seen.num_edges):
        report = pb.TrainReport(edge_s=2.0, delivered_s=1.5)
        for n in np.flatnonzero(turn.seen.edge_of_device == c).tolist():
            said = {"train_s": 0.5, "loss_sum": 3.0, "joules": 0.01, "metered": True}
            each = pb.DeviceReport(number=int(turn.seen.device[n]), delivered=True)
            each.refused, each.stepped_up, each.upload_s = -1, -1, 0.1
            each.report.CopyFrom(pb.Report(**(said | changes.get(each.number, {}))))
            report.devices.append(each)
        reports.append(report)
    return reports


def test_what_cannot_be_never_enters_sums(turn):
    usual, losses = outcome_of(turn.seen, turn.plan, reports_of(turn, {}))
    bad = {"train_s": 1e9, "loss_sum": 1e30, "joules": 1e11}
    found, less = outcome_of(turn.seen, turn.plan, reports_of(turn, {1: bad}))
    assert found.cost.compute_s[1] == 2.0
    assert found.metered is not None
    assert usual.metered is not None
    assert usual.metered.all()
    assert found.metered.tolist() == [n != 1 for n in range(6)]
    assert found.cost.compute_j[1] < 1e3
    assert less[1] == pytest.approx(10 * losses[1])
    assert less[0] == losses[0]
    refused = reports_of(turn, {})
    refused[0].devices[1].refused = 2
    outcome, less = outcome_of(turn.seen, turn.plan, refused)
    assert less[1] == 0
    assert outcome.is_refused[1]
    assert not outcome.late[1]


def test_losses_are_limited_by_those_of_the_others():
    steps, counted = np.array([1, 1, 1, 2]), np.array([True, True, True, True])
    sums = np.array([1.0, 2.0, -1e9, np.nan])
    assert possible_losses(sums, counted, steps).tolist() == [1.0, 2.0, -10.0, 0.0]
    assert possible_losses(sums, ~counted, steps).tolist() == [0.0] * 4
