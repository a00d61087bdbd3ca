"""Folders of results: numbered where none is named, replaced where one is, if it is ours."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest
from support.tiny import as_options
from support.trained import TRAINING, start, train, trained

from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.records.directory import RunDirectory
from fedrt.records.overwrite import remove_results

FEW = as_options("rounds.global_rounds=2")
TRAINED = [word for text in TRAINING for word in ("--set", text)]
TRAINED += ["--set", "rounds.global_rounds=2", "--engine", "sequential"]
COMMANDS = {
    "run": ["run", "--policy", "fedrt", *TRAINED],
    "compare": ["compare", "--policies", "fedrt,static-t", *TRAINED],
    "estimate": ["estimate", "--policies", "fedrt", *FEW],
    "sweep": ["sweep", "quickstart", "--vary", "bandwidth.scale=1,2", "--policies", "fedrt", *FEW],
    "front": ["front", "quickstart", "--budgets", "5,9", "--policies", "fedrt", *FEW],
    "bound": ["bound", "quickstart", "--policies", "fedrt", "--rho", "none", *FEW],
    "size": [
        *("size", "quickstart", "--deadline", "1h", "--vary", "bandwidth.scale=1..2"),
        *("--policy", "fedrt", *FEW, "--set", "fleet.energy_j_per_edge_round=9"),
    ],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_given_twice_numbers_its_folders(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        assert main([*COMMANDS[name], "--json"]) == 0, capsys.readouterr().err
        assert sorted(os.listdir("runs")) == [f"{name}-tiny-{n + 1}" for n in range(number)]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_named_folder_is_refused_or_overwritten(name, tmp_path, capsys):
    out = tmp_path / "out"
    command = [*COMMANDS[name], "--json", "--out", str(out)]
    assert main(command) == 0, capsys.readouterr().err
    if name != "bound":
        assert main(["report", str(out)]) == 0
    capsys.readouterr()
    assert main(command) == 2
    line = f"{out}: exists already; --overwrite replaces it, or give another --out\n"
    assert capsys.readouterr().err == line
    assert main([*command, "--overwrite"]) == 0, capsys.readouterr().err
    assert not (out / "page.html").exists()
    assert os.listdir(tmp_path) == ["out"]


def test_what_fedrt_has_not_made_is_left_alone(tmp_path, capsys):
    command = [*COMMANDS["estimate"], "--overwrite", "--json", "--out"]
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "run.json").write_text("[1]")
    assert main([*command, str(mine)]) == 2
    assert "mine: is not a folder that fedrt has made" in capsys.readouterr().err
    (mine / "thesis.tex").write_text("years")
    assert main([*command, str(mine)]) == 2
    assert "mine: is not a folder that fedrt has made" in capsys.readouterr().err
    file = tmp_path / "file"
    file.write_text("years")
    assert main([*command, str(file)]) == 2
    assert "file: is no folder that fedrt has made" in capsys.readouterr().err
    assert (mine / "thesis.tex").read_text() == file.read_text() == "years"
    assert main([*COMMANDS["estimate"], "--overwrite"]) == 2
    assert capsys.readouterr().err == "--overwrite: is for a folder that --out names\n"


@pytest.mark.parametrize("where", ["notes.md", "checkpoints/notes.md", "records/notes.md", "more"])
def test_a_run_with_a_file_of_the_users_stays_whole(where, tmp_path):
    run = train(tmp_path / "run", trained())
    (run / where).parent.mkdir(exist_ok=True)
    (run / where).mkdir() if where == "more" else (run / where).write_text("mine")
    if where == "more":
        (run / where / "mine.txt").write_text("mine")
    before = sorted(run.rglob("*"))
    with pytest.raises(InputError, match=f"{where} is not of fedrt's making"):
        remove_results(run)
    assert sorted(run.rglob("*")) == before


@pytest.mark.parametrize("where", ["records", "summary.json", "checkpoints/000099.npz", ".lock"])
def test_links_are_never_followed(where, tmp_path):
    run, mine = train(tmp_path / "run", trained()), tmp_path / "mine"
    mine.mkdir()
    (mine / "000001.npz").write_text("mine")
    place = run / where
    place.unlink(missing_ok=True)
    place.symlink_to(mine if where == "records" else mine / "000001.npz")
    with pytest.raises(InputError, match="is a link"):
        remove_results(run)
    named = tmp_path / "named"
    named.symlink_to(run)
    with pytest.raises(InputError, match="is no folder that fedrt has made"):
        remove_results(named)
    assert (mine / "000001.npz").read_text() == "mine"
    assert (run / "config.toml").exists()


def test_a_run_that_another_process_is_at_stays(tmp_path):
    run = start(tmp_path / "run", trained())
    with RunDirectory(run).locked(), pytest.raises(InputError, match="another process is at"):
        remove_results(run)
    assert (run / "run.json").exists()
    remove_results(run)
    assert os.listdir(tmp_path) == []


def test_a_removal_that_was_cut_can_be_given_again(tmp_path, monkeypatch):
    """Cut after every number of files: what is left is still known as fedrt's own."""
    whole = len(list(train(tmp_path / "run", trained()).rglob("*")))
    unlink, left = Path.unlink, 0

    def cut(self, missing_ok=False):
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        unlink(self, missing_ok)

    for files in range(whole):
        run = tmp_path / "run" if not files else train(tmp_path / "run", trained())
        left = files
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", cut)
            with contextlib.suppress(KeyboardInterrupt):
                remove_results(run)
        if run.exists():
            remove_results(run)
        assert not run.exists()


def test_the_folder_of_an_estimate_says_what_it_is(tmp_path):
    assert main([*COMMANDS["estimate"], "--json", "--out", str(tmp_path / "out")]) == 0
    said = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (said["policies"], said["seeds"]) == (["fedrt"], [0])
