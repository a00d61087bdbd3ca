"""What a machine has for a testbed: how many cores, and pieces of its kernel."""

from __future__ import annotations

import subprocess

import pytest

from fedrt.testbed import machine
from fedrt.testbed.machine import machine_problems, usable_cores

MANY = 64


@pytest.fixture(autouse=True)
def many_cores(monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: MANY)


def grouped(folder, line, **files):
    """A tree of control groups, with files by their paths, and the file that says who is where."""
    for name, text in files.items():
        path = folder / "cgroup" / name.replace("__", "/").replace("_", ".", 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "own").write_text(line)
    return folder / "cgroup", folder / "own"


@pytest.mark.parametrize(
    ("top", "mine", "found"),
    [
        ("max 100000", "max 100000", MANY),
        ("max 100000", "200000 100000", 2),
        ("150000 100000", "max 100000", 1),
        ("800000 100000", "450000 100000", 4),
        ("max 100000", "5000 100000", 1),
        ("max 100000", "who knows", MANY),
    ],
)
def test_groups_of_version_2(tmp_path, top, mine, found):
    paths = grouped(
        tmp_path,
        "0::/top/mine\n",
        cgroup_controllers="cpu memory",
        top__cpu_max=top,
        top__mine__cpu_max=mine,
        top__mine__cgroup_procs="1",
    )
    assert usable_cores(*paths) == found


@pytest.mark.parametrize(("quota", "found"), [("-1", MANY), ("300000", 3), ("99999", 1)])
def test_groups_of_version_1(tmp_path, quota, found):
    mine = tmp_path / "cgroup" / "cpu" / "mine"
    mine.mkdir(parents=True)
    for folder, own in ((mine, "-1"), (mine.parent, quota)):
        (folder / "cpu.cfs_quota_us").write_text(own)
        (folder / "cpu.cfs_period_us").write_text("100000")
    (tmp_path / "own").write_text("4:cpu:/mine\n")
    assert usable_cores(tmp_path / "cgroup", tmp_path / "own") == found


def test_a_machine_without_control_groups(tmp_path):
    assert usable_cores(tmp_path, tmp_path / "own") == MANY


def test_a_kernel_without_a_piece_is_one_line_and_the_trial_goes(tmp_path, monkeypatch):
    ran = []

    def run(words, **more):
        ran.append(words)
        return subprocess.CompletedProcess(words, int("tbf" in words), "", "Error: unknown.\nmore")

    class Noted(machine.Standing):
        def write(self, folder=tmp_path):
            super().write(folder)

        def remove(self, folder=tmp_path, run=None):
            assert (folder / f"{self.tag}.json").exists()
            (folder / f"{self.tag}.json").unlink()

    monkeypatch.setattr(machine.subprocess, "run", run)
    monkeypatch.setattr(machine.shutil, "which", lambda name: name)
    monkeypatch.setattr(machine.os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "IFB", tmp_path / "none")
    monkeypatch.setattr(machine, "Standing", Noted)
    assert machine_problems() == ["this machine has no TBF: Error: unknown."]
    assert ["modprobe", "ifb", "numifbs=0"] in ran
    assert list(tmp_path.iterdir()) == []
