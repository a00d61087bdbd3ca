"""The plans of a run of clients and one server: budgets are kept, what is reported is charged."""

from __future__ import annotations

import ast
import json

import pytest
from support.paths import ROOT

import fedrt
from fedrt.flower import Planner

FLEET = ROOT / "examples" / "flower" / "fleet.json"
EVERY = range(6)


def fleet(**changes):
    return {**json.loads(FLEET.read_text()), **changes}


def test_orders_are_what_fedrt_plan_answers():
    planned = Planner(FLEET, "fedrt", rounds=3).plan(EVERY)
    answer = fedrt.plan_round(planned.state, "fedrt")
    assert planned.plan == answer
    devices = [device for edge in answer["edges"] for device in edge["devices"]]
    assert [*planned.orders] == [*EVERY]
    for n, device in enumerate(devices):
        orders = planned.orders[n]
        assert orders["fedrt.bandwidth-hz"] == device["bandwidth_hz"]
        assert orders["fedrt.cpu-hz"] == device["cpu_hz"]
        assert orders["fedrt.local-steps"] == 8
        assert orders["fedrt.device"] == n
    assert planned.orders[0]["fedrt.time-s"] == answer["edges"][0]["time_s"]
    first = sum(planned.orders[n]["fedrt.bandwidth-hz"] for n in (0, 1, 2))
    assert first == pytest.approx(1e6, rel=1e-9)


def test_what_was_reported_is_charged_and_changes_the_next_allowance():
    planner = Planner(FLEET, rounds=3)
    planner.plan(EVERY)
    # Device 0 may spend 3 x 2.2 mJ: after 4.4 mJ, 2.2 mJ are left for two rounds.
    assert planner.charge({0: {"energy-j": 0.0044}}) == []
    second = planner.plan(EVERY)
    device = second.state["edges"][0]["devices"][0]
    assert device["energy_allowance_j"] == pytest.approx(0.0011, rel=1e-9)
    # Device 1 reported nothing: what was planned, 3 mJ, counts.
    device = second.state["edges"][0]["devices"][1]
    assert device["energy_allowance_j"] == pytest.approx(0.003, rel=1e-6)
    assert second.state["edges"][1]["devices"][1]["energy_allowance_j"] is None
    assert second.number == 2


def test_reported_channels_are_planned_with_in_the_next_round():
    planner = Planner(FLEET, rounds=2)
    before = planner.plan(EVERY).orders[2]["fedrt.bandwidth-hz"]
    planner.charge({2: {"snr-db": 11.0}})
    after = planner.plan(EVERY)
    assert after.state["edges"][0]["devices"][2]["snr_db"] == 11.0
    assert after.orders[2]["fedrt.bandwidth-hz"] < before


def test_reports_that_cannot_be_right_count_as_none():
    planner = Planner(FLEET, rounds=2)
    planned = planner.plan(EVERY)
    wrong = {0: {"energy-j": -1.0}, 1: {"energy-j": float("nan")}, 2: {"snr-db": 1e4}}
    lines = planner.charge(wrong)
    assert len(lines) == 3
    assert lines[0].startswith("device 0: fedrt.energy-j = -1")
    assert planner.ledger.spent_j[:3].tolist() == [planned.energy_j[n] for n in range(3)]
    assert planner.plan(EVERY).state["edges"][0]["devices"][2]["snr_db"] == 1.0


def test_no_report_stops_the_others():
    planner = Planner(FLEET, rounds=9)
    for _ in range(5):
        planned = planner.plan(EVERY)
        planner.charge({0: {"energy-j": 1e15}})
    assert planned.state["edges"][0]["devices"][0]["energy_allowance_j"] < -1e14
    assert sorted(planned.orders) == [*EVERY]
    assert planned.plan["status"] == "best-effort"
    # Its base station does what it can, and the other is not touched.
    first = Planner(FLEET, rounds=9).plan(EVERY).plan
    assert planned.plan["edges"][1]["time_s"] == pytest.approx(
        first["edges"][1]["time_s"], rel=1e-6
    )


def test_absent_devices_get_no_orders_and_spend_nothing():
    planner = Planner(FLEET, rounds=2)
    planned = planner.plan([0, 2, 4])
    assert sorted(planned.orders) == [0, 2, 4]
    assert [len(edge["devices"]) for edge in planned.state["edges"]] == [2, 1]
    planner.charge({})
    assert (planner.ledger.spent_j[[1, 3, 5]] == 0).all()
    assert planner.ledger.t == 1


@pytest.mark.parametrize("policy", ["fedcs", "oort", "tifl"])
def test_devices_that_a_policy_leaves_out_get_no_orders(policy):
    planner, chosen = Planner(FLEET, policy, rounds=8), []
    for _ in range(8):
        planned = planner.plan(EVERY)
        trains = [d["trains"] for edge in planned.plan["edges"] for d in edge["devices"]]
        assert 0 < sum(trains) < 6
        assert sorted(planned.orders) == [n for n in EVERY if trains[n]]
        chosen.append(tuple(planned.orders))
        planner.charge({})
    # FedCS takes the quick ones; the others draw anew in every round.
    assert (len({*chosen}) == 1) == (policy == "fedcs")


def test_policies_remember_devices_by_their_numbers():
    planner = Planner(FLEET, "tifl", rounds=3)
    for present in ([0, 1, 3, 4], [1, 2, 4, 5]):
        planner.plan(present)
        planner.charge({})
    assert planner.run.memory.count.tolist() == [1, 2, 1, 1, 2, 1]


def test_the_time_is_the_clients_where_all_report_it():
    planner = Planner(FLEET, rounds=3)
    planned = planner.plan(EVERY)
    planner.charge({0: {"time-s": 9.0}})
    assert planner.ledger.time_s == planned.plan["round_time_s"]
    planner.plan([0, 3])
    planner.charge({0: {"time-s": 9.0}, 3: {"time-s": 4.0}})
    assert planner.ledger.time_s == planned.plan["round_time_s"] + 9.0


def test_every_round_leaves_a_state_that_plans_the_same_again(tmp_path):
    planner = Planner(FLEET, rounds=2, out=tmp_path / "out")
    for _ in range(2):
        planner.plan(EVERY)
        planner.charge({3: {"energy-j": 0.001, "other": float("inf")}})
    folder = tmp_path / "out" / "round-0002"
    again = fedrt.plan_round(fedrt.load_state(folder / "state.json"))
    assert again == json.loads((folder / "plan.json").read_text())
    replies = json.loads((folder / "replies.json").read_text())
    assert replies == {"3": {"energy-j": 0.001, "other": None}}


def test_codecs_are_ordered_where_the_policy_chooses_them():
    state = fleet(codecs=["int4", "int8"])
    planned = Planner(state, "fedrt-joint", rounds=2).plan(EVERY)
    assert {orders["fedrt.codec"] for orders in planned.orders.values()} <= {"int4", "int8"}


def test_wrong_input_is_refused():
    with pytest.raises(fedrt.InputError, match="rounds: must be given"):
        Planner(FLEET)
    with pytest.raises(fedrt.InputError, match="rounds = 0: must be a whole number from 1"):
        Planner(FLEET, rounds=0)
    with pytest.raises(fedrt.InputError, match=r"state\.backhaul_bps: must not be given"):
        Planner(json.loads((ROOT / "examples" / "round.json").read_text()), rounds=2)
    with pytest.raises(fedrt.InputError, match=r"state\.model_bits"):
        Planner(fleet(model_bits=-1), rounds=2)
    with pytest.raises(fedrt.InputError, match=r"nowhere\.json: cannot be read"):
        Planner("nowhere.json", rounds=2)


def test_the_example_app_knows_nothing_of_fedrt():
    app = ROOT / "examples" / "flower" / "digits_app"
    files = sorted(app.glob("*.py"))
    assert len(files) == 4
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names]
                assert not any("fedrt" in name for name in [getattr(node, "module", ""), *names])
        assert "fedrt" not in path.read_text()
