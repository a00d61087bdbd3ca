"""`fedrt compare`: the same runs as one by one, with equal training done once."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pyarrow import parquet
from trained import TRAINING, differences, train, trained

from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.learning.engine_sequential import SequentialEngine
from fedrt.runs.compare import compare
from fedrt.runs.training import RunOptions

OPTIONS = [word for text in TRAINING for word in ("--set", text)]
POLICIES = ["fedrt", "static-t", "ce-fedavg", "mll-sgd"]


@pytest.fixture
def trainings(monkeypatch):
    """(t, r) of every edge round that an engine trains."""
    done, before = [], SequentialEngine.train

    def spy(self, models, order):
        done.append((order.t, order.r))
        return before(self, models, order)

    monkeypatch.setattr(SequentialEngine, "train", spy)
    return done


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "out"
    options = RunOptions(engine="sequential", targets=(0.5, 0.999))
    return out, compare(trained(), POLICIES, [0, 3], out, options)


def test_every_run_is_the_one_it_would_be_alone(compared, tmp_path):
    out, results = compared
    for policy in POLICIES:
        for i, seed in enumerate((0, 3)):
            alone = train(
                tmp_path / f"{policy}-{seed}", trained(), policy, seed, targets=(0.5, 0.999)
            )
            together = out / f"{policy}-{seed}"
            assert differences(alone, together) == [], (policy, seed)
            assert json.loads((together / "summary.json").read_text()) == results[policy][i]
            # No checkpoints, else the same files.
            assert {p.name for p in alone.iterdir()} - {p.name for p in together.iterdir()} == {
                "checkpoints",
                ".lock",
            }


def test_a_policy_with_a_state_starts_anew_for_every_seed(tmp_path):
    compare(trained(), ["trained:Moody"], [0, 3], tmp_path / "out", RunOptions(engine="sequential"))
    alone = train(tmp_path / "alone", trained(), "trained:Moody", 3)
    assert differences(alone, tmp_path / "out" / "trained.Moody-3") == []


def test_equal_trainings_are_done_once(trainings, tmp_path):
    compare(
        trained(), ["static-t", "ce-fedavg"], [0], tmp_path / "two", RunOptions(engine="sequential")
    )
    assert trainings == [(t, r) for t in range(5) for r in range(2)]
    trainings.clear()
    compare(trained(), ["ce-fedavg"], [0, 1], tmp_path / "seeds", RunOptions(engine="sequential"))
    assert len(trainings) == 2 * 10


def test_training_is_shared_up_to_the_first_difference(trainings, tmp_path):
    compare(
        trained(), ["static-t", "fedrt"], [0], tmp_path / "out", RunOptions(engine="sequential")
    )
    kept = parquet.read_table(tmp_path / "out" / "fedrt-0" / "rounds.parquet")["links_kept"]
    first = int(np.flatnonzero(kept.to_numpy() < 3)[0])
    # Mixing ends a round: those up to the first with other links train alike.
    twice = {turn for turn in trainings if trainings.count(turn) == 2}
    assert twice == {(t, r) for t in range(first + 1, 5) for r in range(2)}
    assert len(trainings) == 10 + len(twice)


def test_other_local_steps_share_nothing(trainings, tmp_path):
    scenario = trained("rounds.local_steps=6", "fleet.energy_j_per_edge_round=0.1")
    compare(
        scenario, ["ce-fedavg", "mll-sgd"], [0], tmp_path / "out", RunOptions(engine="sequential")
    )
    steps = parquet.read_table(tmp_path / "out" / "mll-sgd-0" / "devices.parquet")["local_steps"]
    assert len(set(steps.to_pylist())) > 1
    assert len(trainings) == 20


def test_the_json_and_the_picture(compared, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["compare", *OPTIONS, "--policies", ",".join(POLICIES), "--seeds", "0,3"]
    words += ["--target", "0.5", "--target", "0.999", "--out", str(out)]
    assert main([*words, "--json"]) == 0
    text, err = capsys.readouterr()
    assert err == ""
    assert text.count("\n") == 1
    shape = json.loads(text)
    assert shape == json.loads((out / "comparison.json").read_text())
    assert shape["scenario"] == "tiny"
    assert shape["first"] == "fedrt"
    assert list(shape["policies"]) == POLICIES
    _, results = compared
    for name, policy in shape["policies"].items():
        for key in ("total_time_s", "energy_j_mean", "best_accuracy", "final_accuracy"):
            values = [run[key] for run in results[name]]
            assert policy[key]["per_seed"] == values
            assert policy[key]["mean"] == pytest.approx(np.mean(values))
            assert policy[key]["std"] == pytest.approx(np.std(values, ddof=1))
        assert policy["targets"]["0.5"][1] == results[name][1]["targets"]["0.5"]
        assert policy["targets"]["0.999"] == [{"time_s": None, "energy_j_mean": None}] * 2
    mine, first = (results[name][1]["best_accuracy"] for name in ("mll-sgd", "fedrt"))
    paired = shape["policies"]["mll-sgd"]["minus_first"]
    assert paired["best_accuracy"]["per_seed"][1] == mine - first
    assert shape["policies"]["fedrt"]["minus_first"]["total_time"]["per_seed"] == [0, 0]
    assert (out / "accuracy.png").stat().st_size > 10_000
    assert (out / "accuracy.svg").exists()
    # The folder is taken now.
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"{out}: exists already")


def test_the_table_shows_paired_differences(compared, capsys, monkeypatch):
    from fedrt.report.learning import print_training_comparison

    monkeypatch.setenv("COLUMNS", "200")
    _, results = compared
    print_training_comparison(trained(), results)
    text = capsys.readouterr().out
    assert "best - fedrt" in text
    assert "time - fedrt" in text
    row = next(line for line in reversed(text.splitlines()) if "static-t" in line)
    time = [
        a["total_time_s"] / b["total_time_s"] - 1
        for a, b in zip(results["static-t"], results["fedrt"], strict=True)
    ]
    assert f"{np.mean(time):+.1%} ±{np.std(time, ddof=1):.1%}" in row
    assert row.rstrip(" │").endswith("never")


def test_a_target_that_some_seeds_reach(compared, capsys, monkeypatch):
    from fedrt.report.learning import print_training_comparison

    monkeypatch.setenv("COLUMNS", "200")
    _, results = compared
    one = {"time_s": 1.0, "energy_j_mean": 1.0}
    runs = [results["fedrt"][0] | {"targets": {"0.9": one}}, results["fedrt"][1]]
    runs[1] = runs[1] | {"targets": {"0.9": {"time_s": None, "energy_j_mean": None}}}
    print_training_comparison(trained(), {"fedrt": runs})
    assert "1 of 2 seeds" in capsys.readouterr().out


@pytest.mark.parametrize("options", [{"engine": "warp"}, {"device": "warp"}])
def test_a_start_that_cannot_be_leaves_nothing_behind(options, tmp_path):
    with pytest.raises(InputError, match="warp"):
        compare(trained(), ["fedrt"], [0], tmp_path / "out", RunOptions(**options))
    assert not (tmp_path / "out").exists()
