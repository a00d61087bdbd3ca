"""What the page shows of an emulated network, and files that no testbed wrote."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.paths import ROOT

from fedrt.errors import InputError
from fedrt.report.devices.testbed import emulated
from fedrt.report.page.collect import collect
from fedrt.scenario import load_scenario
from fedrt.testbed.bed import Speeds
from fedrt.testbed.layout import FILE

SCENARIO = load_scenario("quickstart", ["fleet.num_edges=2", "fleet.num_devices=2"])


def host(name, edge=None, share=0.0):
    return {
        "name": name,
        "address": "10.77.0.1",
        "namespace": f"fedrt-aaaaaa-{name}",
        "edge": edge,
        "cpu_share": share,
        "core_step_s": share / 20,
    }


def written(tmp_path, **changed):
    speeds = Speeds(2)
    for bps in (1e6, 3e6):
        speeds.add(np.array([[0, bps], [bps, 0]]), 0.01)
    devices = [host(f"device-{n}", n, 0.25) for n in range(2)]
    whole = {
        "core_hz": 6e9,
        "cpu": "cgroup",
        "missing": [],
        "hosts": [host("coordinator"), host("edge-0"), host("edge-1"), *devices],
        "speeds": speeds.table(),
    }
    (tmp_path / FILE).write_text(json.dumps(whole | changed))
    return tmp_path


def test_parties_and_link_speeds(tmp_path):
    found = emulated(written(tmp_path), SCENARIO)
    assert [each["name"] for each in found["hosts"]][-1] == "device-1"
    assert found["hosts"][-1]["cpu_share"] == 0.25
    assert [each["core_step_s"] for each in found["hosts"]] == [None] * 3 + [0.0125] * 2
    (link,) = found["speeds"]
    assert link == {"pair": [0, 1], "least_bps": 1e6, "mean_bps": 2e6, "most_bps": 3e6}


def test_the_committed_runs_have_a_page():
    folders = sorted((ROOT / "benchmarks" / "results" / "testbed").iterdir())
    names = [folder.name for folder in folders]
    assert names == ["ce-fedavg", "fedrt", "fedrt-joint", "fedrt-plus"]
    runs = collect(folders)["runs"]
    assert len(runs) == 4
    for run in runs:
        assert run["ended"]
        assert all(host["core_step_s"] > 0 for host in run["testbed"]["hosts"][-6:])
        assert len(run["testbed"]["speeds"]) == 3
        assert "planned_time_s" in run["detail"]["measured"]


def test_a_run_that_was_in_no_testbed(tmp_path):
    assert emulated(tmp_path, SCENARIO) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"hosts": []},
        {"hosts": "x"},
        {"hosts": [host("x")] * 4 + [{"name": 3}]},
        {"hosts": [host("x")] * 4 + [host("<script>")]},
        {"hosts": [host("x")] * 4 + [host("device-1", 7)]},
        {"missing": None},
        {"speeds": None},
        {"speeds": {"least_bps": [], "mean_bps": [], "most_bps": []}},
    ],
)
def test_files_that_no_testbed_wrote(tmp_path, wrong):
    with pytest.raises(InputError, match=FILE):
        emulated(written(tmp_path, **wrong), SCENARIO)
