"""Folders of format version 1: they are shown, and an unfinished run in one does not go on."""

from __future__ import annotations

import json
import shutil

import pytest
from pyarrow import parquet
from support.stopped import PLAIN
from support.trained import start, train, trained

from fedrt.cli import main
from fedrt.report.page.collect import collect
from fedrt.studies.compare import go_on, start_comparison
from fedrt.studies.training import RunOptions, carry_on

NEWER = {"trains", "left_out"}
"""Columns that tables of version 1 do not have."""


class StopError(Exception):
    """As if somebody had pressed a key."""


def made_older(folder):
    """The folder as version 1 has it, as far as what remains of an ended run goes."""
    for path in folder.rglob("run.json"):
        said = json.loads(path.read_text())
        assert said["format_version"] == 2
        path.write_text(json.dumps(said | {"format_version": 1}))
    for path in folder.rglob("*.parquet"):
        table = parquet.read_table(path)
        kept = [name for name in table.column_names if name not in NEWER]
        parquet.write_table(table.select(kept), path)
    return folder


def stop(done):
    if done.last.t == 1:
        raise StopError


def stopped(path):
    start(path, trained(*PLAIN))
    with pytest.raises(StopError):
        carry_on(path, stop, lambda line: None)
    return made_older(path)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(capsys, folder, *command):
    """The one line that a command about a folder ends in; nothing in it changes."""
    before = contents(folder)
    capsys.readouterr()
    assert main([*command]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert contents(folder) == before
    return err


def test_an_unfinished_run_does_not_go_on(tmp_path, capsys):
    run = stopped(tmp_path / "run")
    line = refused(capsys, run, "run", "--allow-code", "--resume", str(run))
    assert line.startswith(f"{run}: cannot go on: its format_version is 1, whose records lack ")
    assert line.endswith("; start the run anew\n")


def test_it_cannot_be_branched_either(tmp_path, capsys):
    run, out = stopped(tmp_path / "run"), tmp_path / "branch"
    line = refused(capsys, run, "run", "--allow-code", "--branch", str(run), "--out", str(out))
    assert line.startswith(f"{run}: cannot go on: its format_version is 1")
    assert not out.exists()


def test_nor_does_a_comparison_with_such_a_run(tmp_path, capsys):
    out = tmp_path / "out"
    said = start_comparison(
        trained(*PLAIN), ["fedrt", "static-t"], [0], out, RunOptions(engine="sequential")
    )

    def step(policy, seed, done):
        if policy == "static-t":
            stop(done)

    with pytest.raises(StopError):
        go_on(said, step, lambda line: None)
    made_older(out)
    line = refused(capsys, out, "compare", "--allow-code", "--resume", str(out))
    assert line.startswith(f"{out / 'fedrt-0'}: cannot go on: its format_version is 1")


def test_it_can_be_shown_and_so_can_one_that_has_ended(tmp_path, capsys):
    whole = train(tmp_path / "ended", trained(*PLAIN))
    told = collect([whole])["runs"]
    made_older(whole)
    assert collect([whole])["runs"] == told
    cut = stopped(tmp_path / "cut")
    for folder in (whole, cut):
        page = tmp_path / f"{folder.name}.html"
        assert main(["report", str(folder), "--out", str(page)]) == 0
        assert page.stat().st_size > 10_000
    # An ended run is not run again: its summary is printed.
    capsys.readouterr()
    assert main(["run", "--allow-code", "--resume", str(whole), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((whole / "summary.json").read_text())


def test_a_folder_of_an_estimate_is_shown_too(tmp_path, capsys):
    out = tmp_path / "out"
    args = ["estimate", "quickstart", "--policies", "fedrt,static-t", "--seeds", "1"]
    assert main([*args, "--set", "rounds.global_rounds=3", "--out", str(out)]) == 0
    made_older(out)
    assert main(["report", str(out), "--out", str(tmp_path / "page.html")]) == 0
    shutil.rmtree(out)
