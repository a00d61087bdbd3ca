"""A run that was killed, damaged or starved goes on as if nothing had happened, to the bit."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kill_campaign import campaign, differences
from numpy.testing import assert_array_equal
from support.children import LIMIT_S, environment
from support.tiny import tiny
from support.trained import OPTIONS, go_on, start, train, trained

from fedrt.cli import main
from fedrt.errors import FedrtError, InputError
from fedrt.policies.fedrt import FedRT
from fedrt.records.checkpoint import Checkpoints, _read
from fedrt.records.directory import SUMMARY, TRAINED_SUMMARY, RunDirectory
from fedrt.records.records import packed
from fedrt.runs.loop import simulate_rounds
from fedrt.studies.estimates import estimate
from fedrt.studies.training import carry_on, start_run
from fedrt.system.torn import TORN
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """A run of so many rounds, or as described, that nobody touched; each is made once."""
    made = {}

    def get(*settings, policy="fedrt", **options):
        key = (settings, policy, *sorted(options.items()))
        if key not in made:
            path = tmp_path_factory.mktemp("untouched") / "run"
            made[key] = train(path, trained(*settings), policy, **options)
        return made[key]

    return get


class KilledError(BaseException):
    """As sudden as it gets inside a process: nothing catches it."""


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
    "some take part": ("fedrt", ("learning.participation=0.5",), {"checkpoint_every": 3}),
    "some left out": ("support.halves:Halves", ("rounds.edge_rounds=3",), {"checkpoint_every": 2}),
    "state of its own": ("support.trained:Moody", (), {"checkpoint_every": 2}),
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


def stopped(path, after, *settings, policy="fedrt", **options):
    """A run that was killed after so many rounds, as -9 would."""
    start(path, trained(*settings), policy, **options)

    def step(done):
        if done.last.t == after - 1:
            raise KilledError

    with pytest.raises(KilledError):
        carry_on(path, step)
    return path


def resumed(run):
    """Carry a run on; the notes it gave."""
    notes = []
    carry_on(run, note=notes.append)
    return notes


def checkpoints_of(run):
    return sorted((run / "checkpoints").glob("*.npz"))


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
    assert resumed(run) == ["going on after global round 2"]
    assert turns == [(3, 0), (3, 1), (4, 0), (4, 1)]


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


def flip(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(bytes(raw))


def foreign(path):
    np.savez(path, allow_pickle=False, something=np.zeros(3))


DAMAGES = [truncate, empty, flip, foreign]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_and_the_one_before_it(damage, untouched, tmp_path):
    run = stopped(tmp_path / "run", 4)
    newest = checkpoints_of(run)[-1]
    damage(newest)
    notes = resumed(run)
    assert len(notes) == 2
    assert notes[0].startswith(f"{newest}: cannot be read: ")
    assert notes[1] == "going on after global round 2"
    assert differences(untouched(), run) == []


def test_all_checkpoints_damaged_starts_over_and_new_ones_count(untouched, tmp_path):
    run = stopped(tmp_path / "run", 4)
    for path in checkpoints_of(run):
        truncate(path)
    shutil.copytree(run, tmp_path / "again")
    notes = resumed(run)
    assert len(notes) == 3
    assert notes[-1] == "no checkpoint is left: starting over"
    assert differences(untouched(), run) == []
    # Killed once more on the way: what was saved since must not fall to the damaged ones.
    run = tmp_path / "again"

    def step(done):
        if done.last.t == 1:
            raise KilledError

    with pytest.raises(KilledError):
        carry_on(run, step, note=lambda line: None)
    assert [path.stem for path in checkpoints_of(run)] == ["000001", "000002"]
    assert resumed(run) == ["going on after global round 1"]
    assert differences(untouched(), run) == []


def respell(**arrays):
    """The record with other arrays in place of its own."""

    def damage(path):
        with np.load(path) as whole:
            np.savez(path, allow_pickle=False, **{**whole, **arrays})

    return damage


WRONG_RECORDS = [
    respell(**{"1.metrics.names": np.array("{")}),
    respell(**{"1.metrics.names": np.array("7")}),
    respell(**{"1.metrics.names": np.array('[["loss"]]')}),
    respell(**{"1.metrics.values": np.zeros(1)}),
    respell(**{"1.metrics.values": np.array("loss")}),
    respell(**{"0.distances.true": np.zeros((2, 2))}),
    respell(**{"1.backhaul.consensus_distance": np.zeros(3)}),
    respell(**{"0.distances.true": np.float64(1)}),
    respell(**{"0.distances.true": np.array([["a"] * 3] * 3)}),
    respell(**{"0.refused.refused": np.zeros((2, 2), dtype=np.int64)}),
]


@pytest.mark.parametrize("damage", [*DAMAGES, *WRONG_RECORDS, Path.unlink])
@pytest.mark.parametrize("which", [0, 3])
def test_a_damaged_record_goes_back_to_where_it_is_not_needed(damage, which, untouched, tmp_path):
    run = stopped(tmp_path / "run", 4)
    record = run / "records" / f"{which:06}.npz"
    damage(record)
    notes = resumed(run)
    assert notes[0].startswith(f"{record}: cannot be read: ")
    expected = "going on after global round 2" if which == 3 else "starting over"
    assert notes[-1].endswith(expected)
    assert len(notes) == 2
    assert differences(untouched(), run) == []


def one_byte_wrong(path, names, step):
    """Change every `step`-th byte in turn; the part of them that is noticed."""
    raw, whole = path.read_bytes(), _read(path, names)
    noticed = 0
    for i in range(0, len(raw), step):
        torn = bytearray(raw)
        torn[i] ^= (1, 128, 255)[i % 3]
        path.write_bytes(bytes(torn))
        try:
            read = _read(path, names)
        except InputError:
            noticed += 1
        else:  # a date or the like
            assert all(read[name].tobytes() == whole[name].tobytes() for name in names)
    return noticed * step / len(raw)


def test_one_wrong_byte_never_goes_unnoticed(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    distance = np.arange(9.0).reshape(3, 3)
    names = ("believed", "true", "names", "values")
    state = dict(zip(names, (distance, distance + 1, np.array("loss"), np.ones(2)), strict=True))
    checkpoints.save(1, state)
    assert one_byte_wrong(checkpoints_of(tmp_path)[0], state.keys(), 1) > 0.7
    (done,) = simulate_rounds(SimulatedWorld(tiny("rounds.global_rounds=1"), 0), FedRT())
    checkpoints.save_record(0, done.edge_rounds)
    record = tmp_path / "records" / "000000.npz"
    assert_array_equal(_read(record)["0.seen.snr"], done.edge_rounds[0].seen.snr)
    # Every 7th byte of the 20,000: no array is too small to be hit.
    assert one_byte_wrong(record, packed(done.edge_rounds).keys(), 7) > 0.7


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    run = stopped(tmp_path / "run", 2)
    other = stopped(tmp_path / "other", 2, 'learning.model="small-cnn"')
    shutil.copyfile(other / "checkpoints" / "000002.npz", run / "checkpoints" / "000002.npz")
    with pytest.raises(InputError, match=r"its models are \(3, 6090\), the run needs \(3, 650\)"):
        carry_on(run)


def fill_up(monkeypatch, after):
    """After so many writes there is no space left."""
    replace, count = Path.replace, 0

    def full(path, target):
        nonlocal count
        count += 1
        if count > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", full)


@pytest.mark.parametrize("after", [0, 1, 2, 3, 8, 9, 10])
def test_a_full_disk_is_one_line_and_nothing_is_lost(
    after, untouched, tmp_path, monkeypatch, capsys
):
    run = start(tmp_path / "run", trained())
    with monkeypatch.context() as patch:
        fill_up(patch, after)
        assert main(["run", "--allow-code", "--resume", str(run), "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"{run}/")
    assert err.endswith(": cannot be written: No space left on device\n")
    assert not list(run.rglob(f"*{TORN}"))
    # identity, partition, record, checkpoint, four tables; then a record and a checkpoint a round
    kept = {0: 0, 1: 0, 2: 0, 3: 0, 8: 1, 9: 1, 10: 2}[after]
    assert len(checkpoints_of(run)) == kept
    notes = resumed(run)
    assert notes == ([f"going on after global round {kept - 1}"] if kept else [])
    assert differences(untouched(), run) == []


def test_no_room_for_a_folder_is_one_line(tmp_path, monkeypatch):
    run = start(tmp_path / "run", trained())

    def full(path, *args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(FedrtError, match="records: cannot be made: No space left on device"):
        go_on(run)


FULL = """
import os, subprocess, sys
from dataclasses import replace
from pathlib import Path
small = sys.argv[1]
made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=150k", "tmpfs", small],
                      capture_output=True, text=True)
