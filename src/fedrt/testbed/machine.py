"""Whether a machine can have a testbed: root, tools, and what its kernel has."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

TOOLS = ("ip", "tc", "nsenter")
TRY_S = 20.0


def machine_problems() -> list[str]:
    """What this machine lacks for a testbed, a line each."""
    if not hasattr(os, "geteuid") or not Path("/proc/self/ns/net").exists():
        return ["a testbed needs Linux with network namespaces"]
    found = [f"{tool}: is not installed" for tool in TOOLS if shutil.which(tool) is None]
    if os.geteuid() != 0:
        found.append("a testbed needs root: it makes network namespaces")
    return found or _kernel_problems()


def _kernel_problems() -> list[str]:
    """Whether the kernel has the pieces without which nothing can be emulated."""
    probe = f"fedrt-{os.urandom(3).hex()}-net"
    shape = "tc qdisc add dev i0 root handle 1: htb"
    tried: Sequence[tuple[str, list[str]]] = (
        ("network namespaces", ["ip", "netns", "add", probe]),
        ("bridges", ["ip", "-n", probe, "link", "add", "br0", "type", "bridge"]),
        ("pairs of virtual interfaces", ["ip", "-n", probe, "link", "add", "v0", "type", "veth"]),
        ("ifb", ["ip", "-n", probe, "link", "add", "i0", "type", "ifb"]),
        ("HTB", ["ip", "netns", "exec", probe, *shape.split()]),
    )
    try:
        for what, words in tried:
            done = subprocess.run(words, capture_output=True, text=True, timeout=TRY_S, check=False)
            if done.returncode:
                said = (done.stderr.strip().splitlines() or ["no reason given"])[0]
                return [f"this machine has no {what}: {said}"]
        return []
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"this machine's network cannot be tried: {error}"]
    finally:
        subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
