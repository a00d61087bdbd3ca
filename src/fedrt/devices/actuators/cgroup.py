"""`cgroup`: a CPU quota for the agent's process in a control group of its own, version 1 or 2."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrt.devices.actuators.base import CpuActuator
from fedrt.devices.actuators.duty import DutyCycle
from fedrt.devices.actuators.leftovers import Leftovers

NAME = "cgroup"
PERIOD_US = 500_000
"""Long, as after each rest a processor is slower for a while, its caches cold; and always the same:
after a change the kernel would first let the period before end."""
LEAST_US = 1000
"""The kernel takes no smaller quota."""
MAKE_UP = 1.3
"""Where local steps count as work, the quota is greater by this factor than the share, so that a
processor that is slower for a while can make up for it."""
URGENT_US = 10_000
"""What threads with real-time priority may take of a second (`urgent` in device.py)."""
MANY = 2**62
"""Local steps where their number is not known: the last one does not come."""
OWN = "fedrt-"
"""How the names of our groups begin."""

Remove = Callable[[Path], None]


@dataclass(frozen=True)
class CgroupHome:
    """The control group below which this process may make one."""

    version: int
    folder: Path
    own: Path | None = None
    """The group that the process is in, if that is another one."""


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
            mine = _inside(root, path)
            home = _sharing(root, mine)
            return CgroupHome(2, home, None if home == mine else mine)
    return None


def _sharing(root: Path, own: Path) -> Path:
    """The group of version 2 below which a process may make one: its own, if it is alone in it.

    A group with other processes cannot share out its CPU: then the nearest one above that does.
    """
    if len(_words(own / "cgroup.procs")) <= 1:
        return own
    for above in (own, *own.parents):
        if "cpu" in _words(above / "cgroup.subtree_control"):
            return above
        if above == root:
            break
    return own


def _inside(mount: Path, path: str) -> Path:
    """The folder of a group; in a container the path may be one of the host."""
    found = mount / path.strip("/")
    return found if found.is_dir() else mount


class CgroupQuota(CpuActuator):
    """Lets the process run for its share of every period, on all of its threads together.

    The group stays for as long as the process: only its quota comes and goes with a round. What
    work is left in the last period is done at once, so that training would end too early: after the
    last step it waits until the work done is the share of what a whole core would have done.
    `rest` says what counts as work.
    """

    def __init__(
        self,
        home: CgroupHome,
        party: str,
        leftovers: Leftovers,
        threads: int = 1,
        remove: Remove = os.rmdir,
        rest: DutyCycle | None = None,
    ) -> None:
        super().__init__()
        self._home, self._leftovers, self._threads = home, leftovers, threads
        self._remove, self._rest = remove, rest or DutyCycle(run_s=math.inf)
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
            **({} if self._home.own is None else {"back": str(self._home.own)}),
        }

    @property
    def is_free_at_full_speed(self) -> bool:
        return self._rest.is_free_at_full_speed

    def _apply(self, share: float, steps: int) -> float:
        self._rest.apply(share, steps or MANY)
        if share >= 1.0:
            self._lift()
            return 1.0
        make_up = MAKE_UP if self._rest.core_step_s else 1.0
        if share * make_up > 1.0:
            make_up = 1.0 / share  # a thread takes no more than a core
        quota_us = max(round(share * make_up * self._threads * PERIOD_US), LEAST_US)
        self._enter()
        if self._home.version == 1:
            self._write("cpu.cfs_quota_us", quota_us)
            read = float((self._group / "cpu.cfs_quota_us").read_text())
        else:
            self._write("cpu.max", f"{quota_us} {PERIOD_US}")
            read = float((self._group / "cpu.max").read_text().split()[0])
        return read / PERIOD_US / self._threads / make_up

    def after_step(self) -> None:
        self._rest.after_step()

    def _enter(self) -> None:
        """Go into the group; it is made on the first time."""
        if self._group.is_dir():
            return
        self._leftovers.note(NAME, self.what)
        self._group.mkdir()
        if self._home.version == 1:
            self._write("cpu.cfs_period_us", PERIOD_US)
            with suppress(OSError):  # only some kernels have it, and then urgent threads need it
                self._write("cpu.rt_runtime_us", URGENT_US)
        self._write("cgroup.procs", os.getpid())
        if self._enables:
            # A group with processes may not share out controllers: so after they have left it.
            (self._home.folder / "cgroup.subtree_control").write_text("+cpu")

    def _lift(self) -> None:
        """Let the process run freely, in its group."""
        if self._group.is_dir():
            one = self._home.version == 1
            self._write(*(("cpu.cfs_quota_us", -1) if one else ("cpu.max", "max")))

    def _write(self, name: str, value: object) -> None:
        (self._group / name).write_text(str(value))

    def _undo(self) -> None:
        self._rest.undo()
        if not self._closed:
            self._lift()
            return
        self._rest.close()
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
    back = Path(what.get("back", group.parent))
    for pid in _words(group / "cgroup.procs"):
        (back / "cgroup.procs").write_text(pid)
    remove(group)


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []
