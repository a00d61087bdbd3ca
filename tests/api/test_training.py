"""`fedrt.run` and `fedrt.compare` with models, data and policies defined in Python code."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pandas
import pytest
import torch
from support.children import LIMIT_S, environment
from support.paths import ROOT
from support.tiny import as_options, tiny
from torch import nn
from torch.utils.data import TensorDataset

import fedrt
from fedrt.cli import main
from fedrt.policies import FedRT
from fedrt.scenario import scenario_text

FEW = ("rounds.global_rounds=2", "learning.evaluate_every=1")
SMALL = "rounds={global_rounds=2,edge_rounds=1,local_steps=2,gossip_steps=2}"


class Net(nn.Module):
    """A small model of a user's own."""

    def __init__(self, shape, classes):
        super().__init__()
        self.norm = nn.LayerNorm(shape)
        self.head = nn.Linear(int(np.prod(shape)), classes)

    def forward(self, x):
        return self.head(torch.tanh(self.norm(x)).flatten(1))


class Plain(nn.Module):
    """A model that needs to be told nothing."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(x)


class Own(FedRT):
    """A policy of a user's own, which can be stopped."""

    name = "own"
    stops_at = None

    def plan(self, seen, books):
        if seen.t == self.stops_at:
            raise KeyboardInterrupt
        return super().plan(seen, books)


