"""What a run's summary and tables say of device classes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pyarrow import parquet
from support.tiny import as_options, tiny

from fedrt.cli import main
from fedrt.policies import make_policy
from fedrt.report.learning import class_words
from fedrt.runs.loop import make_world
from fedrt.studies.estimates import estimate_run

CLASSES = 'fleet.classes=[{name="phone",share=0.7},{name="watch",cpu_max_hz=2e9,energy_budget_j=1}]'


def test_a_summary_has_every_class(tmp_path, capsys):
    out = ["--out", str(tmp_path / "out"), "--policies", "ce-fedavg"]
    assert main(["estimate", *as_options(CLASSES), *out]) == 0
    assert "device classes" in capsys.readouterr().out
    folder = tmp_path / "out" / "ce-fedavg-0"
    summary = json.loads((folder / "summary.json").read_text())
    rows = parquet.read_table(folder / "devices.parquet").to_pydict()
    name = np.array(rows["class"])
    assert name[:7].tolist() == ["phone"] * 4 + ["watch", "phone", "watch"]
    whole_s = np.array(rows["compute_s"]) + np.array(rows["upload_s"])
    place = list(zip(rows["global_round"], rows["edge_round"], rows["edge"], strict=True))
    longest = {
        each: max(s for s, p in zip(whole_s, place, strict=True) if p == each) for each in place
    }
    last = np.array([s == longest[p] for s, p in zip(whole_s, place, strict=True)])
    for each, devices in (("phone", 5), ("watch", 2)):
        found, own = summary["classes"][each], name == each
        assert found["devices"] == devices
        # Even shares of the bandwidth and different channels: no two finish together.
        assert found["critical_share"] == pytest.approx(last[own].mean(), rel=1e-12)
        spent_j = np.array(rows["energy_j"])[own].sum() / devices
        assert found["energy_j_mean"] == pytest.approx(spent_j, rel=1e-9)
    whole = sum(each["over_budget_j"] for each in summary["classes"].values())
    assert whole == pytest.approx(summary["over_budget_j"], rel=1e-12)
    assert summary["classes"]["watch"]["over_budget_devices"] == 2
    assert (
        sum(c["over_budget_devices"] for c in summary["classes"].values())
        == (summary["over_budget_devices"])
    )
    compared = json.loads((tmp_path / "out" / "comparison.json").read_text())
    watch = compared["policies"]["ce-fedavg"]["classes"]["watch"]
    assert watch["energy_j_mean"]["mean"] == summary["classes"]["watch"]["energy_j_mean"]


def test_a_class_without_devices_and_a_fleet_without_classes():
    empty = tiny('fleet.classes=[{name="none-of-it",share=0},{name="all"}]')
    summary = estimate_run(make_world(empty, 0), make_policy("fedrt"))
    found = summary.pop("classes")
    assert found["none-of-it"]["devices"] == 0
    assert found["none-of-it"]["energy_j_mean"] is found["none-of-it"]["critical_share"] is None
    assert found["all"]["energy_j_mean"] == summary["energy_j_mean"]
    assert summary == estimate_run(make_world(tiny(), 0), make_policy("fedrt"))


def test_a_run_and_a_check_say_the_classes(capsys):
    summary = estimate_run(make_world(tiny(CLASSES), 0), make_policy("fedrt"))
    words = {name: class_words(each) for name, each in summary["classes"].items()}
    assert words["phone"].startswith("5 devices, ")
    assert "over budget by" in words["watch"]
    assert main(["scenario", "check", "quickstart", *as_options(CLASSES)]) == 0
    said = "quickstart: valid, 7 devices (5 phone, 2 watch) on 3 edge servers\n"
    assert capsys.readouterr().out.endswith(said)
