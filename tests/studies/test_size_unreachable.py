"""`fedrt size` where no value will do: every value tried is shown, saved, resumed and drawn."""

from __future__ import annotations

import csv
import json

import pytest

import fedrt
from fedrt.cli import main
from fedrt.report.page.collect import collect
from fedrt.studies.study import POINTS

SHORT = ["rounds.global_rounds=2"]
VARY = "backhaul.scale=0.5..2"
WORDS = ["size", "quickstart", "--deadline", "1s", "--vary", VARY, "--set", *SHORT]
LINE = "no backhaul.scale from 0.5 to 2 makes the deadline of 1 s: the best reachable is "


@pytest.fixture(scope="module")
def unreached(tmp_path_factory):
    out = tmp_path_factory.mktemp("size") / "out"
    assert main([*WORDS, "--seeds", "0,1", "--out", str(out)]) == 2
    return out


def test_all_values_are_saved(unreached):
    data = json.loads((unreached / "size.json").read_text())
    assert data["value"] is None
    assert not data["within_budgets"]
    assert data["sentence"].startswith(LINE)
    assert len(data["tried"]) >= 9
    assert not any(each["makes_deadline"] for each in data["tried"])
    fastest = min(max(each["total_time_s"]["per_seed"]) for each in data["tried"])
    assert max(data["policies"]["fedrt-plus"]["total_time_s"]["per_seed"]) == fastest
    with (unreached / "size.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(data["tried"])
    assert (unreached / "size.png").is_file()


def test_they_are_printed_and_the_line_is_the_error(unreached, tmp_path, capsys):
    for more in ([], ["--json"]):
        assert main([*WORDS, *more, "--out", str(tmp_path / f"out{len(more)}")]) == 2
        printed = capsys.readouterr()
        assert printed.err.splitlines()[-1].startswith(LINE)
        if more:
            assert json.loads(printed.out)["value"] is None
        else:
            assert "makes it" in printed.out
            assert "no, +" in printed.out
            assert "saved in" in printed.out


def test_nothing_runs_again_when_it_is_resumed(unreached, monkeypatch, capsys):
    before = (unreached / POINTS).read_text()
    monkeypatch.setattr("fedrt.studies.study.estimate", None)
    assert main(["size", "--resume", str(unreached), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["value"] is None
    assert (unreached / POINTS).read_text() == before


def test_the_page_has_them(unreached, tmp_path):
    (shown,) = collect([unreached])["studies"]
    saved = json.loads((unreached / "size.json").read_text())
    assert shown["value"] is None
    assert shown["over"]
    assert shown["answer"] == saved["sentence"]
    assert len(shown["tried"]) == len(saved["tried"])
    assert main(["report", str(unreached), "--out", str(tmp_path / "page.html")]) == 0


def test_python_gets_them_as_a_result(tmp_path):
    result = fedrt.size(
        "quickstart",
        deadline="1h",
        vary={"fleet.energy_j_per_edge_round": (0.001, 0.03)},
        settings=SHORT,
        out=tmp_path / "out",
        progress=False,
    )
    assert result.data["value"] is None
    assert "within every device's budget: 0.03 takes " in result.data["sentence"]
    assert "`" not in result.data["sentence"]
    assert len(result.summary) == len(result.data["tried"])
    result.plot()
    result.page()
