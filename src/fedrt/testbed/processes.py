"""The processes of a testbed: started in their namespaces, watched, started again, and ended."""

from __future__ import annotations

import os
import queue
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO, Any

from fedrt.errors import FedrtError
from fedrt.testbed.commands import whole_command
from fedrt.testbed.layout import Host

STOP_S = 10.0
"""What a party gets to stop by itself."""
MOST_STARTS = 50
"""How often a party is started that is killed again and again."""
LAST_LINES = 5
UNENFORCED = re.compile(rb"^\S+ (\S+: .* not enforced.*: .+)$", re.MULTILINE)
"""What a party logs of a plan that it cannot hold its machine to, with the reason."""


class PartyError(FedrtError):
    """A party of the testbed has ended with an error."""


@dataclass
class Running:
    """A party's process, and how to start it."""

    host: Host
    words: Sequence[str]
    process: subprocess.Popen[Any]
    starts: int = 1


class Processes:
    """All processes of a testbed; logs are in a folder, a file for each party."""

    def __init__(self, logs: Path, folder: Path, *, outlive: bool = False) -> None:
        self.logs, self.folder, self.outlive = logs, folder, outlive
        self.parties: dict[str, Running] = {}
        self.lines: queue.Queue[str] = queue.Queue()
        """What the coordinator prints."""
        self._read_to: dict[str, int] = {}
        """How far each log was searched."""

    def start(self, host: Host, words: Sequence[str]) -> None:
        """Start a party, or start it again."""
        before = self.parties.get(host.name)
        process = self._spawn(host, words)
        starts = 1 if before is None else before.starts + 1
        self.parties[host.name] = Running(host, words, process, starts)

    def _spawn(self, host: Host, words: Sequence[str]) -> subprocess.Popen[Any]:
        is_coordinator = host.role == "coordinator"
        whole = whole_command(host, words, tied=is_coordinator or not self.outlive)
        with (self.logs / f"{host.name}.log").open("ab") as log:
            # What stands there of a run that was stopped is no news.
            self._read_to.setdefault(host.name, log.tell())
            process = subprocess.Popen(
                whole,
                cwd=self.folder,
                env=environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if is_coordinator else log,
                stderr=subprocess.STDOUT if is_coordinator else log,
                text=is_coordinator,
                start_new_session=True,
            )
        if process.stdout is not None:
            Thread(target=self._read, args=(process.stdout,), daemon=True).start()
        return process

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self.lines.put(line.rstrip("\n"))
            with (self.logs / "coordinator.log").open("a") as log:
                log.write(line)

    def look(self) -> list[str]:
        """Start parties again that were killed; return the names of those.

        An error if a party has ended by itself, other than a coordinator whose run has ended.
        """
        again = []
        for name, party in list(self.parties.items()):
            code = party.process.poll()
            if code is None or (code == 0 and party.host.role == "coordinator"):
                continue
            if code >= 0 or party.starts >= MOST_STARTS:
                raise PartyError(f"{name} ended with {code}: {self.last_words(name)}")
            self.start(party.host, party.words)
            again.append(name)
        return again

    def has_ended(self, name: str) -> bool:
        """Whether a party has ended."""
        return self.parties[name].process.poll() is not None

    def last_words(self, name: str) -> str:
        """The last lines of a party's log."""
        path = self.logs / f"{name}.log"
        lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
        return " | ".join(lines[-LAST_LINES:]) or "its log is empty"

    def unenforced(self) -> list[str]:
        """What parties have logged of plans that they cannot enforce, since the last call."""
        found: list[str] = []
        for name in self.parties:
            path = self.logs / f"{name}.log"
            with path.open("rb") as log:
                log.seek(self._read_to.setdefault(name, 0))
                new = log.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read_to[name] += len(whole)
            found += [each.decode(errors="replace") for each in UNENFORCED.findall(whole)]
        return found

    def stop(self) -> None:
        """Tell all parties to stop, and end those that do not."""
        running = [p.process for p in self.parties.values() if p.process.poll() is None]
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a party: one thread each, and none of its settings from elsewhere."""
    own = ("FEDRT_EDGE_", "FEDRT_DEVICE_", "FEDRT_COORDINATOR_")
    kept = {key: value for key, value in given.items() if not key.startswith(own)}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
