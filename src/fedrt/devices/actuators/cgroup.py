"""`cgroup`: a CPU quota for the agent's process in a control group of its own, version 1 or 2."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrt.devices.actuators.base import CpuActuator
from fedrt.devices.actuators.leftovers import Leftovers

NAME = "cgroup"
PERIOD_US = 100_000
LEAST_US = 1000
"""The kernel takes no smaller quota."""
OWN = "fedrt-"
"""How the names of our groups begin."""

Remove = Callable[[Path], None]


@dataclass(frozen=True)
class CgroupHome:
    """The control group that this process is in, below which it may make one."""

    version: int
    folder: Path


def find_home(root: Path, own: Path) -> CgroupHome | None:
    """The group of the CPU controller that a process is in, by its file /proc/PID/cgroup."""
    lines = [line.split(":", 2) for line in own.read_text().splitlines() if line.count(":") >= 2]
    for _, controllers, path in lines:
        if "cpu" in controllers.split(","):
            for mount in (root / controllers, root / "cpu"):
                if (mount / "cpu.cfs_quota_us").exists() or (mount / path.strip("/")).is_dir():
                    return CgroupHome(1, _inside(mount, path))
    for _, controllers, path in lines:
        known = root / "cgroup.controllers"
        if not controllers and known.exists() and "cpu" in known.read_text().split():
            return CgroupHome(2, _inside(root, path))
    return None


def _inside(mount: Path, path: str) -> Path:
    """The folder of a group; in a container the path may be one of the host."""
    found = mount / path.strip("/")
    return found if found.is_dir() else mount


class CgroupQuota(CpuActuator):
    """Lets the process run for its share of every 100 ms, on all of its threads together."""

    def __init__(
        self,
        home: CgroupHome,
        party: str,
        leftovers: Leftovers,
        threads: int = 1,
        remove: Remove = os.rmdir,
    ) -> None:
        super().__init__()
        self._home, self._leftovers, self._threads = home, leftovers, threads
        self._remove = remove
        self._group = home.folder / f"{OWN}{party}-{os.getpid()}"
        control = home.folder / "cgroup.subtree_control"
        self._enables = home.version == 2 and "cpu" not in _words(control)

    @property
    def what(self) -> dict[str, Any]:
        """What is set up, as the file of leftovers keeps it."""
        return {
            "group": str(self._group),
            "version": self._home.version,
            "enabled": self._enables,
        }

    def _apply(self, share: float) -> float:
        if share >= 1.0:
            return 1.0
        group, pid = self._group, str(os.getpid())
        self._leftovers.note(NAME, self.what)
        group.mkdir(exist_ok=True)
        quota_us = max(round(share * self._threads * PERIOD_US), LEAST_US)
        if self._home.version == 1:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
            (group / "cgroup.procs").write_text(pid)
            read = float((group / "cpu.cfs_quota_us").read_text())
        else:
            # A group with processes may not share out controllers: first into the new one.
            (group / "cgroup.procs").write_text(pid)
            if self._enables:
                (self._home.folder / "cgroup.subtree_control").write_text("+cpu")
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            read = float((group / "cpu.max").read_text().split()[0])
        return read / PERIOD_US / self._threads

    def _undo(self) -> None:
        if self._group.is_dir():
            clean_cgroup(self.what, self._remove)
        self._leftovers.drop(NAME)


def clean_cgroup(what: Mapping[str, Any], remove: Remove = os.rmdir) -> None:
    """Remove a group of ours; processes that are still in it go to the one above."""
    group = Path(what["group"])
    if not group.name.startswith(OWN) or not group.is_dir():
        return
    if what["version"] == 2 and what["enabled"]:
        (group.parent / "cgroup.subtree_control").write_text("-cpu")
    for pid in _words(group / "cgroup.procs"):
        (group.parent / "cgroup.procs").write_text(pid)
    remove(group)


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []
