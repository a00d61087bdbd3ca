"""The demonstration of real devices: it ends with a page, and never leaves a process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import devices_demo
import pytest
from support.children import LIMIT_S, environment
from support.paths import ROOT

DEMO = [sys.executable, str(ROOT / "tools" / "devices_demo.py")]
IDLE = "import signal, sys; print('ready', flush=True); signal.pause()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {IDLE}"


@pytest.mark.parametrize("ended_by", [KeyboardInterrupt, SystemExit, ValueError])
def test_its_processes_end_with_it(tmp_path, monkeypatch, ended_by):
    monkeypatch.setattr(devices_demo, "STOP_S", 1.0)
    codes = {"edge-0": IDLE, "coordinator": STUBBORN}
    monkeypatch.setattr(
        devices_demo, "command", lambda *words: [sys.executable, "-c", codes[words[-1][:-7]]]
    )
    before = signal.getsignal(signal.SIGTERM)
    demo = devices_demo.Demo(tmp_path)
    monkeypatch.setattr(devices_demo, "Demo", lambda folder: demo)
    with pytest.raises(ended_by):
        start_both_and_raise(tmp_path, ended_by)
    assert demo.processes["edge-0"].returncode == -signal.SIGTERM
    assert demo.processes["coordinator"].returncode == -signal.SIGKILL
    assert signal.getsignal(signal.SIGTERM) == before
    demo.processes["coordinator"].stdout.close()


def start_both_and_raise(folder, error):
    """A demonstration that an error ends."""
    with devices_demo.parties(folder) as demo:
        demo.start("edge-0")
        assert demo.start("coordinator").stdout.readline() == "ready\n"
        raise error


def test_a_folder_that_is_there_is_left_alone(tmp_path):
    told = subprocess.run(
        [*DEMO, str(tmp_path)], capture_output=True, text=True, env=environment(), check=False
    )
    assert told.returncode == 1
    assert told.stderr == f"{tmp_path}: exists already: give another folder\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("given", [(3, 4, "fedrt"), (4, 4, "fedrt-plus"), (2, 4, "fedrt")])
def test_it_ends_with_the_page_of_all_rounds(tmp_path, given):
    out = tmp_path / "demo"
    options = "--rounds 4 --edges {} --devices {} --policy {}".format(*given).split()
    told = subprocess.run(
        [*DEMO, str(out), *options],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
        timeout=LIMIT_S,
    )
    assert told.returncode == 0, told.stderr
    assert "$ kill -9 device-1" in told.stdout
    assert "$ kill -9 coordinator" in told.stdout
    log = (out / "coordinator.log").read_text()
    assert "going on after global round" in log
    assert "starting over" not in log
    lines = [line for line in told.stdout.splitlines() if line.startswith("global round ")]
    assert {line.split()[2] for line in lines} == {"1:", "2:", "3:", "4:"}
    assert all("8 of 8 updates" in line for line in lines)
    assert (out / "run" / "page.html").is_file()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_in_the_middle_leaves_no_process(tmp_path, number):
    out = tmp_path / "demo"
    demo = subprocess.Popen([*DEMO, str(out)], stdout=subprocess.PIPE, text=True, env=environment())
    for line in demo.stdout:
        if line.startswith("global round 1:"):
            demo.send_signal(number)
            break
    demo.stdout.read()
    assert demo.wait(LIMIT_S) == 128 + number
    demo.stdout.close()
    assert "edge-0 has stopped" in (out / "edge-0.log").read_text()
    assert not [each for each in os.listdir("/proc") if each.isdigit() and works_in(each, out)]


def works_in(process, folder):
    """Whether a process's current folder is this one."""
    try:
        return os.readlink(f"/proc/{process}/cwd") == str(folder)
    except OSError:
        return False
