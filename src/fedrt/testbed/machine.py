"""Whether a machine can have a testbed: root, tools, what its kernel has, and how many cores."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fedrt.devices.actuators.cgroup import find_home
from fedrt.devices.actuators.choices import CGROUPS, OWN_GROUP
from fedrt.errors import FedrtError
from fedrt.system.machine import cores
from fedrt.testbed.leftovers import Standing, process_began

TOOLS = ("ip", "tc", "nsenter")
TRY_S = 20.0
NETWORKS = Path("/proc/self/ns/net")
IFB = Path("/sys/module/ifb")


def machine_problems() -> list[str]:
    """What this machine lacks for a testbed, a line each."""
    if not hasattr(os, "geteuid") or not NETWORKS.exists():
        return ["a testbed needs Linux with network namespaces"]
    found = [f"{tool}: is not installed" for tool in TOOLS if shutil.which(tool) is None]
    if os.geteuid() != 0:
        found.append("a testbed needs root: it makes network namespaces")
    return found or _kernel_problems()


def _kernel_problems() -> list[str]:
    """Whether the kernel has the pieces without which nothing can be emulated."""
    tag, pid = os.urandom(3).hex(), os.getpid()
    probe = f"fedrt-{tag}-net"
    tried: Sequence[tuple[str, str]] = (
        ("network namespaces", f"ip netns add {probe}"),
        ("bridges", f"ip -n {probe} link add br0 type bridge"),
        ("pairs of virtual interfaces", f"ip -n {probe} link add v0 type veth peer name v1"),
        ("ifb", f"ip -n {probe} link add i0 type ifb"),
        ("HTB", f"tc -n {probe} qdisc add dev i0 root handle 1: htb"),
        ("TBF", f"tc -n {probe} qdisc add dev v0 root tbf rate 1mbit burst 2000 limit 9000"),
        ("queues of what arrives", f"tc -n {probe} qdisc add dev v1 handle ffff: ingress"),
        (
            "filters with u32 and mirred",
            f"tc -n {probe} filter add dev v1 parent ffff: protocol ip prio 1"
            " u32 match ip dport 1 0xffff action mirred egress redirect dev i0",
        ),
    )
    noted = Standing(tag, pid, process_began(pid), [probe])
    try:
        noted.write()
        _load_ifb()
        for what, line in tried:
            words = line.split()
            done = subprocess.run(words, capture_output=True, text=True, timeout=TRY_S, check=False)
            if done.returncode:
                said = (done.stderr.strip().splitlines() or ["no reason given"])[0]
                return [f"this machine has no {what}: {said}"]
        return []
    except (OSError, FedrtError, subprocess.TimeoutExpired) as error:
        return [f"this machine's network cannot be tried: {error}"]
    finally:
        with suppress(FedrtError, OSError):
            noted.remove()


def _load_ifb() -> None:
    """Load the kernel's module without the two interfaces that it would make for the machine."""
    modprobe = shutil.which("modprobe")
    if modprobe is not None and not IFB.exists():
        words = [modprobe, "ifb", "numifbs=0"]
        subprocess.run(words, capture_output=True, timeout=TRY_S, check=False)


def usable_cores(root: Path = CGROUPS, own: Path = OWN_GROUP) -> int:
    """The number of whole cores that this process may use.

    A control group that this process is in, as that of a container, may have less of the CPU than
    there are cores.
    """
    found = float(cores())
    with suppress(OSError, ValueError):
        home = find_home(root, own)
        mine = None if home is None else home.own or home.folder
        for group in () if mine is None else (mine, *mine.parents):
            if group == root.parent:
                break
            found = min(found, _limit(group))
    return max(math.floor(found + 1e-9), 1)


def _limit(group: Path) -> float:
    """The cores that a control group of either version lets its processes take together."""
    found = math.inf
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        files = [group / name for name in names]
        if all(file.exists() for file in files):
            quota, period = " ".join(file.read_text() for file in files).split()
            found = math.inf if quota in ("max", "-1") else float(quota) / float(period)
    return found
