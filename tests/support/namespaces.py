"""A network namespace for a test, where root, tc and the kernel allow it."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedrt.devices.actuators.netlink import HtbClasses
from fedrt.devices.actuators.tc import TrafficError
from support.machine import alone

NETWORK = 0x40000000
"""CLONE_NEWNET, for setns."""


@contextmanager
def namespace() -> Iterator[list[str]]:
    """A namespace with the interface uplink0; removed, whatever happens. How to enter it."""
    with alone(), _namespace() as inside:
        yield inside


@contextmanager
def _namespace() -> Iterator[list[str]]:
    if os.getuid() or shutil.which("tc") is None or shutil.which("nsenter") is None:
        pytest.skip("needs root, tc and nsenter")
    edge = f"fedrt-test-{uuid.uuid4().hex[:6]}"
    run = subprocess.run
    if run(["ip", "netns", "add", edge], capture_output=True).returncode:
        pytest.skip("no network namespaces here")
    try:
        inside = ["nsenter", f"--net=/run/netns/{edge}"]
        steps = (
            "ip link set lo up",
            "ip link add uplink0 type veth peer name uplink1",
            "ip link set uplink0 up",
            "ip link set uplink1 up",
            "ip link add probe type ifb",
            "tc qdisc add dev probe root handle 1: htb",
            "tc class add dev probe parent 1: classid 1:2 htb rate 1mbit",
            "tc qdisc add dev probe parent 1:2 tbf rate 1mbit burst 2000 limit 10000",
            "ip link del probe",
        )
        for step in steps:
            done = run([*inside, *step.split()], capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"{step}: {done.stderr.strip()}")
        yield inside
    finally:
        run(["ip", "netns", "del", edge], check=True)


def runner(inside):
    """What runs a command in a namespace, as actuators do."""

    def command(words, lines):
        done = subprocess.run([*inside, *words], input=lines, capture_output=True, text=True)
        if done.returncode:
            raise TrafficError(done.stderr)
        return done.stdout

    return command


def shapes(run):
    """Queues and interfaces in a namespace; the latter by name, as their states follow later."""
    names = re.findall(r"^\d+: (\S+):", run(["ip", "-o", "link"], ""), re.MULTILINE)
    return run(["tc", "qdisc"], ""), names


def classes_in(inside):
    """What opens the classes of HTB in a namespace: the socket stays in that of its maker."""

    def enter_and_open(interface):
        libc = ctypes.CDLL(None, use_errno=True)
        with Path(inside[-1].removeprefix("--net=")).open() as file:
            assert libc.setns(file.fileno(), NETWORK) == 0, os.strerror(ctypes.get_errno())
        return HtbClasses(interface)

    def classes_on(interface):
        with ThreadPoolExecutor(1) as thread:  # only this thread enters the namespace
            return thread.submit(enter_and_open, interface).result()

    return classes_on
