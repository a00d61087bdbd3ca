"""Parties that are killed while they hold devices to a plan, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.children import LIMIT_S, environment
from support.machine import alone
from support.namespaces import namespace, runner, shapes
from support.parties import six, split

from fedrt.devices.actuators.cgroup import find_home
from fedrt.devices.actuators.choices import CGROUPS, OWN_GROUP
from fedrt.scenario import scenario_text

PORT = 7100


class Party:
    """A party as a process of its own, and what it says."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=environment()
        )

    def until(self, words: str) -> str:
        """Read what it says until there is a line with some words."""
        said = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            said.append(line)
            if words in line:
                return "".join(said)
        raise AssertionError(f"has ended without {words!r}: {said}")

    def end(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.communicate(timeout=LIMIT_S)


@contextmanager
def started(command: list[str]):
    """A party that does not outlive the block."""
    party = Party(command)
    try:
        yield party
    finally:
        if party.process.poll() is None:
            party.end(signal.SIGKILL)


def command_of(folder: Path, site, role: str, *options: str) -> list[str]:
    """The command of a party; its data and the scenario are made once."""
    scenario, name = folder / "scenario.toml", f"{role}-0"
    if not scenario.exists():
        scenario.write_text(scenario_text(six(), anywhere=True))
    files = site.files(role, name)
    given = {"--scenario": scenario, "--state": folder / "state", "--ca": files.ca}
    given |= {"--certificate": files.certificate, "--key": files.key}
    words = [str(word) for pair in given.items() for word in pair]
    return [sys.executable, "-m", "fedrt", role, name, "--allow-code", *words, *options]


def test_an_edge_server_that_was_killed_renews_its_shapes(tmp_path, site):
    with namespace() as inside:
        run = runner(inside)

        def seen():
            return shapes(run)

        def rates():
            return run(["tc", "class", "show", "dev", f"fedrt{PORT}"], "")

        before = seen()
        own = ("--listen", f"127.0.0.1:{PORT}", "--bandwidth", "tc", "--interface", "uplink0")
        command = [*inside, *command_of(tmp_path, site, "edge", *own)]
        with started(command) as edge:
            edge.until("listens on")
            class_ = f"tc class add dev fedrt{PORT} parent 1: classid 1:10 htb rate 1mbit"
            run(class_.split(), "")
            edge.end(signal.SIGKILL)
        assert "class htb 1:10 " in rates()
        with started(command) as edge:
            assert "undone what an earlier process had set up" in edge.until("listens on")
            assert "class htb 1:10 " not in rates()
            edge.end(signal.SIGTERM)
        assert seen() == before
        assert not (tmp_path / "state" / "enforced.json").exists()


def test_a_device_that_was_killed_renews_its_group(tmp_path, site):
    with alone():
        renews_its_group(tmp_path, site)


def renews_its_group(tmp_path, site):
    home = find_home(CGROUPS, OWN_GROUP) if OWN_GROUP.exists() else None
    if home is None or not os.access(home.folder, os.W_OK) or os.getuid() or home.version == 2:
        pytest.skip("needs root and version 1 of control groups with a CPU controller")

    def groups():
        return {each.name for each in home.folder.glob("fedrt-device-0-*")}

    before = groups()
    split(tmp_path, six())
    own = ("--data", str(tmp_path / "device-0.npz"), "--cpu", "cgroup", "--edge", "127.0.0.1:9")
    command = command_of(tmp_path, site, "device", *own)
    with started(command) as device:
        device.until("energy: ")
        killed = f"fedrt-device-0-{device.process.pid}"
        device.end(signal.SIGKILL)
    assert killed in groups()
    with started(command) as device:
        assert "undone what an earlier process had set up" in device.until("energy: ")
        assert killed not in groups()
        assert f"fedrt-device-0-{device.process.pid}" in groups()
        device.end(signal.SIGTERM)
    assert groups() == before
