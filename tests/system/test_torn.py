"""What killed writers leave goes with the next one; what is being written, or foreign, stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.data_files import write_idx
from support.tiny import as_options

from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.records.directory import RunDirectory
from fedrt.studies import compare
from fedrt.system.files import BusyError, TakenError, gone_unless, whole_folder, write_text
from fedrt.system.torn import clear_torn, torn_file, torn_folder


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob(".*") if path.name != ".lock")


def killed(*words: str, cwd: Path) -> None:
    """Run a command that kills itself as soon as it has filled a temporary file."""
    program = f"""
import os, signal, sys
from pathlib import Path
from fedrt.cli import main
def kill(self, target):
    if {words[0]!r} != "compare" or Path(target).name == "comparison.json":
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)
replace, Path.replace = Path.replace, kill
sys.exit(main({list(words)!r}))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=cwd, check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_killed_import_leaves_nothing_when_it_is_repeated(tmp_path, monkeypatch):
    (tmp_path / "given").mkdir()
    write_idx(tmp_path / "given")
    words = ["data", "import", "mnist", "given", "--data-dir", "data"]
    killed(*words, cwd=tmp_path)
    assert len(hidden(tmp_path)) == 1
    monkeypatch.chdir(tmp_path)
    assert main(words) == 0
    assert hidden(tmp_path) == []


def test_a_killed_report_leaves_nothing_when_it_is_repeated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["--policies", "fedrt", "--out", "out"]
    assert main(["estimate", *as_options("rounds.global_rounds=1"), *words]) == 0
    killed("report", "out", cwd=tmp_path)
    assert len(hidden(tmp_path)) == 1
    assert main(["report", "out"]) == 0
    assert hidden(tmp_path) == []


def test_a_killed_comparison_leaves_nothing_when_it_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = as_options("rounds.global_rounds=1", "learning.batch_size=4")
    killed("compare", *few, "--policies", "fedrt", "--out", "out", "--device", "cpu", cwd=tmp_path)
    assert len(hidden(tmp_path)) == 1
    assert main(["compare", "--resume", "out"]) == 0
    assert hidden(tmp_path) == []


def test_a_killed_start_leaves_nothing_when_it_is_repeated(tmp_path):
    program = """
import os, signal
from pathlib import Path
from fedrt.system.files import whole_folder
with whole_folder(Path("out")) as folder:
    (folder / "inner").mkdir()
    (folder / "inner" / "file").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
    assert len(hidden(tmp_path)) == 1
    with whole_folder(tmp_path / "out"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_what_is_being_written_stays(tmp_path):
    with torn_file(tmp_path / "a") as mine, torn_folder(tmp_path / "a") as folder:
        write_text(tmp_path / "a", "another writer")
        clear_torn(tmp_path)
        assert mine.exists()
        assert folder.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_only_our_own_names_of_the_same_file_go(tmp_path):
    foreign = [".a-old", "a-x.torn", ".b-x.torn", ".a.torn2", "notes"]
    for name in [*foreign, ".a-0.torn"]:
        (tmp_path / name).touch()
    write_text(tmp_path / "a", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*foreign, "a"])


def test_a_link_goes_and_what_it_leads_to_stays(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    (tmp_path / ".a-0.torn").symlink_to(tmp_path / "precious")
    os.mkfifo(tmp_path / ".a-1.torn")
    write_text(tmp_path / "a", "text")
    assert (tmp_path / "precious" / "file").read_text() == "x"
    assert hidden(tmp_path) == [".a-1.torn"]


def test_a_file_that_was_tidied_away_before_it_was_locked_is_made_anew(tmp_path, monkeypatch):
    from fedrt.system import torn

    lock, first = torn._lock, []

    def late(handle):
        if not first:
            first.append(handle)
            clear_torn(tmp_path)
        lock(handle)

    monkeypatch.setattr(torn, "_lock", late)
    write_text(tmp_path / "a", "text")
    assert (tmp_path / "a").read_text() == "text"
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("error", [BusyError("busy"), TakenError(Path("x"))])
def test_the_folder_of_a_quicker_process_stays(error, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError), gone_unless(tmp_path / "out", "sign"):
        raise error
    assert (tmp_path / "out").exists()
    with pytest.raises(InputError), gone_unless(tmp_path / "out", "sign"):
        raise InputError("mine")
    assert not (tmp_path / "out").exists()


def test_a_comparison_that_loses_a_race_leaves_the_winner_alone(tmp_path, monkeypatch, capsys):
    """Another process goes on with the folder as soon as it is there, before we are at it."""
    monkeypatch.chdir(tmp_path)
    go_on, won = compare.go_on, []

    def late(said, *args, **options):
        directory = RunDirectory.create(said.folder("fedrt", 0), said.scenario, "fedrt", 0, "", {})
        with directory.locked():
            won.append(directory.path)
            return go_on(said, *args, **options)

    monkeypatch.setattr("fedrt.api.training.go_on", late)
    few = as_options("rounds.global_rounds=1")
    assert main(["compare", *few, "--policies", "fedrt", "--out", "out", "--device", "cpu"]) == 2
    assert "another process is at this run" in capsys.readouterr().err
    assert (won[0] / "run.json").exists()
