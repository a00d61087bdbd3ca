"""A copy of the tree in which mutants are made and tested: the tree itself is never touched.

Heavy libraries are loaded once; every mutant is tested in a child forked from there, which loads
the mutated source. Compiled code is cached by a file's own date, not by those it calls, so a mutant
of a compiled file gets a cache without that file and all that import it.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from mutation.child import Patience, run_in_child, timed_out
from mutation.operators import Mutant
from mutation.reach import Chosen, Reach, Recorder

HEAVY = ("numpy", "numba", "torch", "cvxpy", "pyarrow.parquet", "rich.table")
OPTIONS = ("-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short")
# Of address space, beside what the libraries take.
MOST_BYTES = 12 * 2**30


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


def tracked_files(root: Path) -> list[str]:
    """The files of the tree, from its root: what git has or would add; without git all files."""
    if not (root / ".git").exists():
        found = [path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file()]
        return [str(path) for path in found if not any(part[0] == "." for part in path.parts)]
    names = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(names, cwd=root, check=True, capture_output=True).stdout
    return [name for name in listed.decode().split("\0") if (root / name).is_file()]


def digest_of(root: Path, names: Sequence[str], targets: Sequence[str]) -> str:
    """Of the source, the tests and which of them are run."""
    found = blake2b(repr(targets).encode())
    for name in names:
        if name.startswith(("src/", "tests/")):
            found.update(name.encode() + (root / name).read_bytes())
    return found.hexdigest()


def load_heavy() -> None:
    """Load what takes long: children forked from here have it."""
    for name in HEAVY:
        import_module(name)


class Workshop:
    """A copy of the tree."""

    def __init__(self, root: Path, folder: Path, names: Sequence[str]) -> None:
        self.root, self.folder = root, folder
        self.copy, self.cache = folder / "tree", folder / "numba"
        now, kept = digest_of(root, names, ()), folder / "digest"
        if kept.exists() and kept.read_text() == now:
            return
        shutil.rmtree(folder, ignore_errors=True)
        for name in names:
            (self.copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, self.copy / name)
        kept.write_text(now)

    def record(self, file: str) -> dict[str, Any]:
        """Run the tests of a file, untouched: what each reached and took."""
        out = self.folder / "reached.json"
        out.unlink(missing_ok=True)

        def work() -> int:
            self._become_tester(self.cache, keep_bytecode=True)
            recorder = Recorder(self.copy / "src", out)
            return int(pytest.main([*OPTIONS, file], plugins=[recorder]))

        status = run_in_child(work)
        if status not in (0, 1, 5) or not out.exists():
            log = (self.folder / "log.txt").read_text()
            print(f"{file} does not run (status {status}):\n{log[-2000:]}", flush=True)
            return {}
        found: dict[str, Any] = json.loads(out.read_text())
        return found

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

        def work() -> int:
            self._become_tester(cache, keep_bytecode=False)
            files = sorted({name.split("::")[0] for name in tests})
            plugins = [Chosen(tests), _FirstFailure(failed), Patience(reach.cpu_s)]
            return int(pytest.main([*OPTIONS, "-x", *files], plugins=plugins))

        path.write_bytes(mutant.apply(right))
        try:
            status = run_in_child(work)
        finally:
            path.write_bytes(right)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            if cache != self.cache:
                shutil.rmtree(cache)
        outcome = {0: "survived", 5: "unreached"}.get(status, "killed")
        outcome = "timeout" if timed_out(status) else outcome
        by = failed.read_text() if failed.exists() else ""
        return Verdict(outcome, by, len(tests), round(time.monotonic() - began_s, 1))

    def _cache_for(self, mutant: Mutant, reach: Reach) -> Path:
        """The folder of compiled code: the common one, or one without what the mutant goes into."""
        changed, todo = set(), {mutant.file}
        while todo:
            file = todo.pop()
            changed.add(file)
            todo |= reach.importers.get(file, set()) - changed
        compiled = [file for file in changed if b"@njit" in (self.copy / file).read_bytes()]
        if not compiled:
            return self.cache
        stale = tuple(Path(file).stem + "." for file in compiled)
        own = Path(tempfile.mkdtemp(dir=self.folder, prefix="numba-"))
        for path in self.cache.rglob("*.nb[ic]"):
            if not path.name.startswith(stale):
                place = own / path.relative_to(self.cache)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, place)
        return own

    def _become_tester(self, cache: Path, keep_bytecode: bool) -> None:
        import numba

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
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = MOST_BYTES + pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
