"""Whole trained runs: what they give, that they repeat, and how they stop."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from kill_campaign import differences
from pyarrow import parquet
from support.children import LIMIT_S, environment
from support.trained import go_on, start, train, trained

from fedrt.errors import FedrtError, InfeasibleError, InputError
from fedrt.learning.engines.engine import DivergedError
from fedrt.records.checkpoint import Checkpoints
from fedrt.scenario import load_scenario
from fedrt.studies.estimates import estimate
from fedrt.studies.training import carry_on

pytestmark = pytest.mark.numerical

WHOLE = {
    "identity.json",
    "inputs.json",
    *("config.toml", "run.json", "environment.json", "summary.json", "checkpoints", ".lock"),
    *("rounds.parquet", "edges.parquet", "links.parquet", "devices.parquet"),
    "partition.parquet",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(tmp_path_factory.mktemp("runs") / "run", trained(), targets=(0.5, 0.999))


def rounds_of(run):
    table = parquet.read_table(run / "rounds.parquet")
    return {name: table[name].to_numpy() for name in table.column_names}


def test_a_finished_directory_holds_everything(run):
    assert {path.name for path in run.iterdir()} == WHOLE
    said = json.loads((run / "run.json").read_text())
    assert said["options"]["targets"] == [0.5, 0.999]
    assert load_scenario(run / "config.toml") == trained()


def test_the_summary(run):
    summary, rounds = json.loads((run / "summary.json").read_text()), rounds_of(run)
    assert (summary["policy"], summary["seed"], summary["trained"]) == ("fedrt", 0, True)
    assert summary["total_time_s"] == rounds["ends_at_s"][-1]
    assert summary["energy_j_mean"] == rounds["energy_j_mean"][-1]
    assert summary["energy_j_max"] == rounds["energy_j_max"][-1]
    assert summary["over_budget_devices"] == rounds["over_budget_devices"][-1] == 0
    assert summary["best_accuracy"] == np.nanmax(rounds["accuracy"])
    assert summary["final_accuracy"] == rounds["accuracy"][-1]
    assert summary["wall_s"] == pytest.approx(rounds["wall_s"].sum())
    first = np.flatnonzero(rounds["accuracy"] >= 0.5)[0]
    assert summary["targets"] == {
        "0.5": {
            "time_s": rounds["ends_at_s"][first],
            "energy_j_mean": rounds["energy_j_mean"][first],
        },
        "0.999": {"time_s": None, "energy_j_mean": None},
    }


def test_the_rounds(run):
    rounds = rounds_of(run)
    for name in ("loss", "consensus", "zeta", "omega_2", "wall_s"):
        assert np.isfinite(rounds[name]).all(), name
    assert rounds["loss"][-1] < rounds["loss"][0]
    # Where all servers are linked to all, gossip gives them the same model to the bit.
    assert (rounds["consensus"] >= 0).all()
    assert (rounds["consensus"] > 0).sum() >= 3
    # Every second round and at the end.
    for name in ("accuracy", "edge_accuracy_mean", "edge_accuracy_min", "edge_accuracy_max"):
        assert np.flatnonzero(~np.isnan(rounds[name])).tolist() == [1, 3, 4]
    there = ~np.isnan(rounds["accuracy"])
    low, mean, high = (rounds[f"edge_accuracy_{word}"][there] for word in ("min", "mean", "max"))
    assert ((low <= mean) & (mean <= high)).all()
    links = parquet.read_table(run / "links.parquet")
    assert (links["true_distance"].to_numpy() > 0).all()


def test_the_same_seed_gives_the_same_run(run, tmp_path):
    assert differences(run, train(tmp_path / "again", trained(), targets=(0.5, 0.999))) == []
    other = differences(run, train(tmp_path / "other", trained(), seed=1, targets=(0.5, 0.999)))
    assert {"rounds.loss", "rounds.time_s"} <= {line.split(":")[0] for line in other}


@pytest.mark.slow
def test_the_same_run_in_another_process(run, tmp_path):
    path = start(tmp_path / "run", trained(), targets=(0.5, 0.999))
    code = "from pathlib import Path; from support.trained import go_on; go_on(Path('run'))"
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(PYTHONHASHSEED="7"),
        check=True,
        capture_output=True,
        timeout=LIMIT_S,
    )
    assert differences(run, path) == []


@pytest.mark.parametrize("policy", ["fedrt", "static-t", "ce-fedavg", "mll-sgd"])
def test_times_and_energies_are_those_of_an_estimate(policy, tmp_path):
    """With kappa = 1 links are chosen for their speed alone, whatever the distances are."""
    scenario = trained("control.kappa=1")
    ran = train(tmp_path / "run", scenario, policy)
    estimate(scenario, [policy], [0], tmp_path / "estimate")
    for name in ("rounds", "edges", "links", "devices"):
        guess = parquet.read_table(tmp_path / "estimate" / f"{policy}-0" / f"{name}.parquet")
        real = parquet.read_table(ran / f"{name}.parquet")
        columns = [column for column in guess.column_names if column != "distance"]
        assert real.select(columns).equals(guess.select(columns)), name
        assert name in ("edges", "devices") or len(real.column_names) > len(guess.column_names)


@pytest.mark.parametrize(("every", "keep"), [(1, 1), (1, 3), (2, 2), (9, 1)])
def test_checkpoints_are_bounded(every, keep, tmp_path):
    path = start(tmp_path / "run", trained(), checkpoint_every=every, keep_checkpoints=keep)
    folder, seen = path / "checkpoints", []

    def step(done):
        seen.append(sorted(int(p.stem) for p in folder.iterdir()) if folder.exists() else [])
        assert len(list((path / "records").iterdir())) == done.last.t + 1

    carry_on(path, step)
    due = [n for n in range(1, 6) if n % every == 0 or n == 5]
    assert seen == [[n for n in due if n <= done][-keep:] for done in range(1, 6)]
    assert not (path / "records").exists()


def test_divergence_keeps_the_last_good_checkpoint(tmp_path):
    path = start(tmp_path / "run", trained("learning.model=support.trained:Brittle"))
    with pytest.raises(DivergedError) as caught:
        go_on(path)
    assert caught.value.exit_code == 4
    (line,) = caught.value.lines
    assert line.startswith("global round 3, edge round ")
    assert "learning_rate" in line
    rounds = rounds_of(path)
    assert rounds["global_round"].tolist() == [0, 1, 2]
    assert np.isfinite(rounds["loss"]).all()
    newest = sorted((path / "checkpoints").iterdir())[-1]
    assert newest.stem == "000003"
    with np.load(newest) as state:
        assert np.isfinite(state["models"]).all()
    assert not (path / "summary.json").exists()
    # It is as it was, so it diverges again, in the same words.
    with pytest.raises(DivergedError) as again:
        go_on(path)
    assert again.value.lines == [line]


def test_a_strict_budget_that_breaks_later_stops_with_a_checkpoint(tmp_path):
    trace = tmp_path / "trace.csv"
    rows = [
        f"{t},{r},{n},{-25 if (t, n) == (2, 4) else 12}"
        for t in range(5)
        for r in range(2)
        for n in range(7)
    ]
    trace.write_text("\n".join(["global_round,edge_round,device,snr_db", *rows]) + "\n")
    settings = [
        f'channel={{kind="trace",file="{trace}"}}',
        'control.budgets="strict"',
        "fleet.energy_j_per_edge_round=0.05",
    ]
    path = start(tmp_path / "run", trained(*settings))
    with pytest.raises(InfeasibleError, match="global round 2"):
        carry_on(path, fresh=True)
    assert rounds_of(path)["global_round"].tolist() == [0, 1]
    assert [p.stem for p in sorted((path / "checkpoints").iterdir())] == ["000001", "000002"]


@pytest.mark.parametrize(
    ("settings", "options", "error"),
    [
        ((), {"engine": "warp"}, InputError),
        ((), {"device": "warp"}, InputError),
        (('learning.dataset="cifar10"',), {"data_dir": "/nowhere"}, InputError),
        (('learning.model="support.trained:Missing"',), {}, InputError),
        (('control.budgets="strict"', "fleet.energy_j_per_edge_round=1e-9"), {}, InfeasibleError),
    ],
)
def test_a_start_that_cannot_be_leaves_nothing_behind(settings, options, error, tmp_path):
    # A model that is not there is missed before the folder is made, the rest after it.
    begins = not any("Missing" in setting for setting in settings)
    for fresh in (False, True):
        path = tmp_path / str(fresh)
        with pytest.raises(error):
            carry_on(start(path, trained(*settings), **options), fresh=fresh)
        assert path.exists() == (begins and not fresh)


def test_what_stopped_a_run_is_told_even_if_the_tables_cannot_be_saved(tmp_path, monkeypatch):
    path = start(tmp_path / "run", trained())

    def full(self, *args):
        raise FedrtError("no room for tables")

    monkeypatch.setattr("fedrt.records.directory.RunDirectory.save", full)
    monkeypatch.setattr("fedrt.records.directory.RunDirectory.save_sometimes", lambda *args: None)

    def no_room(self, rounds, state):
        raise FedrtError("no room for checkpoints")

    monkeypatch.setattr(Checkpoints, "save", no_room)
    with pytest.raises(FedrtError, match="no room for checkpoints"):
        go_on(path)


def test_tensorboard_logs_every_round_once(run, tmp_path):
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    path = start(tmp_path / "run", trained(), tensorboard=True, targets=(0.5, 0.999))

    class StopError(BaseException):
        pass

    def step(done):
        if done.last.t == 2:
            raise StopError

    with pytest.raises(StopError):
        carry_on(path, step)
    go_on(path)
    assert differences(run, path) == []
    events = event_accumulator.EventAccumulator(str(path / "tensorboard"))
    events.Reload()
    losses = events.Scalars("loss")
    assert [event.step for event in losses] == [0, 1, 2, 3, 4]
    assert np.allclose([event.value for event in losses], rounds_of(run)["loss"], rtol=1e-6)
    assert [event.step for event in events.Scalars("accuracy")] == [1, 3, 4]


def test_a_log_that_cannot_be_written_is_one_line(tmp_path):
    pytest.importorskip("tensorboard")
    path = start(tmp_path / "run", trained(), tensorboard=True)
    (path / "tensorboard").write_text("in the way")
    with pytest.raises(FedrtError, match="tensorboard: cannot be written: "):
        go_on(path)


def test_without_tensorboard_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    path = start(tmp_path / "run", trained(), tensorboard=True)
    with pytest.raises(InputError, match=r"pip install 'fedrt\[tensorboard\]'"):
        go_on(path)
