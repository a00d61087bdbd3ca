"""`fedrt compare`: the same runs as one by one, with equal training done once."""

from __future__ import annotations

import json
from contextlib import contextmanager

import numpy as np
import pytest
from kill_campaign import differences
from pyarrow import parquet
from support.trained import TRAINING, train, trained

from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.learning.engines.sequential import SequentialEngine
from fedrt.records.directory import RunDirectory
from fedrt.studies.compare import go_on, read_comparison, start_comparison
from fedrt.studies.training import RunOptions

OPTIONS = [word for text in TRAINING for word in ("--set", text)]
POLICIES = ["fedrt", "static-t", "ce-fedavg", "mll-sgd"]


def compare(scenario, policies, seeds, out, options, progress=None):
    said = start_comparison(scenario, policies, seeds, out, options)
    return go_on(said, progress, quiet, fresh=True)


def quiet(line):
    pass


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
            names = [{path.name for path in run.iterdir()} for run in (alone, together)]
            assert names[0] - names[1] == {"checkpoints"}
            assert names[1] <= names[0]


def test_a_policy_with_a_state_starts_anew_for_every_seed(tmp_path):
    compare(
        trained(),
        ["support.trained:Moody"],
        [0, 3],
        tmp_path / "out",
        RunOptions(engine="sequential"),
    )
    alone = train(tmp_path / "alone", trained(), "support.trained:Moody", 3)
    assert differences(alone, tmp_path / "out" / "support.trained.Moody-3") == []


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


