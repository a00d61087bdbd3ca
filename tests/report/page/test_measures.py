"""A page and tables of runs that are judged by another measure than accuracy."""

from __future__ import annotations

import json
import math
import shutil

import pyarrow as pa
import pytest
from pyarrow import parquet
from support.tiny import as_options

from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.measures import ACCURACY, Measure, measure_in, measure_of, own_measures
from fedrt.records.directory import run_name
from fedrt.report.page.collect import collect

SETTINGS = as_options(
    'learning.dataset="support.task_data:numbers"',
    'learning.model="support.task_data:Line"',
    "learning.task.kind=regression",
    "learning.model_bits=measured",
    "fleet.cycles_per_sample=measured",
    'learning.partition={kind="owner"}',
    "learning.learning_rate=0.05",
    "learning.batch_size=4",
    "learning.evaluate_every=2",
    "learning.device_evaluation={held_out=0.25,tuning_steps=1}",
    "rounds={global_rounds=4,edge_rounds=1,local_steps=2,gossip_steps=1}",
)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Two policies on a regression task."""
    out = tmp_path_factory.mktemp("measures") / "compare"
    words = ["compare", "quickstart", *SETTINGS, "--policies", "fedrt,static-t", "--seeds", "0,1"]
    words += ["--engine", "sequential", "--device", "cpu", "--target", "9.0", "--target", "1e-9"]
    assert main([*words, "--allow-code", "--out", str(out)]) == 0
    return out


def test_tables_show_it_by_name(compared, capsys):
    assert main(["compare", "--resume", str(compared), "--allow-code"]) == 0
    out = capsys.readouterr().out
    assert "rmse of the average model, lower is better" in out
    assert "accuracy" not in out
    assert "never" in out


def test_the_best_is_the_least_and_targets_are_reached_from_above(compared):
    summary = json.loads((compared / run_name("fedrt", 0) / "summary.json").read_text())
    assert summary["measure"]["name"] == "rmse"
    assert 0 < summary["best_rmse"] <= summary["final_rmse"]
    assert summary["targets"]["9"]["time_s"] is not None
    assert summary["targets"]["1e-09"]["time_s"] is None
    further = summary["further_measures"]
    assert further["tuned_rmse_worst"] >= further["tuned_rmse_mean"]
    assert set(further) >= {"mae", "device_rmse_std"}


def test_a_page_has_its_curves_and_its_name(compared):
    data = collect([compared])
    assert data["problems"] == []
    assert data["measure"]["name"] == "rmse"
    assert not data["measure"]["is_share"]
    assert {"mae", "device_rmse_mean"} <= set(data["measure"]["more"])
    for line in data["lines"]:
        assert {"accuracy", "mae", "device_rmse_mean"} <= set(line["curves"])
        assert line["row"]["best_accuracy"]["mean"] > 0


def test_a_measure_is_known_before_the_run_has_ended():
    columns = ["global_round", "loss", "rmse", "edge_rmse_mean", "mae"]
    assert measure_in(columns) == Measure("rmse", higher_is_better=False, of_mean="root")
    assert measure_in(["global_round", "time_s"]) == ACCURACY
    assert measure_in(["mine", "edge_mine_mean"]).name == "mine"
    assert measure_of({"measure": 3}) == ACCURACY


def test_measures_of_a_users_own_are_checked():
    class Good:
        measures = {"f1": "higher", "cost": "lower"}  # noqa: RUF012

    assert [m.higher_is_better for m in own_measures(Good, "x")] == [True, False]
    for bad in ({}, {"f1": "more"}, {"loss": "lower"}, {"F 1": "higher"}, ["f1"]):
        Good.measures = bad
        with pytest.raises(InputError, match=r'^x: measures must be a dict of names to "higher"'):
            own_measures(Good, "x")


def test_words():
    rmse = Measure("rmse", higher_is_better=False)
    assert rmse.best([3.0, 1.0, 2.0]) == 1.0
    assert rmse.reaches(1.0, 1.0)
    assert not rmse.reaches(1.1, 1.0)
    assert (rmse.say(math.pi), ACCURACY.say(0.5)) == ("3.142", "50.00%")
    assert (rmse.say_difference(-0.25), ACCURACY.say_difference(0.01)) == ("-0.25", "+1.00")
    assert ACCURACY.say_difference(1e-9) == "0.00"


def test_a_run_whose_loss_is_no_number_any_more_says_so(trained_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained_run, run)
    table = parquet.read_table(run / "rounds.parquet")
    assert not any("finite" in note for note in collect([run])["notes"])
    # A round in which nobody trained, with numbers after it, is no reason for a note.
    nan, place = math.nan, table.column_names.index("loss")
    losses = {(1, 2, nan, math.inf, nan): 3, (nan,) * 5: 1, (1, nan, 1, 1, 1): None}
    for loss, since in losses.items():
        column = pa.array(map(float, loss), pa.float64())
        parquet.write_table(table.set_column(place, "loss", column), run / "rounds.parquet")
        notes = [note for note in collect([run])["notes"] if "finite" in note]
        said = f"run: the loss is not a finite number from round {since} on"
        assert notes == ([] if since is None else [said])
