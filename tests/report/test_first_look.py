"""What a new user reads first: numbers as people say them, progress without a terminal."""

from __future__ import annotations

import io
import json
import sys

import pytest
from support.paths import ROOT
from support.tiny import as_options, tiny
from support.trained import TRAINING

from fedrt.cli import main
from fedrt.policies import POLICIES
from fedrt.report.failures import failure_rows
from fedrt.report.learning import print_run
from fedrt.report.page.curves import summary_row
from fedrt.report.progress import round_progress
from fedrt.report.tables import comparison_table
from fedrt.units import number_range, signed_percent

TRAINED = [word for text in TRAINING for word in ("--set", text)]
FEW = as_options("rounds.global_rounds=5")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (-0.0001, "0.0%"),
        (0.0001, "0.0%"),
        (-0.0, "0.0%"),
        (-0.1234, "-12.3%"),
        (0.5, "+50.0%"),
        (25.2, "x 26.2"),
        (-1.0, "-100.0%"),
    ],
)
def test_changes_in_percent(change, text):
    assert signed_percent(change) == text
    assert "e+" not in signed_percent(change * 1e3)


def test_counts_over_seeds_are_whole():
    assert number_range([1, 0, 0], "dev") == "0 to 1 dev"
    assert number_range([19, 19], "dev") == "19 dev"


def summary(policy: str, time_s: float = 10.0, over: int = 0) -> dict:
    return {
        "policy": policy,
        "total_time_s": time_s,
        "energy_j_mean": 1.0,
        "over_budget_devices": over,
        "over_budget_j": 0.5 * over,
    }


def heads(*policies: str) -> list[str]:
    results = {name: [summary(name)] for name in policies}
    return [str(column.header) for column in comparison_table(tiny(), results).columns]


def test_only_what_is_compared_has_a_column():
    assert heads("fedrt", "static-t") == ["policy", "time", "energy", "over budget"]
    assert heads("ce-fedavg") == ["policy", "time", "energy", "over budget"]
    assert heads("fedrt", "ce-fedavg")[4:] == ["vs ce-fedavg"]
    assert heads(*POLICIES)[4:] == ["vs ce-fedavg", "vs mll-sgd"]


def test_the_table_says_no_third_of_a_device_and_no_minus_nothing():
    results = {
        "fedrt": [summary("fedrt", 9.9999, over) for over in (1, 0, 0)],
        "ce-fedavg": [summary("ce-fedavg") for _ in range(3)],
    }
    table = comparison_table(tiny(), results)
    cells = [next(iter(column.cells)) for column in table.columns]
    assert cells[3] == "0 to 1 dev, 0.167 J"
    assert cells[4] == "0.0%"


def test_the_page_has_the_range_over_seeds():
    class Line:
        policy = "fedrt"

        class Run:
            class said:  # noqa: N801
                seed = 0
                summary = summary("fedrt", over=3)

        runs = (Run,)

    row = summary_row(Line, [Line])
    assert (row["over_budget_devices"]["least"], row["over_budget_devices"]["most"]) == (3, 3)


def faults(beyond_plan_s: float) -> dict:
    counts = ("expected", "delivered", "silent", "late", "refused", "absent", "idle")
    zero = ("server_rounds_down", "link_rounds_down", "rounds_in_parts", "straggling", "wasted_j")
    whole = dict.fromkeys(zero, 0) | {"updates": dict.fromkeys(counts, 1), "refused": []}
    return whole | {"beyond_plan_s": beyond_plan_s}


def test_time_that_deadlines_cut_off_is_no_negative_time():
    assert failure_rows(faults(3.0))["time beyond the plans"] == "3 s"
    rows = failure_rows(faults(-3.0))
    assert "time beyond the plans" not in rows
    assert rows["time short of the plans"] == "3 s, where deadlines ended rounds"


def test_real_time_is_the_whole(capsys):
    told = summary("fedrt") | {"scenario": "x", "seed": 0, "energy_j_max": 1.0, "targets": {}}
    told |= {"best_accuracy": 0.5, "final_accuracy": 0.5, "wall_s": 3.0}
    print_run(told, 12.0)
    assert "12 s, 3 s of it for the rounds" in capsys.readouterr().out
    print_run(told, 12.0, resumed=True)
    assert "12 s since resumed; all rounds took 3 s" in capsys.readouterr().out


def test_progress_is_a_line_for_every_tenth(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with round_progress(40, lines=True) as start:
        for seed in (0, 1):
            step = start("fedrt", seed)
            for done in range(20):
                step(done)
    lines = sys.stderr.getvalue().splitlines()
    assert lines[0] == "round 4 of 40: fedrt, seed 0"
    assert lines[-1] == "round 40 of 40: fedrt, seed 1"
    assert len(lines) == 10
    with round_progress(40, lines=True, quiet=True) as start:
        assert start is None


def test_compare_and_bound_tell_how_far_they_are(tmp_path, capsys):
    words = ["--policies", "fedrt,static-t", "--engine", "sequential", *TRAINED]
    assert main(["compare", *words, "--out", str(tmp_path / "a")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "round 1 of 10: fedrt, seed 0"
    assert lines[-1] == "round 10 of 10: static-t, seed 0"
    words = ["--policies", "fedrt", "--rho", "none", *FEW]
    assert main(["bound", "quickstart", *words, "--out", str(tmp_path / "b")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2].startswith("round 5 of 5: ")
    assert lines[-1].startswith("seed 0: no plan within the limits takes less than ")


def test_all_commands_compare_the_same_policies(tmp_path, capsys):
    engine = ["--engine", "sequential", "--json", "--set", "rounds.global_rounds=1"]
    assert main(["compare", *TRAINED, *engine, "--out", str(tmp_path / "compare")]) == 0
    compared = list(json.loads(capsys.readouterr().out)["policies"])
    few = ["--set", "rounds.global_rounds=1", "--json"]
    assert main(["estimate", *FEW, *few, "--out", str(tmp_path / "estimate")]) == 0
    estimated = list(json.loads(capsys.readouterr().out)["policies"])
    assert compared == estimated == list(POLICIES)
    assert "fedrt-plus" in compared


def test_an_example_of_a_state_comes_with_the_package(capsys):
    assert main(["plan", "--example"]) == 0
    printed = capsys.readouterr().out
    assert printed == (ROOT / "examples" / "round.json").read_text()
    assert main(["plan"]) == 2
    line = "fedrt plan: give STATE.json; fedrt plan --example prints one\n"
    assert capsys.readouterr().err == line


def test_outside_a_clone_the_reproduction_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "table"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("results: is not here: the trained cells come with the repository; ")
    assert "--out CLONE/results" in err
    assert "--quick" in err
    assert err.count("\n") == 1
    assert main(["report", "results"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("results: is not there; the reproduced table comes with the repository")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