def test_runs_in_which_nothing_happens_are_compared(tmp_path, capsys):
    """All servers are down: no time passes and nobody trains."""
    down = ["--set", 'faults.server_down={kind="random",probability=1}']
    words = ["compare", *OPTIONS, *down, "--policies", "static-t,fedrt", "--engine", "sequential"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    shape = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert shape["policies"]["fedrt"]["minus_first"]["total_time"]["per_seed"] == [0]
    assert "fedrt" in capsys.readouterr().out


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


class Stopped(KeyboardInterrupt):
    """A stop after so many rounds of all policies and seeds together."""

    @staticmethod
    def after(rounds):
        left = [rounds]

        def progress(name, seed, done):
            left[0] -= 1
            if not left[0]:
                raise Stopped

        return progress


def stop_after(rounds, policies, out, **options):
    """A comparison on seed 0, stopped after so many rounds of all policies together."""
    said = RunOptions(engine="sequential", **options)
    with pytest.raises(Stopped):
        compare(trained(), policies, [0], out, said, Stopped.after(rounds))


@pytest.mark.parametrize("rounds", [1, 6, 19, 20, 21, 33, 39])
def test_a_stopped_comparison_goes_on_as_if_nothing_had_happened(compared, rounds, tmp_path):
    """Four policies of five rounds on two seeds: stops in a round, between rounds and seeds."""
    whole, results = compared
    out, lines = tmp_path / "out", []
    options = RunOptions(engine="sequential", targets=(0.5, 0.999))
    with pytest.raises(Stopped):
        compare(trained(), POLICIES, [0, 3], out, options, Stopped.after(rounds))
    assert not (out / "comparison.json").exists()
    again = go_on(read_comparison(out), note=lines.append)
    for policy in POLICIES:
        for i, seed in enumerate((0, 3)):
            assert differences(whole / f"{policy}-{seed}", out / f"{policy}-{seed}") == []
            timeless = [
                {k: v for k, v in summary.items() if k != "wall_s"}
                for summary in (again[policy][i], results[policy][i])
            ]
            assert timeless[0] == timeless[1]
    assert bool(lines) == (rounds not in (1, 21))
    assert all("going on after global round" in line for line in lines)
    assert not list(out.glob("*/checkpoints")) + list(out.glob("*/records"))


def test_equal_work_is_done_once_after_a_stop_too(trainings, tmp_path):
    """Static-T is a round ahead of CE-FedAvg when the stop comes; it goes back to meet it."""
    pair = ["static-t", "ce-fedavg"]
    stop_after(5, pair, tmp_path / "out")
    assert trainings == [(t, r) for t in range(3) for r in range(2)]
    trainings.clear()
    go_on(read_comparison(tmp_path / "out"), note=quiet)
    assert trainings == [(t, r) for t in range(2, 5) for r in range(2)]


def test_models_that_differ_at_the_stop_are_not_shared(trainings, compared, tmp_path):
    whole, _ = compared
    pair = ["static-t", "fedrt"]
    kept = parquet.read_table(whole / "fedrt-0" / "rounds.parquet")["links_kept"].to_numpy()
    first = int(np.flatnonzero(kept < 3)[0])
    stop_after(2 * (first + 1), pair, tmp_path / "out", targets=(0.5, 0.999))
    go_on(read_comparison(tmp_path / "out"), note=quiet)
    for policy in pair:
        assert differences(whole / f"{policy}-0", tmp_path / "out" / f"{policy}-0") == []


def test_a_run_that_had_ended_is_not_run_again(trainings, tmp_path):
    out = tmp_path / "out"
    options = RunOptions(engine="sequential")
    results = compare(trained(), ["static-t", "mll-sgd"], [0], out, options)
    (out / "mll-sgd-0" / "summary.json").unlink()
    trainings.clear()
    again = go_on(read_comparison(out), note=quiet)
    assert len(trainings) == 10
    assert again["static-t"] == results["static-t"]
    trainings.clear()
    go_on(read_comparison(out), note=quiet)
    assert trainings == []


def test_stopping_says_how_to_go_on_and_that_works(compared, tmp_path, capsys, monkeypatch):
    out = tmp_path / "a folder"
    monkeypatch.setattr("fedrt.api.training.comparison_progress", lambda *a, **k: stopping())
    words = ["compare", *OPTIONS, "--policies", ",".join(POLICIES), "--seeds", "0,3"]
    words += ["--target", "0.5", "--target", "0.999", "--engine", "sequential"]
    assert main([*words, "--out", str(out)]) == 130
    said = capsys.readouterr().err
    assert said.startswith(f"stopped; go on with: fedrt compare --resume '{out}' --allow-code\n")
    monkeypatch.undo()
    assert main(["compare", "--allow-code", "--resume", str(out), "--json"]) == 0
    shape = json.loads(capsys.readouterr().out)
    assert shape == json.loads((out / "comparison.json").read_text())
    mine, whole = shape["policies"], json.loads((compared[0] / "comparison.json").read_text())
    for name, policy in whole["policies"].items():
        assert mine[name]["total_time_s"] == policy["total_time_s"]
        assert mine[name]["best_accuracy"] == policy["best_accuracy"]


@contextmanager
def stopping():
    yield Stopped.after(7)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--seeds", "1"], "--resume: takes everything from its directory, not --seeds"),
        (["quickstart"], "--resume: takes everything from its directory, not SCENARIO"),
        (["--address", "local"], "trains with --engine sequential, not ray"),
    ],
)
def test_resuming_takes_nothing_else(compared, words, complaint, capsys):
    assert main(["compare", "--allow-code", "--resume", str(compared[0]), *words]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


def test_what_is_no_comparison_is_refused(compared, tmp_path, capsys):
    run = compared[0] / "fedrt-0"
    (tmp_path / "empty").mkdir()
    for path, complaint in (
        (run, "is no comparison that can go on"),
        (tmp_path / "empty", "is not a comparison: it has no run.json"),
        (tmp_path / "nowhere", "is not a comparison: it has no run.json"),
    ):
        assert main(["compare", "--allow-code", "--resume", str(path)]) == 2
        said = capsys.readouterr().err
        assert complaint in said
        assert said.count("\n") == 1


def test_two_processes_do_not_train_the_same_comparison(tmp_path):
    out = tmp_path / "out"
    stop_after(1, ["fedrt"], out)
    with RunDirectory(out / "fedrt-0").locked(), pytest.raises(InputError, match="another process"):
        go_on(read_comparison(out), note=quiet)
