"""Callbacks hear of every round once, also over a stop, and what they raise is a line."""

from __future__ import annotations

import pytest
from support.tiny import as_options, tiny

import fedrt
from fedrt.callbacks import LOGGERS
from fedrt.cli import main

SMALL = ("rounds={global_rounds=3,edge_rounds=1,local_steps=2,gossip_steps=1}",)
SMALL = (*SMALL, "learning.evaluate_every=1")
QUICK = {"engine": "sequential", "device": "cpu", "progress": False}


class Listens(fedrt.Callback):
    """Notes what it hears."""

    def __init__(self):
        self.heard = []

    def round_begins(self, run, t):
        self.heard.append(("begins", run.policy, run.seed, t))

    def round_ended(self, run, record):
        self.heard.append(("ended", run.policy, run.seed, record["global_round"]))
        self.record = record

    def run_ended(self, run, summary):
        self.heard.append(("run", run.policy, run.seed, summary["global_rounds"]))


@pytest.fixture(autouse=True)
def where(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rounds(policy, numbers):
    return [(event, policy, 0, t) for t in numbers for event in ("begins", "ended")]


def test_every_round_and_the_end_are_told_in_order():
    listens = Listens()
    run = fedrt.run(tiny(*SMALL), callbacks=[listens], **QUICK)
    assert listens.heard == [*rounds("fedrt", range(3)), ("run", "fedrt", 0, 3)]
    last = run.rounds.iloc[-1].drop(["policy", "seed"]).to_dict()
    assert listens.record == pytest.approx(last, nan_ok=True)
    assert all(isinstance(value, float | int | str) for value in listens.record.values())


def test_a_comparison_tells_of_all_its_runs_a_round_of_each_at_a_time():
    listens = Listens()
    fedrt.compare(tiny(*SMALL), policies="fedrt,static-t", callbacks=[listens], **QUICK)
    for policy in ("fedrt", "static-t"):
        mine = [each for each in listens.heard if each[1] == policy]
        assert mine == [*rounds(policy, range(3)), ("run", policy, 0, 3)]
    assert [each[1] for each in listens.heard[:4]] == ["fedrt", "fedrt", "static-t", "static-t"]


def test_a_resumed_run_tells_only_of_what_is_new():
    class Stops(Listens):
        def round_begins(self, run, t):
            if t == 2:
                raise KeyboardInterrupt
            super().round_begins(run, t)

    stops, listens = Stops(), Listens()
    with pytest.raises(KeyboardInterrupt):
        fedrt.run(tiny(*SMALL), callbacks=[stops], out="run", **QUICK)
    fedrt.run(resume="run", callbacks=[listens], progress=False)
    assert stops.heard == rounds("fedrt", range(2))
    assert listens.heard == [*rounds("fedrt", [2]), ("run", "fedrt", 0, 3)]


class Fails:
    """A callback of which one method raises."""

    def round_begins(self, run, t):
        raise ValueError("not\nnow")


def test_what_a_callback_raises_is_a_line_and_nothing_stays_behind(where):
    with pytest.raises(fedrt.InputError) as raised:
        fedrt.run(tiny(*SMALL), callbacks=[Fails()], **QUICK)
    begin = "callbacks: Fails.round_begins: ValueError: not now (test_callbacks.py, line "
    assert str(raised.value).startswith(begin)
    assert not list(where.rglob("*.toml"))
    with pytest.raises(fedrt.InputError, match='callbacks: "int" has none of the methods'):
        fedrt.run(tiny(*SMALL), callbacks=[3], **QUICK)


def test_a_run_stops_where_its_measure_is_good_enough(capsys):
    whole = fedrt.run(tiny(*SMALL), **QUICK)
    first = whole.rounds["accuracy"][0]
    words = [*as_options(*SMALL), "--engine", "sequential", "--out", "out"]
    assert main(["run", *words, "--stop-at", f"accuracy={first}", "--checkpoint-every", "3"]) == 0
    assert "stopped early" in capsys.readouterr().out
    run = fedrt.run(resume="out", progress=False)
    assert run.outcome["global_rounds"] == 1
    assert run.outcome["stopped"]["after_global_round"] == 0
    assert run.outcome["final_accuracy"] == first
    assert run.model() is not None
    assert run.page().path.stat().st_size > 10**6


def test_a_run_stops_where_its_measure_no_longer_improves():
    quick = QUICK | {"stop_at": "loss=0", "patience": 2}
    run = fedrt.run(tiny(*SMALL, "rounds.global_rounds=8", "learning.learning_rate=1e-9"), **quick)
    losses = run.rounds["loss"].tolist()
    best = losses.index(min(losses[: len(losses) - 2]))
    assert len(losses) == best + 3 < 8
    assert run.outcome["stopped"]["why"] == "loss has not improved in 2 evaluations"


def test_runs_of_a_comparison_may_stop_at_different_rounds():
    compared = fedrt.compare(
        tiny(*SMALL, "rounds.global_rounds=6"),
        policies="fedrt,static-t",
        seeds=[0, 1],
        stop_at={"accuracy": 0.35},
        **QUICK,
    )
    counts = compared.summary["global_rounds"].tolist()
    assert min(counts) < 6
    for (_, run), count in zip(compared.rounds.groupby(["policy", "seed"]), counts, strict=True):
        reached = run["accuracy"] >= 0.35
        assert len(run) == count
        assert not reached[:-1].any()
        assert reached.iloc[-1] or count == 6
    assert compared.plot("accuracy").axes


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--stop-at", "accuracy"], '--stop-at "accuracy": must be NAME=NUMBER'),
        (["--stop-at", "accuracy=high"], '--stop-at "accuracy=high": must be NAME=NUMBER'),
        (["--patience", "0"], "--patience = 0: must be a whole number from 1"),
        (["--log", "nothing"], '--log = "nothing": must be one of tensorboard, mlflow, wandb'),
    ],
)
def test_bad_words_are_a_line(where, words, line, capsys):
    assert main(["run", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert said.count("\n") == 1
    assert not list(where.iterdir())


def test_a_measure_that_is_not_there_is_a_line(where):
    with pytest.raises(
        fedrt.InputError, match="`stop_at` f1: is not measured; there are loss, accuracy"
    ):
        fedrt.run(tiny(*SMALL), stop_at="f1=0.9", **QUICK)


def test_a_logger_that_is_not_installed_is_asked_for(where, monkeypatch, capsys):
    import sys

    for name in LOGGERS:
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
        words = [*as_options(*SMALL), "--engine", "sequential", "--log", name]
        assert main(["run", *words]) == 2
        said = capsys.readouterr().err.splitlines()[-1]
        assert f"pip install 'fedrt[{name}]'" in said
        assert not list(where.rglob("*.toml"))
