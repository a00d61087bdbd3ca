"""Tables of runs on real devices, column by column: what was measured, and what was planned."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from support.tiny import tiny

from fedrt.records.columns.failures import wasted_j
from fedrt.records.columns.measured import (
    by_the_clock_s,
    device_measured,
    edge_measured,
    overhead_s,
    round_measured,
)
from fedrt.world.simulated import SimulatedWorld

SEEN = SimulatedWorld(tiny(), 0).observe(0, 0)
"""Seven devices on three servers: 2, 3 and 2."""
NOBODY = np.zeros(7, dtype=bool)


def cost_of(scale: float) -> SimpleNamespace:
    return SimpleNamespace(
        edge_time_s=scale * np.array([4.0, 5.0, 6.0]),
        backhaul_s=scale * np.array([0.5, 0.7, 0.6]),
        compute_s=scale * np.arange(1.0, 8.0),
        upload_s=scale * np.full(7, 0.25),
        download_s=scale * np.full(7, 0.125),
        upload_bytes=scale * np.full(7, 100.0),
        energy_j=scale * np.full(7, 2.0),
    )


def turn_of(measured: bool = True) -> SimpleNamespace:
    """Device 1 was late, device 3 refused, and device 6 had no part in the plan."""
    late, refused = (np.arange(7) == n for n in (1, 3))
    trained = np.arange(7) != 6
    outcome = SimpleNamespace(
        measured=measured,
        cost=cost_of(2.0),
        planned=cost_of(1.0),
        late=late,
        is_refused=refused,
        delivered=trained & ~late,
        enforce_s=None,
        metered=None,
        lost_s=np.array([3.0, 1.0, 2.0]),
        clock_s=20.0,
        planned_overhead_s=0.5,
    )
    plan = SimpleNamespace(trained=trained)
    return SimpleNamespace(seen=SEEN, plan=plan, outcome=outcome, cost=outcome.cost)


def test_the_columns_of_edge_servers():
    columns = edge_measured(turn_of())
    np.testing.assert_array_equal(columns["edge_time_s"], [8.0, 10.0, 12.0])
    np.testing.assert_array_equal(columns["planned_edge_time_s"], [4.0, 5.0, 6.0])
    np.testing.assert_array_equal(columns["planned_backhaul_s"], [0.5, 0.7, 0.6])
    assert np.isnan(columns["enforce_s"]).all()
    assert columns["expected"].tolist() == [2, 3, 1]
    assert columns["delivered"].tolist() == [1, 3, 1]


def test_the_columns_of_devices():
    columns = device_measured(turn_of())
    np.testing.assert_array_equal(columns["download_s"], 0.25)
    np.testing.assert_array_equal(columns["planned_compute_s"], np.arange(1.0, 8.0))
    np.testing.assert_array_equal(columns["planned_upload_s"], 0.25)
    np.testing.assert_array_equal(columns["planned_upload_bytes"], 100.0)
    np.testing.assert_array_equal(columns["planned_energy_j"], 2.0)
    assert not columns["metered"].any()
    became = ["delivered", "late", "delivered", "refused", "delivered", "delivered", "left out"]
    assert columns["outcome"].tolist() == became


def test_the_columns_of_a_global_round():
    """Two edge rounds alike; the clock was to go on for 6 s in each, 0.7 s of gossip, and 0.5 s."""
    first, last = turn_of(), turn_of()
    first.outcome.planned.backhaul_s = np.zeros(3)
    costs = [first.outcome.planned, last.outcome.planned]
    assert by_the_clock_s(costs) == pytest.approx(6 + 6 + 0.7)
    done = SimpleNamespace(edge_rounds=[first, last], last=last)
    columns = {name: value.item() for name, value in round_measured(done).items()}
    # Each server goes on by itself in the cost model: 2 * 6 + 0.6 s is the most.
    assert columns.pop("planned_time_s") == pytest.approx(12.6)
    assert columns == pytest.approx(
        {
            "clock_s": 40.0,
            "planned_clock_s": 12.7 + 2 * 0.5,
            "planned_upload_bytes": 1400.0,
            "energy_j": 56.0,
            "planned_energy_j": 28.0,
            "expected": 12,
            "delivered": 10,
        }
    )


def test_what_an_edge_round_takes_beyond_its_slowest_device():
    """8, 10 and 12 s; server 0 waited 3 s for a late device; servers that nobody was late for none.

    Less slowest devices of 4, 7 and 13 s: 1 s, 3 s, and nothing.
    """
    beyond_s, waiting_s = overhead_s(turn_of(), np.array([4.0, 7.0, 13.0]))
    np.testing.assert_array_equal(waiting_s, [3.0, 0.0, 0.0])
    np.testing.assert_array_equal(beyond_s, [1.0, 3.0, 0.0])


def test_joules_of_updates_that_were_not_used_are_wasted():
    """4 J each of devices 1, 3 and 6: late, refused, and not sent."""
    assert wasted_j(turn_of()) == 12.0


def test_simulated_rounds_have_none_of_these():
    turn = turn_of(measured=False)
    done = SimpleNamespace(edge_rounds=[turn], last=turn)
    assert edge_measured(turn) == device_measured(turn) == round_measured(done) == {}
