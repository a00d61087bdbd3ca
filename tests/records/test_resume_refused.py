"""What cannot go on, or has nothing left to do, says so in one line; a full disk loses nothing."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kill_campaign import differences
from support.children import LIMIT_S, environment
from support.resumed import checkpoints_of, resumed
from support.tiny import tiny
from support.trained import go_on, start, trained

from fedrt.cli import main
from fedrt.errors import FedrtError
from fedrt.records.directory import SUMMARY, TRAINED_SUMMARY, RunDirectory
from fedrt.studies.estimates import estimate
from fedrt.system.torn import TORN


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


@pytest.mark.parametrize("after", [0, 1, 2, 3, 4, 9, 10, 11])
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
    # identity, partition, inputs, record, checkpoint, four tables; then a record and a checkpoint
    # a round
    kept = {9: 1, 10: 1, 11: 2}.get(after, 0)
    assert len(checkpoints_of(run)) == kept
    notes = resumed(run)
    assert notes == ([f"going on after global round {kept}"] if kept else [])
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
made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", small],
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
        (edit_run(targets=["high"]), 'options.targets[0] = "high": must be'),
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
