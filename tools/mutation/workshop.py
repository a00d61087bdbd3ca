"""A copy of the tree in which mutants are made and tested: the tree itself is never touched.

Heavy libraries are loaded once; every mutant is tested in a child forked from there, which loads
the mutated source. Compiled code is cached by a file's own date, not by those it calls, so a mutant
of a compiled file gets a cache without that file and all that import it.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from mutation.operators import Mutant
from mutation.reach import Chosen, Reach, Recorder

HEAVY = ("numpy", "numba", "torch", "cvxpy", "pyarrow.parquet", "rich.table")
OPTIONS = ("-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short")
MOST_BYTES = 12 * 2**30
# A mutant has failed that takes this much more CPU than the tests it is shown to, and a start.
PATIENCE = 3.0
START_S = 20.0
# Real time is no measure on a shared machine: it only ends what waits for ever.
WALL = 10.0


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    outcome: str
    """killed, timeout, survived or unreached."""
    by: str
    """The first test that failed."""
    tests: int
    """How many it was shown to at most."""
    wall_s: float


class _FirstFailure:
    """A pytest plugin that writes down the first test that failed."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.out.exists():
            self.out.write_text(report.nodeid)


class Workshop:
    """The copy, with what was recorded of its tests."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.copy, self.cache = root, folder / "tree", folder / "numba"
        self.folder = folder
        names = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        listed = subprocess.run(names, cwd=root, check=True, capture_output=True).stdout
        self.names = [name for name in listed.decode().split("\0") if (root / name).is_file()]
        for name in HEAVY:
            import_module(name)

    def _digest(self, targets: Sequence[str]) -> str:
        found = blake2b(repr(targets).encode())
        for name in self.names:
            if name.startswith(("src/", "tests/")):
                found.update(name.encode() + (self.root / name).read_bytes())
        return found.hexdigest()

    def record(self, targets: Sequence[str]) -> Reach:
        """Run all tests once, untouched, and remember what they reach; kept with the copy."""
        out, digest, now = self.folder / "reach.json", self.folder / "digest", self._digest(targets)
        if digest.exists() and digest.read_text() == now:
            return Reach.load(out, self.copy)
        shutil.rmtree(self.copy, ignore_errors=True)
        for name in self.names:
            (self.copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.root / name, self.copy / name)

        def work() -> int:
            recorder = Recorder(self.copy / "src", out)
            return int(pytest.main([*OPTIONS, *targets], plugins=[recorder]))

        status = self._fork(work, self.cache, keep_bytecode=True)
        if status not in (0, 1) or not out.exists():
            log = (self.folder / "log.txt").read_text()
            raise SystemExit(f"the tests do not run (status {status}):\n{log[-2000:]}")
        digest.write_text(now)
        return Reach.load(out, self.copy)

    def test(self, mutant: Mutant, reach: Reach, most_s: float) -> Verdict:
        """Show a mutant to the tests that reach it, up to so many CPU seconds, until one fails."""
        tests = reach.tests(mutant.file, mutant.function, most_s)
        if not tests:
            return Verdict("unreached", "", 0, 0.0)
        path, began_s = self.copy / mutant.file, time.monotonic()
        right, stat = path.read_bytes(), path.stat()
        failed = self.folder / "failed.txt"
        failed.unlink(missing_ok=True)
        cache = self._cache_for(mutant, reach)
        compiles_s = 0.0 if cache == self.cache else 120.0
        cpu_s = START_S + compiles_s + PATIENCE * sum(reach.cpu_s[name] for name in tests)

        def work() -> int:
            files = sorted({name.split("::")[0] for name in tests})
            plugins = [Chosen(tests), _FirstFailure(failed)]
            return int(pytest.main([*OPTIONS, "-x", *files], plugins=plugins))

        path.write_bytes(mutant.apply(right))
        try:
            status = self._fork(work, cache, cpu_s)
        finally:
            path.write_bytes(right)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            if cache != self.cache:
                shutil.rmtree(cache)
        outcome = {0: "survived", 5: "unreached"}.get(status, "killed")
        outcome = "timeout" if status in (-signal.SIGXCPU, -signal.SIGKILL) else outcome
        by = failed.read_text() if failed.exists() else ""
        return Verdict(outcome, by, len(tests), round(time.monotonic() - began_s, 1))

    def _cache_for(self, mutant: Mutant, reach: Reach) -> Path:
        """The folder of compiled code: the common one, or for compiled files one without theirs."""
        if b"@njit" not in (self.copy / mutant.file).read_bytes():
            return self.cache
        stale, todo = set(), {mutant.file}
        while todo:
            file = todo.pop()
            stale.add(Path(file).stem + ".")
            todo |= {
                other
                for other in reach.importers.get(file, set())
                if Path(other).stem + "." not in stale
            }
        own = Path(tempfile.mkdtemp(dir=self.folder, prefix="numba-"))
        for path in self.cache.rglob("*.nb[ic]"):
            if not path.name.startswith(tuple(stale)):
                place = own / path.relative_to(self.cache)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, place)
        return own

    def _fork(
        self, work: Any, cache: Path, cpu_s: float | None = None, keep_bytecode: bool = False
    ) -> int:
        """The exit status of `work` in a child of its own; minus the signal that ended it."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                self._become_tester(cache, cpu_s, keep_bytecode)
                os._exit(work())
            except BaseException as error:
                print(error, flush=True)
                os._exit(1)
        ends_s = time.monotonic() + WALL * cpu_s if cpu_s else float("inf")
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            if time.monotonic() > ends_s:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.02)
        with suppress(ProcessLookupError):  # what a test has started and left
            os.killpg(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(status)

    def _become_tester(self, cache: Path, cpu_s: float | None, keep_bytecode: bool) -> None:
        import numba

        os.setsid()
        os.chdir(self.copy)
        log = os.open(self.folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        cache.mkdir(exist_ok=True)
        numba.config.CACHE_DIR = str(cache)
        sys.dont_write_bytecode = not keep_bytecode
        os.environ |= {
            "NUMBA_CACHE_DIR": str(cache),
            "PYTHONPATH": str(self.copy / "src"),
            "PYTHONDONTWRITEBYTECODE": "" if keep_bytecode else "1",
        }
        sys.path.insert(0, str(self.copy / "src"))
        sys.path[:] = [path for path in sys.path if path != str(self.root / "tools")]
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        if cpu_s is not None:
            limit = int(cpu_s) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 30))
