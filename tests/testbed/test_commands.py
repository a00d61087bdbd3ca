"""The commands of parties: in their namespaces, servers first, ended with what started them."""

from __future__ import annotations

import sys

import pytest

from fedrt.api.devices.testbed import CPUS, _check_cpu
from fedrt.errors import InputError
from fedrt.testbed import commands, machine
from fedrt.testbed.commands import NICE, REAL_TIME, servers_first, whole_command
from fedrt.testbed.layout import Host

FEDRT = [sys.executable, "-P", "-m", "fedrt", "device", "device-0"]


def host_of(role: str) -> Host:
    name = role if role == "coordinator" else f"{role}-0"
    return Host(name=name, namespace="fedrt-aaaaaa-net", address="10.77.0.2")


@pytest.fixture(autouse=True)
def priority(monkeypatch):
    monkeypatch.setattr(commands, "servers_first", lambda: REAL_TIME)
    monkeypatch.setattr(commands.shutil, "which", lambda name: name)


@pytest.mark.parametrize(
    ("role", "first"), [("device", ()), ("edge", REAL_TIME), ("coordinator", REAL_TIME)]
)
def test_servers_have_a_core_before_devices(role, first):
    command = whole_command(host_of(role), FEDRT[4:], tied=False)
    inside = ["nsenter", "--net=/run/netns/fedrt-aaaaaa-net", "--"]
    assert command == [*inside, *first, *FEDRT]


def test_a_tied_party_ends_with_what_started_it_where_that_can_be_had(monkeypatch):
    tie = ["setpriv", "--pdeathsig", "TERM", "--"]
    assert whole_command(host_of("device"), FEDRT[4:], tied=True)[3:] == [*tie, *FEDRT]
    monkeypatch.setattr(commands.shutil, "which", lambda name: None)
    assert whole_command(host_of("device"), FEDRT[4:], tied=True)[3:] == FEDRT


@pytest.mark.parametrize(("code", "first"), [(0, REAL_TIME), (1, NICE)])
def test_priority_is_tried_before_it_is_given(code, first, monkeypatch):
    tried = []

    def run(words, **more):
        tried.append(words)
        return commands.subprocess.CompletedProcess(words, code)

    monkeypatch.setattr(commands.subprocess, "run", run)
    servers_first.cache_clear()
    try:
        assert servers_first() == first
        assert servers_first() == first
    finally:
        servers_first.cache_clear()
    assert tried == [[*REAL_TIME, "true"]]


@pytest.mark.parametrize(
    ("program", "there", "loads"),
    [("modprobe", False, True), ("modprobe", True, False), (None, False, False)],
)
def test_a_module_is_loaded_that_is_missing_and_can_be(
    program, there, loads, tmp_path, monkeypatch
):
    ran = []
    monkeypatch.setattr(machine.shutil, "which", lambda name: program)
    monkeypatch.setattr(machine, "IFB", tmp_path if there else tmp_path / "none")
    monkeypatch.setattr(machine.subprocess, "run", lambda words, **more: ran.append(words))
    machine._load_ifb()
    assert ran == [["modprobe", "ifb", "numifbs=0"]] * loads


def test_devices_are_held_by_what_there_is():
    for cpu in (None, *CPUS):
        _check_cpu(cpu)
    with pytest.raises(InputError, match='`cpu` "magic": must be cgroup or duty'):
        _check_cpu("magic")
