"""A run that was killed goes on as if nothing had happened, to the bit."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from kill_campaign import campaign, differences
from support.laws import EVERY_LAW
from support.resumed import KilledError, checkpoints_of, resumed, stopped
from support.trained import OPTIONS, go_on, start, train, trained

from fedrt.records.directory import RunDirectory
from fedrt.studies.training import carry_on, start_run
from fedrt.system.torn import TORN

pytestmark = pytest.mark.numerical


class Killer:
    """Counts the instants at which files of a run change, and kills just before one of them."""

    def __init__(self, monkeypatch):
        self.count, self.at = 0, None
        for name in ("replace", "unlink", "rmdir"):
            monkeypatch.setattr(Path, name, self.watched(getattr(Path, name)))

    def watched(self, change):
        def method(path, *args, **kwargs):
            if change.__name__ != "unlink" or path.suffix == ".npz":
                self.instant(path)
            return change(path, *args, **kwargs)

        return method

    def instant(self, path):
        self.count += 1
        if self.at is not None and self.count > self.at:
            self.at = None
            if path.suffix == TORN:  # what -9 would leave behind
                half = path.read_bytes()[: path.stat().st_size // 2]
                path.with_name(f".left-{self.count}{TORN}").write_bytes(half)
            raise KilledError

    def kill(self, run, at):
        """Carry a run on up to an instant; False if it came to its end first."""
        self.count, self.at = 0, at
        try:
            go_on(run)
        except KilledError:
            return True
        self.at = None
        return False


@pytest.fixture
def killer(monkeypatch):
    return Killer(monkeypatch)


def test_killed_at_every_change_of_a_file(untouched, killer, tmp_path):
    scenario = trained("rounds.global_rounds=3")
    reference = untouched("rounds.global_rounds=3")
    at = 0
    while killer.kill(run := start(tmp_path / str(at), scenario), at):
        go_on(run)
        assert differences(reference, run) == [], f"killed before change {at}"
        assert not list(run.rglob(f"*{TORN}"))
        at += 1
    # 3 records, 3 checkpoints, tables after the first round and at the end, summary, 1 checkpoint
    # and 3 records dropped with their folder.
    assert at >= 3 + 3 + 4 + 4 + 1 + 1 + 3 + 1


VARIANTS = {
    "fedrt": ("fedrt", (), {}),
    "one edge round": ("fedrt", ("rounds.edge_rounds=1",), {"keep_checkpoints": 1}),
    "mll-sgd": ("mll-sgd", ("rounds.edge_rounds=1",), {"checkpoint_every": 3}),
    "coded gossip": ("fedrt-plus", ("learning.gossip=int4",), {"checkpoint_every": 2}),
    "some take part": ("fedrt", ("learning.participation=0.5",), {"checkpoint_every": 3}),
    "some left out": ("support.halves:Halves", ("rounds.edge_rounds=3",), {"checkpoint_every": 2}),
    "state of its own": ("support.trained:Moody", (), {"checkpoint_every": 2}),
    "every law": ("fedrt-plus", EVERY_LAW, {"checkpoint_every": 2}),
    "powers of its own": ("support.laws:Quiet", EVERY_LAW, {"checkpoint_every": 3}),
    "a fleet that fails": (
        "fedrt",
        (
            "faults.silent={kind='markov',mean_up=4,mean_down=2}",
            "faults.server_down={kind='markov',mean_up=2,mean_down=2}",
            "faults.link_down={kind='random',probability=0.3}",
            "faults.straggler={kind='random',probability=0.3}",
            "faults.deadline_factor=2",
            "faults.attack={kind='nan',devices=[1,4]}",
        ),
        {"checkpoint_every": 2},
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_again_and_again(variant, untouched, killer, tmp_path):
    policy, settings, options = VARIANTS[variant]
    reference = untouched(*settings, policy=policy, **options)
    rng = random.Random(variant)
    for number in range(3):
        run = start(tmp_path / str(number), trained(*settings), policy, **options)
        kills = []
        while len(kills) < 4 and killer.kill(run, at := rng.randrange(14)):
            kills.append(at)
        go_on(run)
        assert differences(reference, run) == [], f"killed before changes {kills}"


def test_with_no_checkpoint_yet(untouched, tmp_path):
    run = stopped(tmp_path / "run", 2, checkpoint_every=3)
    assert not checkpoints_of(run)
    assert len(list((run / "records").iterdir())) == 2
    assert resumed(run) == []
    assert differences(untouched(checkpoint_every=3), run) == []


def test_it_does_not_train_again_what_a_checkpoint_holds(tmp_path, monkeypatch):
    from fedrt.learning.trainer import Trainer

    run = stopped(tmp_path / "run", 4, checkpoint_every=3)
    turns = []
    before = Trainer.train
    monkeypatch.setattr(
        Trainer,
        "train",
        lambda self, seen, *rest: (turns.append((seen.t, seen.r)), before(self, seen, *rest))[1],
    )
    assert resumed(run) == ["going on after global round 3"]
    assert turns == [(3, 0), (3, 1), (4, 0), (4, 1)]


def test_tables_that_run_ahead_of_the_checkpoint_do_no_harm(untouched, tmp_path, monkeypatch):
    monkeypatch.setattr(RunDirectory, "save_sometimes", RunDirectory.save)
    run = stopped(tmp_path / "run", 5, checkpoint_every=2, keep_checkpoints=1)
    checkpoints_of(run)[-1].unlink()
    assert resumed(run) == []
    assert differences(untouched(), run) == []


@pytest.mark.slow
def test_killed_with_9_at_random_instants(tmp_path, capsys):
    assert campaign(trials=1, seed=1, folder=tmp_path), capsys.readouterr().out


def test_the_stacked_engine_resumes_to_the_bit_too(tmp_path):
    """Stopped after three rounds and resumed, with its own choice of chunk and processes."""
    options = replace(OPTIONS, engine="stacked")
    start_run(tmp_path / "whole", trained(), "fedrt", 0, "", options)
    carry_on(tmp_path / "whole", None, lambda line: None)
    start_run(tmp_path / "cut", trained(), "fedrt", 0, "", options)

    def stop(done):
        if done.last.t == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_on(tmp_path / "cut", stop, lambda line: None)
    carry_on(tmp_path / "cut", None, lambda line: None)
    assert differences(tmp_path / "whole", tmp_path / "cut") == []


def test_a_policy_that_remembers_resumes_to_the_bit(tmp_path):
    """fedrt-plus: its prices and times are brought back by planning the finished rounds again."""
    whole = train(tmp_path / "whole", trained(), "fedrt-plus")
    cut = start(tmp_path / "cut", trained(), "fedrt-plus")

    def stop(done):
        if done.last.t == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_on(cut, stop, lambda line: None)
    go_on(cut)
    assert differences(whole, cut) == []
