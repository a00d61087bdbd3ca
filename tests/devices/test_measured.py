"""Predictions beside measurements: in the tables of a run, in its page, and in what is learned."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.parties import six
from support.running import running

import fedrt
from fedrt.devices.coordinator.executor import RemoteExecutor
from fedrt.devices.coordinator.learned import Learned
from fedrt.errors import InputError
from fedrt.report.devices.measured import fleet_now
from fedrt.report.page.collect import collect


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run in which a device is missing for a while."""
    folder = tmp_path_factory.mktemp("measured")
    with running(folder, six()) as fleet:
        fleet.start_all()

        def cut(done):
            if done.last.t == 0:
                fleet.stop("device-1")
            if done.last.t == 1:
                fleet.start_device(1)

        fleet.coordinate(progress=cut)
    return folder / "run"


def table(run, name):
    found = pq.read_table(run / f"{name}.parquet")
    return {key: found[key].to_numpy() for key in found.column_names}


def test_parts_of_a_measured_round_add_up(run):
    rounds, edges = table(run, "rounds"), table(run, "edges")
    names = ("download_s", "compute_s", "upload_s", "overhead_s", "backhaul_s", "waiting_s")
    whole = np.sum([edges[name] for name in names], axis=0)
    assert min(edges[name].min() for name in names) >= 0
    assert (edges["enforce_s"] > 0).all()
    assert (edges["enforce_s"] < edges["edge_time_s"]).all()
    for t, time_s in enumerate(rounds["time_s"]):
        for c in range(2):
            mine = (edges["global_round"] == t) & (edges["edge"] == c)
            assert whole[mine].sum() == pytest.approx(time_s)


def test_tables_have_predictions_beside_measurements(run):
    rounds, devices = table(run, "rounds"), table(run, "devices")
    assert (rounds["planned_time_s"] > 0).all()
    assert rounds["delivered"].tolist() == rounds["expected"].tolist()
    assert rounds["delivered"][:2].tolist() == [12, 10]
    for t in range(3):
        mine = devices["global_round"] == t
        for name in ("energy_j", "planned_energy_j", "upload_bytes", "planned_upload_bytes"):
            assert devices[name][mine].sum() == pytest.approx(rounds[name][t])
    assert (devices["planned_compute_s"] > 0).all()
    assert set(devices["outcome"]) == {"delivered"}
    assert not devices["metered"].any()


def test_what_is_learned_is_in_the_folder(run):
    said = json.loads((run / "devices.json").read_text())
    assert said["answering"] == [True, True]
    assert said["late"] == []
    assert set(said["connected"]) >= {0, 2, 3, 4, 5}
    assert len(said["learned"]["cycles"]) == 6
    assert all(each["value"] > 0 for each in said["learned"]["cycles"])
    assert said["learned"]["backhaul"][0]["age"] == 1


def test_the_page_has_both(run):
    data = collect([run])
    (shown,) = data["runs"]
    assert data["configs"][0]["again"] == "fedrt coordinator"
    assert (
        shown["fleet"]["connected"] == json.loads((run / "devices.json").read_text())["connected"]
    )
    measured = shown["detail"]["measured"]
    assert {"time_s", "planned_time_s", "energy_j", "planned_energy_j"} <= measured.keys()
    arrived = np.frombuffer(base64.b64decode(measured["devices"]["arrived"]["i32"]), "<i4")
    assert arrived.tolist()[0] == 6
    assert 2 <= arrived[1] <= 4


def test_simulated_runs_have_none_of_it(tmp_path):
    fedrt.estimate(six(), policies=["fedrt"], out=tmp_path / "estimate")
    (path,) = tmp_path.glob("**/rounds.parquet")
    for name in ("rounds", "edges", "devices"):
        columns = pq.read_schema(path.parent / f"{name}.parquet").names
        assert not [each for each in columns if each.startswith("planned_") or each == "metered"]
    (shown,) = collect([path.parent])["runs"]
    assert shown["fleet"] is None
    assert "measured" not in shown["detail"]


GOOD = {
    "run": "a",
    "connected": [0],
    "late": [],
    "answering": [True, True],
    "learned": {
        "cycles": [{}] * 6,
        "upload": [{"value": 1.0, "spread": float("inf"), "age": 10**400}] * 6,
        "backhaul": [7] * 2,
    },
}


def test_numbers_that_cannot_be_shown_are_left_out(tmp_path):
    (tmp_path / "devices.json").write_text(json.dumps(GOOD))
    found = fleet_now(tmp_path, six())
    assert found["upload"] == {"value": [1.0] * 6, "spread": [None] * 6, "age": [None] * 6}
    assert found["backhaul"]["value"] == [None, None]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"connected": [6]}, "its connected must be numbers of devices"),
        ({"late": "all"}, "its late must be numbers of devices"),
        ({"answering": [True]}, "which edge servers answer"),
        ({"learned": []}, "what has been learned"),
        ({"learned": {"cycles": [1]}}, "its cycles must be as many as there are devices"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path, changed, words):
    (tmp_path / "devices.json").write_text(json.dumps(GOOD | changed))
    with pytest.raises(InputError, match=words) as caught:
        fleet_now(tmp_path, six())
    assert len(caught.value.lines) == 1


def test_before_the_first_answer_a_coordinator_waits(tmp_path):
    (tmp_path / "devices.json").write_text('{"run": "a"}')
    assert fleet_now(tmp_path, six()) == {"devices": 6, "edges": 2, "waiting": True}


def test_what_is_learned_of_overheads_is_what_the_plan_has_not():
    """Planned: 3 s of training and upload and 0.5 s of the scenario's overheads; 0.25 s are new."""
    devices = {"compute_s": np.array([2.0, 1.0]), "upload_s": np.array([1.0, 1.0])}
    planned = SimpleNamespace(**devices, edge_time_s=np.array([3.5, 2.5]))
    cost = SimpleNamespace(**devices, backhaul_s=np.array([0.2, 0.1]))
    executor = SimpleNamespace(learned=Learned(2, 2))
    delivered = np.ones(2, dtype=bool)
    outcome = SimpleNamespace(cost=cost, planned=planned, delivered=delivered, clock_s=3.95)
    RemoteExecutor.learn_overhead(executor, outcome)
    assert executor.learned.overhead_s == pytest.approx(0.25)
