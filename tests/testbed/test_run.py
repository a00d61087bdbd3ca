"""A whole testbed on this machine, where it can have one: real parties, kills, and no leftovers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.machine import alone
from support.paths import ROOT

from fedrt.scenario import load_scenario
from fedrt.testbed.leftovers import standing
from fedrt.testbed.machine import machine_problems

SCENARIO = """\
extends = "quickstart"
name = "bed"
[fleet]
num_edges = 2
num_devices = 3
[rounds]
global_rounds = 2
local_steps = 2
gossip_steps = 2
"""
OURS = "fedrt-"
PATIENCE_S = 300
UNPACED = ("--core-step-s", "0")
"""Without a pace, which takes seconds to be measured."""


@pytest.fixture
def machine():
    """This machine, for one testbed at a time."""
    with alone():
        if problems := machine_problems():
            pytest.skip("; ".join(problems))
        if there := standing():
            pytest.skip(f"testbeds stand on this machine: {[each.tag for each in there]}")
        yield


@pytest.fixture
def start(tmp_path, machine):
    """Start `fedrt testbed` with options; whatever is left of it ends with the test."""
    (tmp_path / "bed.toml").write_text(SCENARIO)
    before = shapes()
    running = []

    def begin(*words):
        whole = [sys.executable, "-P", "-m", "fedrt", "testbed", "bed.toml", "--out", "bed", *words]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            whole, cwd=tmp_path, env=env, stdout=-1, stderr=subprocess.STDOUT, text=True
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()
    clean(tmp_path)
    assert shapes() == before


def clean(folder):
    """Remove what killed testbeds have left."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    words = [sys.executable, "-P", "-m", "fedrt", "testbed", "--clean"]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shapes():
    """All that a testbed could leave: namespaces, interfaces, queues and control groups."""

    def said(*words):
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    walked = os.walk("/sys/fs/cgroup")  # groups of others may go meanwhile
    groups = sorted(f"{at}/{name}" for at, names, _ in walked for name in names if OURS in name)
    names = re.findall(r"^\d+: (\S+):", said("ip", "link"), re.M)
    return said("ip", "netns", "list"), names, said("tc", "qdisc"), groups


def lines_until(process, pattern):
    """What a testbed prints, until a line matches."""
    found = []
    assert process.stdout is not None
    for line in process.stdout:
        found.append(line)
        if re.search(pattern, line):
            return found
    raise AssertionError("".join(found))


def pid_of(folder, party):
    """The process of a party, by its log's name in the testbed's folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
            here = (path.parent / "cwd").resolve()
        except OSError:
            continue
        if party.encode() in words and here == (folder / "bed").resolve():
            return int(path.parent.name)
    raise AssertionError(f"{party} is not running")


def test_a_run_with_killed_parties_ends_and_leaves_nothing(start, tmp_path):
    before = shapes()
    process = start("--set", "rounds.global_rounds=6")
    early = "".join(lines_until(process, r"^global round 1:"))
    for party in ("device-1", "edge-0"):
        os.kill(pid_of(tmp_path, party), signal.SIGKILL)
    rest = process.communicate(timeout=PATIENCE_S)[0]
    assert process.returncode == 0, rest
    assert "device-1 was killed: started again" in rest
    assert "edge-0 was killed: started again" in rest
    assert "global round 6:" in rest
    assert "uploads: mean" in rest
    assert shapes() == before
    pace = json.loads((tmp_path / "bed" / "pace.json").read_text())
    told = json.loads((tmp_path / "bed" / "run" / "testbed.json").read_text())
    for host in told["hosts"][-3:]:
        cycles = 16 * load_scenario("quickstart").fleet.cycles_per_sample.low
        step_s = max(cycles / told["core_hz"], pace["core_step_s"])
        assert host["core_step_s"] == pytest.approx(step_s)
        assert f"a local step takes {step_s:.4g} s of a whole core" in early
    for party in ("device-0", "edge-1"):
        log = (tmp_path / "bed" / "logs" / f"{party}.log").read_text()
        assert "connected" in log
        assert "cannot be used" not in log
        assert "rates are not enforced" not in log


def test_a_killed_testbed_is_removed_by_the_next_start_which_may_stay(start, tmp_path):
    given = ("--keep", *UNPACED, "--set", "rounds.global_rounds=40")
    process = start(*given)
    lines_until(process, r"^global round 1:")
    second = start("--out", "second")
    said = second.communicate(timeout=PATIENCE_S)[0]
    assert said == f"process {process.pid} has a testbed running: must be one at a time\n"
    assert second.returncode == 2
    assert not (tmp_path / "second").exists()
    process.kill()
    process.wait()
    assert pid_of(tmp_path, "device-2") > 0  # what is to stay does not end with its testbed
    again = start(*given)
    rest = again.communicate(timeout=PATIENCE_S)[0]
    assert again.returncode == 0, rest
    assert "removed what an earlier testbed had left: 7 namespaces" in rest
    assert "going on after global round" in rest
    assert shapes()[0].count("fedrt-") == 7
    show = re.search(r"^  (ip netns exec .*edge-0 tc .*)$", rest, re.M)
    assert show is not None
    said = subprocess.run(show[1].split(), capture_output=True, text=True, timeout=60)
    assert "class htb" in said.stdout, said.stderr
    assert clean(tmp_path).startswith("removed: ")
    assert "fedrt-" not in shapes()[0]


def test_ctrl_c_leaves_nothing(start):
    before = shapes()
    process = start(*UNPACED)
    lines_until(process, "parties; one core stands for")
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=PATIENCE_S)[0]
    assert process.returncode == 130, rest
    assert shapes() == before
