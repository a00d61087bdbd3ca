"""What testbeds have set up on this machine, so that the next start can undo what is left.

Each writes a file in a folder that a restart of the machine empties, before it makes anything, and
removes it when all of that is gone.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedrt.devices.actuators.cgroup import clean_cgroup
from fedrt.devices.actuators.choices import CGROUPS
from fedrt.devices.actuators.leftovers import Leftovers
from fedrt.devices.actuators.tc import run_command
from fedrt.errors import FedrtError, InputError
from fedrt.system.files import make_folder, write_json
from fedrt.testbed.network import Run, namespaces_there, pids_in, remove_namespace

FOLDER = Path("/run/fedrt-testbed")
TRIAL = "trial"
"""The folder in it of what is only tried before a testbed is made."""
END_S = 10.0
"""Within which killed processes have to be gone."""
OURS = re.compile(r"fedrt-[0-9a-f]{6}-[a-z]+(-[0-9]+)?")
GROUP = re.compile(r"fedrt-(?:device-[0-9]+|testbed)-([0-9]+)")
TAG = re.compile(r"[0-9a-f]{6}")


@dataclass
class Standing:
    """A testbed that stands, or has left something."""

    tag: str
    pid: int
    began: str
    """When that process began, as the kernel counts it: numbers of processes are used again."""
    namespaces: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    """The state folders of its parties, which say what these have set up."""
    kept: bool = False
    """Whether it is to stay after its run."""

    @property
    def is_alive(self) -> bool:
        """Whether the process that made it is there."""
        return process_began(self.pid) == self.began != ""

    def write(self, folder: Path = FOLDER) -> None:
        """Note it."""
        make_folder(folder, parents=True)
        write_json(folder / f"{self.tag}.json", asdict(self))

    def remove(self, folder: Path = FOLDER, run: Run = run_command) -> None:
        """End its processes, and remove its namespaces and control groups."""
        there = namespaces_there(run)
        mine = [name for name in self.namespaces if name in there]
        end_all(mine, run)
        for name in mine:
            remove_namespace(name, run)
        for state in self.states:
            undo_groups(Path(state))
        (folder / f"{self.tag}.json").unlink(missing_ok=True)


def undo_groups(state: Path) -> None:
    """Remove the control group that a party left.

    What it had set up with `tc` has gone with its namespace: undone here it would be sought on the
    machine's own interfaces.
    """
    held = Leftovers(state)
    held.undo({"cgroup": clean_cgroup})
    held.drop("tc")


def standing(folder: Path = FOLDER) -> list[Standing]:
    """All testbeds that have left a file; files that are not ours are left alone."""
    found = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            given = json.loads(path.read_text())
            entry = Standing(**given)
        except (OSError, ValueError, TypeError):
            continue
        if _is_ours(given):
            found.append(entry)
    return found


def _is_ours(given: Mapping[str, Any]) -> bool:
    """Whether a file names what a testbed makes, and nothing else of the machine."""
    names, states = given.get("namespaces"), given.get("states")
    return (
        isinstance(names, list)
        and all(isinstance(name, str) and OURS.fullmatch(name) for name in names)
        and isinstance(states, list)
        and all(isinstance(state, str) for state in states)
        and isinstance(given.get("tag"), str)
        and TAG.fullmatch(given["tag"]) is not None
        and isinstance(given.get("pid"), int)
    )


def clean(
    *,
    kept: bool = False,
    folder: Path = FOLDER,
    run: Run = run_command,
    groups: Path = CGROUPS,
) -> list[Standing]:
    """Remove what killed testbeds have left, and with `kept` those that were to stay."""
    undo_groups(folder / TRIAL)
    found = [each for each in standing(folder) if not each.is_alive and (kept or not each.kept)]
    for each in found:
        each.remove(folder, run)
    if found:
        remove_dead_groups(groups)
    return found


def remove_dead_groups(root: Path = CGROUPS) -> None:
    """Remove control groups of devices that are gone, whose notes were perhaps deleted with them.

    The name of a group has the number of its process. The kernel removes none that has processes.
    """
    for folder, names, _ in os.walk(root):
        for name in names:
            ours = GROUP.fullmatch(name)
            if ours is not None and not process_began(int(ours[1])):
                with suppress(OSError):
                    os.rmdir(Path(folder) / name)


def refuse_second(folder: Path = FOLDER) -> None:
    """Raise an error if another testbed is running: shares of the CPU would not hold."""
    for each in standing(folder):
        if each.is_alive and each.pid != os.getpid():
            raise InputError(f"process {each.pid} has a testbed running: must be one at a time")


def end_all(namespaces: Sequence[str], run: Run = run_command) -> None:
    """Kill all processes in some namespaces, and wait until they are gone."""
    end = time.monotonic() + END_S
    while pids := [pid for name in namespaces for pid in pids_in(name, run)]:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > end:
            raise FedrtError(f"processes {pids} of a testbed do not end")
        time.sleep(0.05)


def process_began(pid: int) -> str:
    """When a process began, as the kernel counts it; empty if it is not there."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]
