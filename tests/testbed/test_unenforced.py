"""What a machine cannot enforce is said by the testbed, and quotas give way to pauses."""

from __future__ import annotations

import json
import os
import subprocess
from types import SimpleNamespace

import pytest
from support.machine import alone

import fedrt.testbed.quota
from fedrt.api.devices.testbed import _cpu_of
from fedrt.devices.actuators import choices
from fedrt.errors import InputError
from fedrt.testbed import leftovers
from fedrt.testbed.bed import MOST_UNENFORCED, Testbed
from fedrt.testbed.layout import Host
from fedrt.testbed.processes import Processes
from fedrt.testbed.quota import quota_problem, try_quota

CPU = "cpu: planned frequencies are not enforced on this device: cgroup cannot be used: Read-only"


def processes(folder, **logs):
    """Parties whose processes have logged something."""
    found = Processes(folder, folder)
    found.parties = dict.fromkeys(name.replace("_", "-") for name in logs)
    for name, text in logs.items():
        (folder / f"{name.replace('_', '-')}.log").write_text(text)
    return found


def test_lines_are_found_once_and_only_those_with_a_reason(tmp_path):
    usual = "10:00:00 device-0: bandwidth: planned shares are not enforced on this device\n"
    mine = processes(tmp_path, edge_0="10:00:00 edge-0: connected\n", device_0=usual)
    assert mine.unenforced() == []
    with (tmp_path / "device-0.log").open("a") as log:
        log.write(f"10:00:01 device-0: {CPU}\n10:00:02 device-0: rates are not enfor")
    assert mine.unenforced() == [f"device-0: {CPU}"]
    with (tmp_path / "device-0.log").open("a") as log:
        log.write("ced: no memory\n")
    assert mine.unenforced() == ["device-0: rates are not enforced: no memory"]
    assert mine.unenforced() == []


def test_a_testbed_says_them_up_to_a_limit(tmp_path):
    told = []
    text = "".join(f"10:00:00 edge-0: round {n}: rates are not enforced: why\n" for n in range(30))
    bed = SimpleNamespace(processes=processes(tmp_path, edge_0=text), unenforced=[])
    bed.tell = told.append
    Testbed._tell_unenforced(bed)
    Testbed._tell_unenforced(bed)
    assert told == bed.unenforced
    assert len(told) == MOST_UNENFORCED


@pytest.mark.parametrize(
    ("asked", "problem", "used"),
    [
        (None, "", "cgroup"),
        ("cgroup", "", "cgroup"),
        (None, "busy", "duty"),
        ("duty", "busy", "duty"),
    ],
)
def test_without_a_quota_there_are_pauses(monkeypatch, asked, problem, used):
    monkeypatch.setattr(fedrt.testbed.quota, "quota_problem", lambda state: problem)
    told = []
    assert _cpu_of(asked, told.append) == used
    assert [problem in line for line in told] == ([True] if (asked, used) == (None, "duty") else [])


def test_a_quota_that_was_asked_for_and_cannot_be_had_is_one_line(monkeypatch):
    monkeypatch.setattr(fedrt.testbed.quota, "quota_problem", lambda state: "busy")
    with pytest.raises(InputError, match="cannot be used here: busy; give duty") as caught:
        _cpu_of("cgroup", print)
    assert len(caught.value.lines) == 1


def fake_groups(folder, monkeypatch):
    """A control group of version 1 for this process, made of files."""
    (folder / "cpu" / "mine").mkdir(parents=True)
    (folder / "own").write_text("4:cpu:/mine\n")
    monkeypatch.setattr(choices, "CGROUPS", folder)
    monkeypatch.setattr(choices, "OWN_GROUP", folder / "own")
    return folder / "cpu" / "mine"


def test_what_is_in_the_way_is_said_and_nothing_stays(tmp_path, monkeypatch):
    home = fake_groups(tmp_path, monkeypatch)
    monkeypatch.setattr(choices, "CgroupQuota", no_space)
    state = tmp_path / "trial"
    assert try_quota(state) == "No space left on device"
    assert not state.exists()
    assert list(home.iterdir()) == []
    (tmp_path / "own").write_text("4:memory:/mine\n")
    assert try_quota(state) == "there is no control group with a CPU controller"


def no_space(*args, **more):
    raise OSError(28, os.strerror(28))


def test_a_trial_that_was_killed_is_undone_by_the_next(tmp_path, monkeypatch):
    home = fake_groups(tmp_path, monkeypatch)
    monkeypatch.setattr(choices, "CgroupQuota", no_space)
    (home / "fedrt-testbed-1").mkdir()
    what = {"group": str(home / "fedrt-testbed-1"), "version": 1, "enabled": False}
    for undo in (try_quota, lambda state: leftovers.clean(folder=state.parent)):
        (home / "fedrt-testbed-1").mkdir(exist_ok=True)
        (tmp_path / "trial").mkdir(exist_ok=True)
        (tmp_path / "trial" / "enforced.json").write_text(json.dumps({"cgroup": what}))
        undo(tmp_path / leftovers.TRIAL)
        assert list(home.iterdir()) == []


def test_a_process_of_this_machine_tries_and_leaves_nothing(tmp_path):
    """Whether there is a quota or not hangs on the machine; the answer is a line, or nothing."""
    with alone():
        said = quota_problem(tmp_path / "trial")
        names = [name for _, names, _ in os.walk(choices.CGROUPS) for name in names]
    assert len(said.splitlines()) <= 1
    assert not said.startswith("exit code")
    assert [name for name in names if name.startswith("fedrt-testbed-")] == []
    assert not (tmp_path / "trial").exists()


def test_warnings_of_the_process_that_tries_are_no_problem(tmp_path, monkeypatch):
    """Notes there cannot be read: the process says so, and can have a quota all the same."""
    ran = []

    def run(words, **more):
        ran.append(words)
        return subprocess.CompletedProcess(words, len(ran) - 1, "\n", "noted: cannot be read\n")

    monkeypatch.setattr(fedrt.testbed.quota.subprocess, "run", run)
    assert quota_problem(tmp_path) == ""
    assert quota_problem(tmp_path) == "noted: cannot be read"


def test_what_was_logged_before_a_run_goes_on_is_no_news(tmp_path):
    (tmp_path / "device-0.log").write_text(f"10:00:00 device-0: {CPU}\n")
    mine = Processes(tmp_path, tmp_path)
    mine._spawn(Host("device-0", "none", "10.77.0.9"), ["--help"]).wait()
    mine.parties = {"device-0": None}
    assert mine.unenforced() == []
