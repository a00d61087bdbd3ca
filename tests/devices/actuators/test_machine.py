"""Actuators that change the machine: on trees of files, and on this one where it has the parts."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.machine import alone

from fedrt.devices.actuators.cgroup import CgroupHome, CgroupQuota, clean_cgroup, find_home
from fedrt.devices.actuators.choices import CGROUPS, CLEANERS, OWN_GROUP, open_cpu
from fedrt.devices.actuators.cpufreq import CpuFrequency, clean_cpufreq, policies
from fedrt.devices.actuators.device import urgent
from fedrt.devices.actuators.duty import DutyCycle
from fedrt.devices.actuators.leftovers import Leftovers
from fedrt.devices.common.settings import DeviceSettings


def made(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def unified(tmp_path, enabled=""):
    """A tree of version 2; files of a new group come into being when they are written."""
    root = made(tmp_path / "cgroup", cgroup__controllers="cpuset cpu io memory")
    slice_ = made(root / "system.slice" / "fedrt.service", cgroup__procs="")
    (slice_ / "cgroup.subtree_control").write_text(enabled)
    own = tmp_path / "own"
    own.write_text("0::/system.slice/fedrt.service\n")
    return root, slice_, own


@pytest.mark.parametrize("enabled", ["", "cpu memory"])
def test_a_quota_in_version_2(tmp_path, enabled):
    root, slice_, own = unified(tmp_path, enabled)
    home = find_home(root, own)
    assert home == CgroupHome(2, slice_)
    leftovers = Leftovers(tmp_path / "state")
    quota = CgroupQuota(home, "device-3", leftovers, threads=2, remove=shutil.rmtree)
    assert quota.apply(0.25) == 0.25
    (group,) = slice_.glob("fedrt-*")
    assert (group / "cpu.max").read_text() == "250000 500000"
    assert (group / "cgroup.procs").read_text() == str(os.getpid())
    control = slice_ / "cgroup.subtree_control"
    assert control.read_text() == (enabled or "+cpu")
    assert leftovers.read() == {"cgroup": quota.what}
    quota.undo()
    assert (group / "cpu.max").read_text() == "max"
    assert quota.apply(0.01) == 0.01
    assert (group / "cpu.max").read_text() == "10000 500000"
    assert quota.apply(1.0) == 1.0
    assert (group / "cpu.max").read_text() == "max"
    quota.close()
    quota.close()
    assert not list(slice_.glob("fedrt-*"))
    assert control.read_text() == (enabled or "-cpu")
    assert (slice_ / "cgroup.procs").read_text() == str(os.getpid())
    assert not leftovers.path.exists()
    assert quota.apply(0.25) == 1.0
    assert not list(slice_.glob("fedrt-*"))


def test_training_under_a_quota_does_not_end_before_its_time(tmp_path):
    root, _, own = unified(tmp_path)
    slept, cpu = [], iter([5.0, 5.3, 5.8])
    rest = DutyCycle(iter([100.0, 101.2]).__next__, cpu.__next__, slept.append, run_s=math.inf)
    home, leftovers = find_home(root, own), Leftovers(tmp_path / "state")
    quota = CgroupQuota(home, "device-3", leftovers, remove=shutil.rmtree, rest=rest)
    quota.apply(0.5, 2)
    quota.after_step()
    assert slept == []
    quota.after_step()  # 0.8 s of CPU time at a half are 1.6 s, of which 1.2 have gone by
    assert slept == [pytest.approx(0.4)]
    quota.close()


def test_a_quota_lets_slow_steps_be_made_up(tmp_path):
    """Where local steps count, the quota is 1.3 times the share, and each step has its rest."""
    root, slice_, own = unified(tmp_path)
    slept = []
    rest = DutyCycle(
        iter([100.0, 100.5, 101.2]).__next__,
        lambda: 0.0,
        slept.append,
        run_s=math.inf,
        core_step_s=0.4,
    )
    home, leftovers = find_home(root, own), Leftovers(tmp_path / "state")
    quota = CgroupQuota(home, "device-3", leftovers, remove=shutil.rmtree, rest=rest)
    assert quota.apply(0.5, 2) == pytest.approx(0.5)
    (group,) = slice_.glob("fedrt-*")
    assert (group / "cpu.max").read_text() == "325000 500000"
    quota.after_step()  # a step of 0.4 s at a half is 0.8 s, of which 0.5 have gone by
    quota.after_step()  # two are 1.6 s, of which 1.2 have gone by
    assert slept == pytest.approx([0.3, 0.4])
    quota.close()


@pytest.mark.parametrize("allowed", [True, False])
def test_what_is_urgent_goes_first_and_is_no_longer_urgent_then(monkeypatch, allowed):
    asked = []

    def ask(pid, policy, parameters):
        asked.append((pid, policy, parameters.sched_priority))
        if not allowed:
            raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", ask)
    first, then = (0, os.SCHED_RR, 1), (0, os.sched_getscheduler(0), 0)
    with urgent():
        assert asked == [first]
    assert asked == ([first, then] if allowed else [first])
    with pytest.raises(OSError, match="quota"), urgent():
        raise OSError("quota")
    assert asked == 2 * ([first, then] if allowed else [first])


def test_homes_of_both_versions(tmp_path):
    root, _, own = unified(tmp_path)
    own.write_text("4:cpu,cpuacct:/user\n1:name=systemd:/\n0::/system.slice\n")
    made(root / "cpu,cpuacct" / "user")
    assert find_home(root, own) == CgroupHome(1, root / "cpu,cpuacct" / "user")
    own.write_text("0::/of/the/host\n")
    assert find_home(root, own) == CgroupHome(2, root)
    (root / "cgroup.controllers").write_text("memory io")
    assert find_home(root, own) is None


def test_several_agents_in_one_group_of_version_2(tmp_path):
    """A group with other processes cannot share out its CPU: a group above it that does."""
    root, slice_, own = unified(tmp_path)
    (root / "cgroup.subtree_control").write_text("cpu memory")
    (slice_ / "cgroup.procs").write_text("4711\n4712\n")
    home = find_home(root, own)
    assert home == CgroupHome(2, root, slice_)
    quota = CgroupQuota(home, "device-3", Leftovers(tmp_path / "state"), remove=shutil.rmtree)
    assert quota.apply(0.25) == 0.25
    (group,) = root.glob("fedrt-*")
    quota.close()
    assert not group.exists()
    assert (slice_ / "cgroup.procs").read_text() == str(os.getpid())
    assert (root / "cgroup.subtree_control").read_text() == "cpu memory"


def test_a_group_that_is_not_ours_stays(tmp_path):
    group = made(tmp_path / "system.slice", cgroup__procs="")
    clean_cgroup({"group": str(group), "version": 1, "enabled": False}, shutil.rmtree)
    assert group.is_dir()


def cpus(tmp_path, old="1800000"):
    for number in range(2):
        files = {"cpuinfo_min_freq": "600000", "cpuinfo_max_freq": "1800000"}
        made(tmp_path / f"cpu{number}" / "cpufreq", **files, scaling_max_freq=old + "\n")
    (tmp_path / "cpufreq").mkdir()
    return policies(tmp_path)


def test_frequencies_are_lowered_read_back_and_restored(tmp_path):
    folders = cpus(tmp_path, "1700000")
    leftovers = Leftovers(tmp_path / "state")
    cpu = CpuFrequency(folders, leftovers)
    assert cpu.apply(0.5) == 0.5
    assert {(f / "scaling_max_freq").read_text() for f in folders} == {"900000"}
    assert cpu.apply(0.1) == pytest.approx(1 / 3)  # the least that the CPU can
    killed = leftovers.read()
    cpu.undo()
    assert {(f / "scaling_max_freq").read_text() for f in folders} == {"1700000"}
    assert not leftovers.path.exists()
    (folders[1] / "scaling_max_freq").write_text("600000")
    clean_cpufreq(killed["cpufreq"])
    assert (folders[1] / "scaling_max_freq").read_text() == "1700000"


def test_what_a_machine_lacks_is_said_in_one_line(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("fedrt.devices.actuators.choices.CPUS", tmp_path)
    settings = DeviceSettings("quickstart", cpu="cpufreq", name="device-0")
    assert open_cpu(settings, Leftovers(tmp_path)).apply(0.1) == 1.0
    (line,) = [record.getMessage() for record in caplog.records]
    assert "not enforced on this device: cpufreq cannot be used: this machine's CPU" in line


def test_a_file_of_leftovers_that_cannot_be_read_stops_nothing(tmp_path, caplog):
    leftovers = Leftovers(tmp_path)
    for text in ("{", "[]", '{"cgroup": 3, "tc": {}, "cpufreq": {"limits": 3}}'):
        leftovers.path.write_text(text)
        leftovers.undo(CLEANERS)
    assert "stays" in caplog.text


CHILD = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from fedrt.devices.actuators.cgroup import CgroupQuota, find_home
    from fedrt.devices.actuators.choices import CGROUPS, OWN_GROUP
    from fedrt.devices.actuators.leftovers import Leftovers
    quota = CgroupQuota(find_home(CGROUPS, OWN_GROUP), "device-test", Leftovers(Path(sys.argv[1])))
    print(quota.apply(0.4), quota.what["group"], flush=True)
    time.sleep(600)
""")


def writable_home():
    home = find_home(CGROUPS, OWN_GROUP) if OWN_GROUP.exists() else None
    if home is None or not os.access(home.folder, os.W_OK) or os.getuid():
        pytest.skip("no CPU controller of control groups that this user may write")
    if home.version == 2:
        pytest.skip("version 2 of control groups: the process would leave its group of tests")
    return home


def test_a_killed_process_leaves_a_group_that_the_next_start_removes(tmp_path):
    with alone():
        leaves_a_group(tmp_path, writable_home())


def leaves_a_group(tmp_path, home):
    before = sorted(p.name for p in home.folder.iterdir() if p.is_dir())
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        share, group = child.stdout.readline().split()
        assert float(share) == 0.4
        assert (Path(group) / "cpu.cfs_quota_us").read_text().strip() == "200000"
        assert str(child.pid) in (Path(group) / "cgroup.procs").read_text().split()
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    assert Path(group).is_dir()
    Leftovers(tmp_path).undo(CLEANERS)
    assert sorted(p.name for p in home.folder.iterdir() if p.is_dir()) == before
    assert not Leftovers(tmp_path).path.exists()
