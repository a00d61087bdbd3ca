"""Plans for the clients of one server are those of a run with one edge server, for every policy."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.paths import ROOT

from fedrt.control.coding.menu import MENU
from fedrt.flower import Planner
from fedrt.policies import SHIPPED, make_policy
from fedrt.runs.loop import make_world, simulate_rounds
from fedrt.scenario import load_scenario
from fedrt.scenario.sizes import buffer_bits

pytestmark = pytest.mark.numerical

ROUNDS = 6
SETTINGS = (
    *(f"rounds.global_rounds={ROUNDS}", "rounds.edge_rounds=1", "control.energy_horizon=exact"),
    *("fleet.num_edges=1", "fleet.num_devices=7"),
    "fleet.energy_j_per_edge_round=0.03",
)
FLEET = ROOT / "examples" / "flower" / "fleet.json"


def state_of(world):
    """The state of `fedrt plan` with the devices of a world with one edge server."""
    fleet, learning, rounds = world.fleet, world.scenario.learning, world.scenario.rounds
    columns = {
        "cycles": world.cycles,
        "tx_power_w": fleet.tx_power_w,
        "capacitance": fleet.capacitance,
        "cpu_min_hz": fleet.cpu_min_hz,
        "cpu_max_hz": fleet.cpu_max_hz,
        "energy_allowance_j": fleet.energy_budget_j / ROUNDS,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    devices = [{**dict(zip(columns, row, strict=True)), "snr_db": 0.0} for row in rows]
    return {
        "schema_version": 2,
        "model_bits": world.model_bits,
        "buffer_bits": buffer_bits(learning),
        "gossip_steps": rounds.gossip_steps,
        "local_steps": rounds.local_steps,
        "codecs": [*MENU],
        "edges": [{"bandwidth_hz": 1e6, "elapsed_s": 0, "devices": devices}],
    }


@pytest.mark.parametrize("policy", SHIPPED)
def test_a_planner_plans_what_a_run_does(policy):
    scenario = load_scenario("quickstart", SETTINGS)
    world = make_world(scenario, 2)
    planner = Planner(state_of(world), policy, rounds=ROUNDS)
    for t, done in enumerate(simulate_rounds(world, make_policy(policy))):
        turn = done.last
        for n, snr_db in zip(turn.seen.device, 10 * np.log10(turn.seen.snr), strict=True):
            planner.devices[n]["snr_db"] = float(snr_db)
        planned = planner.plan(turn.seen.device.tolist())
        trained = turn.seen.device[turn.plan.trained].tolist()
        assert sorted(planned.orders) == trained
        assert planner.charge({}) == []
        assert planner.ledger.time_s == pytest.approx(done.ends_at_s, rel=1e-12)
        assert_allclose(planner.ledger.spent_j, turn.after.spent_j, rtol=1e-12)
        assert planner.ledger.t == t + 1


@pytest.mark.parametrize("policy", SHIPPED)
def test_several_base_stations_end_a_round_together(policy):
    state = {**json.loads(FLEET.read_text()), "codecs": [*MENU]}
    planner = Planner(state, policy, rounds=3)
    for _ in range(3):
        planned = planner.plan(range(6))
        before_s, times_s = planner.ledger.time_s, [e["time_s"] for e in planned.plan["edges"]]
        assert planned.plan["round_time_s"] == pytest.approx(max(times_s), rel=1e-12)
        planner.charge({})
        assert planner.ledger.time_s - before_s == pytest.approx(max(times_s), rel=1e-9)
    if policy.startswith("fedrt"):
        allowed_j = np.array([d["energy_allowance_j"] or np.inf for d in planner.devices])
        assert (planner.ledger.spent_j <= planner.ledger.budget_j * (1 + 1e-9)).all()
        assert np.isfinite(allowed_j).sum() == 5