def arrays(count=200, features=4):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, features)).astype(np.float32)
    y = (x.sum(1) > 0).astype(np.int64)
    return x[: count // 2], y[: count // 2], x[count // 2 :], y[count // 2 :]


def images(count=120):
    rng = np.random.default_rng(0)
    x = rng.random((count, 3, 4, 2), dtype=np.float32)
    return x, rng.integers(3, size=count), x[:50], rng.integers(3, size=50)


@pytest.fixture
def where(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(**asked):
    return fedrt.run(tiny(SMALL), **{"progress": False, "device": "cpu", **asked})


def test_a_run_with_objects_has_tables_and_says_what_it_was(where):
    run = train(policy=Own(), model=Net, data=images(), engine="sequential", seed=3)
    assert run.folder == where.relative_to(where) / "runs/run-tiny-1"
    assert list(run.rounds["global_round"]) == [0, 1]
    assert set(run.rounds["policy"]) == {"own"}
    assert set(run.devices["device"]) == set(range(7))
    assert run.summary["seed"].tolist() == [3]
    assert run.outcome["final_accuracy"] == run.rounds["accuracy"].iloc[-1]
    said = (run.folder / "config.toml").read_text()
    assert 'model = "python:Net"' in said
    assert 'dataset = "python:data"' in said
    axes = run.plot("loss", against="round").axes[0]
    assert axes.get_xlabel() == "global round"
    assert axes.lines[0].get_xdata()[0] == 1
    assert "saved in" in run._repr_html_()
    assert "<table" in run._repr_html_()
    assert run.page().path.stat().st_size > 10**6


@pytest.mark.parametrize("form", ["arrays", "tensors", "sets", "dict", "function"])
def test_data_in_every_form_train_alike(where, form):
    x, y, x_test, y_test = images()
    first = [torch.from_numpy(np.moveaxis(each, -1, 1)) for each in (x, x_test)]
    labels = [torch.from_numpy(each) for each in (y, y_test)]
    train_set, test_set = (TensorDataset(*pair) for pair in zip(first, labels, strict=True))
    names = ("x_train", "y_train", "x_test", "y_test")
    given = {
        "arrays": (x, y, x_test, y_test),
        "tensors": (first[0], labels[0], first[1], labels[1]),
        "sets": (train_set, test_set),
        "dict": dict(zip(names, (x, y, x_test, y_test), strict=True)),
        "function": lambda: (x, y, x_test, y_test),
    }
    run = train(model=Net, data=given[form], engine="sequential")
    np.savez(where / "same.npz", **given["dict"])
    same = train(model=Net, data=where / "same.npz", engine="sequential")
    assert run.rounds["loss"].tolist() == same.rounds["loss"].tolist()


@pytest.mark.parametrize("form", ["arrays", "sets"])
def test_every_device_gets_the_samples_of_its_owner(where, form):
    x, y, x_test, y_test = arrays()
    owner = np.repeat(np.arange(7), [20, 10, 15, 15, 10, 20, 10])
    given = dict(zip(("x_train", "y_train", "x_test", "y_test"), arrays(), strict=True))
    if form == "sets":
        pairs = ((torch.from_numpy(a), torch.from_numpy(b)) for a, b in ((x, y), (x_test, y_test)))
        given = dict(zip(("train", "test"), (TensorDataset(*pair) for pair in pairs), strict=True))
    run = fedrt.run(
        tiny(SMALL, 'learning.partition={kind="owner"}'),
        model=Plain,
        data={**given, "owner_train": owner},
        engine="sequential",
        progress=False,
    )
    held = pandas.read_parquet(run.folder / "partition.parquet").groupby("device")["samples"].sum()
    assert sorted(held) == sorted(np.bincount(owner))


def test_objects_reach_worker_processes(where):
    """Two processes, copies of this one: a class of a test is in no module they could import."""
    alone = train(model=Net, data=images(), workers=1, chunk=2)
    both = train(model=Net, data=images(), workers=2, chunk=2)
    np.testing.assert_allclose(alone.rounds["loss"], both.rounds["loss"], rtol=1e-5)


def test_a_script_may_train_in_two_processes_as_it_stands(where):
    """It says nothing of `__main__`, and Python does not run it again in the other processes."""
    (where / "script.py").write_text(
        "import fedrt\n"
        f"scenario = fedrt.read_scenario({scenario_text(tiny(SMALL))!r})\n"
        "run = fedrt.run(scenario, workers=2, chunk=2, device='cpu', progress=False)\n"
        "print('trained', run.outcome['global_rounds'])\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"],
        env=environment(ROOT / "src"),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stdout) == (0, "trained 2\n"), done.stderr


def test_a_model_may_be_an_object_that_keeps_its_weights(where):
    net = Plain()
    before = net.head.weight.detach().clone()
    runs = [train(model=each, data=arrays(), engine="sequential") for each in (net, Plain)]
    assert torch.equal(net.head.weight, before)
    assert runs[0].rounds["loss"].tolist() != runs[1].rounds["loss"].tolist()
    again = train(model=net, data=arrays(), engine="sequential")
    assert runs[0].rounds["loss"].tolist() == again.rounds["loss"].tolist()


def test_resuming_asks_for_the_objects_again(where, capsys, monkeypatch):
    given = {"policy": Own(), "model": Net, "data": images()}
    whole = train(engine="sequential", **given)
    monkeypatch.setattr(Own, "stops_at", 1)
    with pytest.raises(KeyboardInterrupt):
        train(engine="sequential", out="stopped", **given)
    assert "go on with: fedrt.run(resume='stopped', ...)" in capsys.readouterr().err
    monkeypatch.setattr(Own, "stops_at", None)
    assert main(["run", "--resume", "stopped"]) == 2
    line = capsys.readouterr().err
    assert '= "python:' in line
    assert "was an object of a Python program" in line
    with pytest.raises(fedrt.InputError, match=r"the source of python:Net .* was changed"):
        fedrt.run(resume="stopped", progress=False, **given | {"model": Plain})
    went_on = fedrt.run(resume="stopped", progress=False, **given)
    assert went_on.rounds["loss"].tolist() == whole.rounds["loss"].tolist()


def test_a_comparison_of_names_and_objects(where):
    study = fedrt.compare(
        tiny(*FEW, "rounds.local_steps=1"),
        policies=["fedrt", Own, Own()],
        seeds=range(2),
        model=Net,
        data=images(),
        progress=False,
        device="cpu",
    )
    assert study.summary[["policy", "seed"]].values.tolist() == [
        [policy, seed] for policy in ("fedrt", "python:Own", "python:Own_2") for seed in (0, 1)
    ]
    first, own = study.run("fedrt", 1), study.run("python:Own", 1)
    assert first.rounds["loss"].tolist() == own.rounds["loss"].tolist()
    assert len(study.rounds) == 3 * 2 * 2
    assert study.plot("accuracy", against="time").axes[0].get_legend_handles_labels()[1] == [
        *("fedrt", "python:Own", "python:Own_2")
    ]
    with pytest.raises(fedrt.InputError, match="seed 7: is not here"):
        study.run("fedrt", 7)


def test_a_comparison_without_training_is_the_estimate_of_the_command(where, capsys):
    study = fedrt.compare(tiny(), policies=["fedrt", "static-t"], train=False, progress=False)
    words = ["estimate", *as_options(), "--policies", "fedrt,static-t", "--out", "typed"]
    assert main(words) == 0
    for name in ("fedrt-0", "static-t-0"):
        ours, theirs = (at / name / "rounds.parquet" for at in (study.folder, where / "typed"))
        assert ours.read_bytes() == theirs.read_bytes()
    assert "accuracy" not in study.rounds
    assert study.plot("accuracy", against="time").axes[0].get_ylabel() == "energy_j_mean"
    assert "so that there is no accuracy" in capsys.readouterr().err
    with pytest.raises(fedrt.InputError, match='"energy_j_maen": must be a column'):
        study.plot("energy_j_maen")


class Fails(Net):
    """A model that works on zeros, and not on real data."""

    def forward(self, x):
        if x.abs().sum() > 0:
            raise ValueError("not these")
        return super().forward(x)


@pytest.mark.parametrize("asked", [{"engine": "sequential"}, {"workers": 1}, {"workers": 2}])
def test_a_model_that_fails_on_real_data_is_a_line_with_its_place(where, asked):
    with pytest.raises(fedrt.InputError) as raised:
        train(model=Fails, data=images(), chunk=2, **asked)
    assert re.fullmatch(
        r"scenario\.learning\.model: [\w.]+:Fails failed on real data:"
        r" ValueError: not these \(test_training\.py, line \d+\)",
        str(raised.value),
    )
    assert list(where.rglob("*")) == [where / "runs"]


@pytest.mark.parametrize(
    ("asked", "typed"),
    [
        ({"policy": "nope"}, ["--policy", "nope"]),
        ({"seed": -1}, ["--seed", "-1"]),
        ({"engine": "fast"}, ["--engine", "fast"]),
        ({"chunk": 0, "workers": "x"}, ["--chunk", "0", "--workers", "x"]),
        ({"targets": [2]}, ["--target", "2"]),
        ({"address": "a:1"}, ["--address", "a:1"]),
        ({"device": "meta"}, ["--device", "meta"]),
        ({"overwrite": True}, ["--overwrite"]),
        ({"resume": "nowhere"}, ["--resume", "nowhere"]),
        ({"resume": ".", "seed": 1}, ["--resume", ".", "--seed", "1"]),
    ],
)
def test_bad_input_gets_the_line_of_the_command(where, asked, typed, capsys):
    """With the name of a parameter where the command has its option."""
    from fedrt.cli.parser import with_options

    with pytest.raises(fedrt.InputError) as raised:
        fedrt.run(progress=False, **asked)
    assert main(["run", *typed]) == 2
    assert capsys.readouterr().err == f"{with_options(str(raised.value))}\n"
    assert not list(where.rglob("*.toml"))


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (3, 'data "int": must be (x, y, x_test, y_test)'),
        ((1, 2, 3), "must be (x, y, x_test, y_test)"),
        ((images()[0], [1, 2], images()[2], images()[3]), "y_train"),
        (([(1,)], [(2,)]), "data"),
    ],
)
def test_bad_data_is_a_line_and_leaves_nothing(where, data, line):
    with pytest.raises(fedrt.InputError, match=re.escape(line)):
        train(model=Net, data=data)
    assert not list(where.rglob("*.toml"))
