"""Run folders from somebody else: nothing outside them is read, emptied, removed or made."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from support.trained import OPTIONS, go_on, start, train, trained

from fedrt.cli import main
from fedrt.errors import FedrtError, InputError
from fedrt.records.checkpoint import Checkpoints
from fedrt.records.directory import RunDirectory, run_name
from fedrt.records.foreign import refuse_links
from fedrt.studies.compare import start_comparison
from fedrt.system.torn import clear_torn

MINE = "my own work\n"


@pytest.fixture
def precious(tmp_path):
    """Somebody's own files, and a check that they are as they were."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("thesis.txt", "000000.npz", "000001.npz", ".x-12345678.torn"):
        (folder / name).write_text(MINE)
    yield folder
    assert sorted(path.name for path in folder.iterdir()) == [
        ".x-12345678.torn",
        "000000.npz",
        "000001.npz",
        "thesis.txt",
    ]
    assert all(path.read_text() == MINE for path in folder.iterdir())


@pytest.fixture
def run(tmp_path):
    return start(tmp_path / "run", trained())


def refused(capsys, *argv):
    """The one line that a command ends with."""
    assert main([str(word) for word in argv]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1, err
    return err


@pytest.mark.parametrize("name", ["records", "checkpoints", "tensorboard", "anything"])
def test_a_link_to_a_folder_is_refused(name, run, precious, capsys):
    (run / name).symlink_to(precious)
    line = refused(capsys, "run", "--resume", run)
    assert f"{run / name}: is a link, to /" in line


@pytest.mark.parametrize(
    "name", [".lock", "run.json", "tuning.json", "summary.json", "records/000000.npz"]
)
def test_a_link_to_a_file_is_refused(name, run, precious, capsys):
    (run / name).unlink(missing_ok=True)
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).symlink_to(precious / "thesis.txt")
    assert f"{run / name}: is a link" in refused(capsys, "run", "--resume", run)


def test_a_pipe_is_refused_and_not_waited_for(run, capsys):
    os.mkfifo(run / "tuning.json")
    assert "tuning.json: is neither a file nor a folder" in refused(capsys, "run", "--resume", run)


def test_the_run_folder_itself_may_be_named_by_a_link(run, tmp_path):
    (tmp_path / "link").symlink_to(run)
    assert go_on(tmp_path / "link")["global_rounds"] == 5


def test_links_in_a_comparison_are_refused(tmp_path, precious, capsys):
    out = tmp_path / "compared"
    start_comparison(trained(), ["fedrt"], [0], out, OPTIONS)
    (out / "fedrt-0").symlink_to(precious)
    assert f"{out / 'fedrt-0'}: is a link" in refused(capsys, "compare", "--resume", out)


def test_links_among_the_runs_of_a_reproduction_are_refused(tmp_path, precious, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "runs").symlink_to(precious)
    line = refused(capsys, "reproduce", "table", "--quick", "--out", out)
    assert f"{out / 'runs'}: is a link" in line


def test_the_lock_is_neither_emptied_nor_reached_through_a_link(run, precious):
    # Not only refused beforehand: opening it would do no harm either.
    (run / ".lock").symlink_to(precious / "thesis.txt")
    with pytest.raises(FedrtError, match=r"\.lock: cannot be written"), RunDirectory(run).locked():
        pass
    (run / ".lock").unlink()
    os.link(precious / "thesis.txt", run / ".lock")
    with RunDirectory(run).locked():
        pass


def test_only_files_of_our_own_naming_are_removed(tmp_path, precious):
    run = train(tmp_path / "run", trained())
    notes = run / "checkpoints" / "my notes.txt"
    notes.write_text(MINE)
    (run / "checkpoints" / "12.npz").write_text(MINE)
    (run / "checkpoints" / "²²²²²².npz").write_text(MINE)
    clear_torn(run / "checkpoints")
    Checkpoints(run).clear()
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == [
        "12.npz",
        "my notes.txt",
        "²²²²²².npz",
    ]
    # Whoever calls it without looking for links first does no harm either.
    for name in ("records", "checkpoints"):
        shutil.rmtree(run / name, ignore_errors=True)
        (run / name).symlink_to(precious)
    Checkpoints(run).clear()
    assert (run / "records").is_symlink()


@pytest.mark.parametrize("name", ["../../escaped", "/tmp/escaped", "a/b:C", ".hidden", "x" * 300])
def test_a_policy_that_names_another_place_makes_no_folder(name, tmp_path, capsys):
    out = tmp_path / "deep" / "compared"
    start_comparison(trained(), ["fedrt"], [0], out, OPTIONS)
    said = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps(said | {"policies": [name]}))
    before = sorted(tmp_path.rglob("*"))
    refused(capsys, "compare", "--resume", out)
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(InputError, match="must be a name for a folder"):
        run_name(name, 0)


def test_a_comparison_that_names_a_policy_twice_is_refused(tmp_path, capsys):
    out = tmp_path / "compared"
    start_comparison(trained(), ["fedrt"], [0], out, OPTIONS)
    said = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps(said | {"policies": ["fedrt", "fedrt"]}))
    assert "each named once" in refused(capsys, "compare", "--resume", out)
    assert not (out / "fedrt-0").exists()


def test_a_folder_that_is_not_there_is_told_as_before(tmp_path, capsys):
    refuse_links(Path(tmp_path / "nothing"))
    assert "is not a run directory" in refused(capsys, "run", "--resume", tmp_path / "nothing")


def test_what_a_library_says_of_a_damaged_file_cannot_command_a_terminal(
    tmp_path, capsys, monkeypatch
):
    def collected(paths, out):
        return {"problems": ["rounds.parquet: cannot be read: don't know \x0f\x1b[2J"]}

    monkeypatch.setattr("fedrt.api.pages.write_page", collected)
    assert main(["report", str(tmp_path)]) == 0
    err = capsys.readouterr().err
    assert err.rstrip("\n").isprintable()
    assert "don't know" in err