if made.returncode:
    sys.exit("no tmpfs: " + made.stderr)
from kill_campaign import differences
from support.trained import start, train, trained
from fedrt.cli import main
train(Path(small).parent / "untouched", trained())
run = start(Path(small) / "run", trained())
ballast = Path(small) / "ballast"
room = os.statvfs(small)
ballast.write_bytes(bytes(room.f_bavail * room.f_bsize - 32768))
assert main(["run", "--allow-code", "--resume", str(run), "--json"]) == 1
kept = len(list((run / "checkpoints").iterdir()))
ballast.unlink()
assert main(["run", "--allow-code", "--resume", str(run), "--json"]) == 0
assert differences(Path(small).parent / "untouched", run) == []
print("kept", kept)
"""


@pytest.mark.slow
def test_a_really_full_disk(tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare to mount a small file system of its own")
    small = tmp_path / "small"
    small.mkdir()
    command = ["unshare", "--map-root-user", "--mount", sys.executable, "-c", FULL]
    done = subprocess.run(
        [*command, str(small)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode and ("no tmpfs" in done.stderr or "unshare" in done.stderr):
        pytest.skip(f"cannot mount a small file system here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert ": cannot be written: " in lines[0]
    assert lines[0].endswith("No space left on device")
    assert "Traceback" not in done.stderr


def test_a_second_process_is_refused(untouched, tmp_path, capsys):
    run = start(tmp_path / "run", trained())
    with RunDirectory(run).locked():
        assert main(["run", "--allow-code", "--resume", str(run)]) == 2
        assert capsys.readouterr().err == f"{run}: another process is at this run\n"
    go_on(run)
    assert differences(untouched(), run) == []


def test_a_run_that_another_process_ends_meanwhile_is_not_run_again(
    untouched, tmp_path, monkeypatch
):
    run = start(tmp_path / "run", trained())
    locked = RunDirectory.locked

    def late(self):
        monkeypatch.setattr(RunDirectory, "locked", locked)
        expected.append(go_on(run))
        return locked(self)

    expected = []
    monkeypatch.setattr(RunDirectory, "locked", late)
    assert go_on(run) == expected[0]
    assert differences(untouched(), run) == []


def test_a_finished_run_prints_its_summary(untouched, tmp_path, capsys, monkeypatch):
    run = shutil.copytree(untouched(), tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    monkeypatch.setattr("fedrt.studies.training.opened_trainer", None)
    for _ in range(2):
        assert main(["run", "--allow-code", "--resume", str(run), "--json"]) == 0
        out, err = capsys.readouterr()
        assert json.loads(out) == json.loads((run / "summary.json").read_text())
        assert err == ""
    assert main(["run", "--allow-code", "--resume", str(run)]) == 0
    assert "best accuracy" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def edit(name, change):
    def apply(run):
        path = run / name
        path.write_text(change(path.read_text()))

    return apply


def edit_run(**fields):
    def change(text):
        run = json.loads(text)
        for key, value in fields.items():
            run["options"] |= {key: value} if key not in run else {}
            run |= {key: value} if key in run else {}
        return json.dumps(run)

    return edit("run.json", change)


def without(key):
    """A run that has ended, with a summary that lacks something."""

    def spoil(run):
        summary = dict.fromkeys((*SUMMARY, *TRAINED_SUMMARY), 1)
        del summary[key]
        (run / "summary.json").write_text(json.dumps(summary))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda run: shutil.rmtree(run), "is not a run directory"),
        (lambda run: (run / "run.json").unlink(), "is not a run directory"),
        (edit("run.json", lambda text: text[:20]), "run.json: cannot be read"),
        (edit("run.json", lambda text: "[]"), "format_version = null: must be one of 1, 2"),
        (edit_run(format_version=3), "format_version = 3: must be one of 1, 2"),
        (edit_run(format_version=1), "cannot go on"),
        (edit_run(policy="best"), 'policy was changed from "fedrt" to "best"'),
        (edit_run(policy=7), "policy = 7: must be"),
        (edit_run(seed=-1), "seed = -1: must be"),
        (edit_run(seed="x"), 'seed = "x": must be'),
        (edit_run(options=[]), "options = []: must be a table"),
        (edit_run(options=None), "is a run without training"),
        (edit_run(checkpoint_every=0), "options.checkpoint_every = 0: must be"),
        (edit_run(targets=[2]), "options.targets[0] = 2: must be"),
        (edit_run(speed=1), "options.speed: unknown field"),
        (edit_run(engine="warp"), 'options.engine was changed from "sequential" to "warp"'),
        (edit("config.toml", lambda text: "fleet = ["), "config.toml"),
        (
            edit("config.toml", lambda text: text.replace("batch_size = 4", "batch_size = 0")),
            "batch_size = 0: must be",
        ),
        (lambda run: (run / "config.toml").unlink(), "config.toml"),
        (lambda run: (run / "summary.json").write_text("{"), "summary.json: cannot be read"),
        (lambda run: (run / "summary.json").write_text("7"), "summary.json = 7: must be"),
        (without("total_time_s"), "summary.json: total_time_s: missing"),
        (without("best_accuracy"), "summary.json: best_accuracy: missing"),
    ],
)
def test_what_is_no_run_is_one_line(spoil, says, tmp_path, capsys):
    run = start(tmp_path / "run", trained())
    spoil(run)
    assert main(["run", "--allow-code", "--resume", str(run)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    assert says in err


def test_the_directory_of_an_estimate_is_refused(tmp_path, capsys):
    estimate(tiny(), ["fedrt"], [0], tmp_path / "out")
    for path in (tmp_path / "out" / "fedrt-0", tmp_path / "out", tmp_path, Path("a\0b")):
        assert main(["run", "--allow-code", "--resume", str(path)]) == 2
        said = capsys.readouterr().err.splitlines()
        # One line, or one for each of the two things that a study's run.json does not say.
        study = path == tmp_path / "out"
        assert len(said) == (2 if study else 1)
        assert all("run.json" in line for line in said) or not study


@pytest.mark.parametrize(
    "given",
    [
        ["quickstart"],
        ["--policy", "fedrt"],
        ["--seed", "0"],
        ["--out", "x"],
        ["--set", "rounds.global_rounds=2"],
        ["--engine", "sequential"],
        ["--device", "cpu"],
        ["--data-dir", "."],
        ["--target", "0.5"],
        ["--checkpoint-every", "2"],
        ["--keep-checkpoints", "2"],
        ["--tensorboard"],
    ],
)
def test_resuming_takes_no_other_options(given, untouched, capsys):
    assert main(["run", "--allow-code", "--resume", str(untouched()), *given]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("--resume: takes everything from its directory, not ")
    assert err.count("\n") == 1


def test_tables_that_run_ahead_of_the_checkpoint_do_no_harm(untouched, tmp_path, monkeypatch):
    monkeypatch.setattr(RunDirectory, "save_sometimes", RunDirectory.save)
    run = stopped(tmp_path / "run", 5, checkpoint_every=2, keep_checkpoints=1)
    checkpoints_of(run)[-1].unlink()
    assert resumed(run) == []
    assert differences(untouched(), run) == []


@pytest.mark.slow
def test_killed_with_9_at_random_instants(tmp_path, capsys):
    assert campaign(trials=2, seed=1, folder=tmp_path), capsys.readouterr().out


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
