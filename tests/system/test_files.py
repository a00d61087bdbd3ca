"""Folders that two commands want at once, and folders that go again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrt.api.folders import in_folder
from fedrt.errors import InputError
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
