"""Folders that two commands want at once, and folders that go again."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from fedrt.api.folders import in_folder
from fedrt.errors import InputError
from fedrt.system import files
from fedrt.system.files import TakenError, free_name, gone_unless, new_folder, whole_folder


def test_a_folder_that_somebody_else_makes_meanwhile(tmp_path, monkeypatch):
    path = tmp_path / "out"

    def late(self, target):
        Path(target).mkdir()
        (Path(target) / "theirs").touch()
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(Path, "rename", late)
    with pytest.raises(TakenError, match="out: exists already"), whole_folder(path) as folder:
        (folder / "mine").touch()
    assert [item.name for item in tmp_path.rglob("*")] == ["out", "theirs"]


def test_a_folder_that_cannot_take_its_name(tmp_path, monkeypatch):
    def refuse(self, target):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(InputError, match="cannot be made: Read-only"), whole_folder(tmp_path / "x"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_next_number_where_another_command_was_quicker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = []

    def make(path):
        asked.append(path.name)
        if len(asked) == 1:
            path.mkdir(parents=True)  # the other command
        return new_folder(path)

    assert in_folder("estimate", "a/b", make, None, False) == Path("runs/estimate-a-b-2")
    assert asked == ["estimate-a-b-1", "estimate-a-b-2"]
    with pytest.raises(InputError, match="runs: exists already; `overwrite` replaces it"):
        in_folder("estimate", "a/b", make, "runs", False)


def test_a_folder_inside_that_is_taken_is_no_reason_to_try_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(path):
        new_folder(path / "inside")
        new_folder(path / "inside")

    with pytest.raises(TakenError, match="inside"):
        in_folder("estimate", "x", make, None, False)


def test_a_dangling_link_is_no_free_name(tmp_path):
    (tmp_path / "run-1").symlink_to("nowhere")
    assert free_name(tmp_path, "run").name == "run-2"


@pytest.mark.parametrize(
    ("fresh", "sign", "stays"), [(True, "b", 0), (True, "a", 1), (False, "b", 1)]
)
def test_a_fresh_folder_goes_if_it_has_nothing_to_show(fresh, sign, stays, tmp_path):
    folder = new_folder(tmp_path / "out")
    (folder / "a").touch()
    with pytest.raises(InputError), gone_unless(folder, sign, fresh=fresh):
        raise InputError("no")
    assert folder.exists() == bool(stays)


@pytest.fixture
def umask():
    """Sets the process's umask for a test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def modes(folder):
    return {p.name: stat.S_IMODE(p.stat().st_mode) for p in (folder, *folder.rglob("*"))}


def write_all_kinds(folder):
    files.make_folder(folder / "outer" / "inner", parents=True)
    with files.whole_folder(folder / "outer" / "whole") as made:
        files.write_text(made / "text", "x")
    files.write_alone(folder / "outer" / "alone", b"x")
    files.write_arrays(folder / "outer" / "arrays", {"x": np.zeros(1)})
    return modes(folder / "outer")


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o027, 0o077])
def test_files_and_folders_are_as_wide_as_the_umask_and_private_ones_the_owners(
    tmp_path, umask, mask
):
    umask(mask)
    found = write_all_kinds(tmp_path)
    assert {found[name] for name in ("outer", "inner", "whole")} == {0o777 & ~mask}
    assert {found[name] for name in ("text", "alone", "arrays")} == {0o666 & ~mask}
    with files.private_files():
        own = write_all_kinds(tmp_path / "own")
    assert {own[name] for name in ("outer", "inner", "whole")} == {0o700}
    assert {own[name] for name in ("text", "alone", "arrays")} == {0o600}


def test_a_private_folder_that_was_wider_is_not_any_more(tmp_path, umask):
    umask(0o022)
    (tmp_path / "state").mkdir()
    with files.private_files():
        files.make_folder(tmp_path / "state")
    assert modes(tmp_path / "state") == {"state": 0o700}
