"""Which tests reach which functions, and what each costs: a pytest plugin and what it writes.

One run of the tests records, for every test, the functions of the source that it enters, also by
way of its fixtures, and the CPU seconds it takes without compiling. A mutant is then shown only to
the tests that enter its function, the quickest first. Compiled functions are entered unseen: those
of a file without any are reached by the tests that reach the files that import it.
"""

from __future__ import annotations

import ast
import json
import resource
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from numba.core import event

Place = tuple[str, str]
"""A file from the repository's root, and a function's qualified name."""


class _Compiling(event.Listener):
    """How many CPU seconds of this process went into compiling: whoever calls first has them."""

    def __init__(self) -> None:
        self.depth, self.began_s, self.cpu_s = 0, 0.0, 0.0

    def on_start(self, event: Any) -> None:
        if not self.depth:
            self.began_s = time.process_time()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if not self.depth:
            self.cpu_s += time.process_time() - self.began_s


class Recorder:
    """A pytest plugin that writes what every test reached and took."""

    def __init__(self, source: Path, out: Path) -> None:
        self.prefix, self.root, self.out = str(source) + "/", source.parent, out
        self.codes: set[CodeType] = set()
        self.of_fixture: dict[Any, set[CodeType]] = {}
        self.tests: dict[str, Any] = {}
        self.compiling = _Compiling()
        event.register("numba:compile", self.compiling)

    def _own_cpu_s(self) -> float:
        """Of this process without compiling, and of the processes that it has waited for."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        waited_s = children.ru_utime + children.ru_stime
        return time.process_time() + waited_s - self.compiling.cpu_s

    def _enter(self, frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            self.codes.add(frame.f_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
        outer, self.codes = self.codes, set()
        try:
            return (yield)
        finally:
            self.of_fixture.setdefault(fixturedef, set()).update(self.codes)
            self.codes = outer | self.codes

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Any:
        self.codes, began_s = set(), self._own_cpu_s()
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            info = getattr(item, "_fixtureinfo", None)
            for fixtures in () if info is None else info.name2fixturedefs.values():
                for fixture in fixtures:
                    self.codes |= self.of_fixture.get(fixture, set())
            places = sorted({place for code in self.codes if (place := self._place(code))})
            self.tests[item.nodeid] = {
                "cpu_s": round(self._own_cpu_s() - began_s, 3),
                "reached": [":".join(place) for place in places],
            }

    def _place(self, code: CodeType) -> Place | None:
        if not code.co_filename.startswith(self.prefix):
            return None
        name = code.co_qualname.replace(".<locals>", "").split(".<")[0]
        return str(Path(code.co_filename).relative_to(self.root)), name

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.tests.setdefault(report.nodeid, {})["failed"] = True

    def pytest_sessionfinish(self) -> None:
        self.out.write_text(json.dumps(self.tests))


class Chosen:
    """A pytest plugin that runs the given tests in the given order and no others."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.place = {nodeid: i for i, nodeid in enumerate(ids)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.place),
            key=lambda item: self.place[item.nodeid],
        )


@dataclass(frozen=True)
class Reach:
    """What was recorded, asked by function."""

    cpu_s: dict[str, float]
    tests_of: dict[Place, set[str]]
    importers: dict[str, set[str]]
    failed: list[str] = field(default_factory=list)
    """Tests that fail on this machine as it is: no mutant is shown to them."""

    @staticmethod
    def load(path: Path, root: Path) -> Reach:
        """From the file that `Recorder` wrote, for the source under the root."""
        tests_of: dict[Place, set[str]] = {}
        cpu_s, failed = {}, []
        for nodeid, entry in json.loads(path.read_text()).items():
            if entry.get("failed") or "reached" not in entry:
                failed.append(nodeid)
                continue
            cpu_s[nodeid] = entry["cpu_s"]
            for text in entry["reached"]:
                file, name = text.split(":", 1)
                tests_of.setdefault((file, name), set()).add(nodeid)
        return Reach(cpu_s, tests_of, _importers(root), failed)

    def tests(self, file: str, function: str, most_s: float) -> list[str]:
        """The tests that enter a function, the quickest first, up to so many CPU seconds."""
        found = self.tests_of.get((file, function)) or self._of_file(file)
        in_order = sorted(found, key=lambda nodeid: (self.cpu_s[nodeid], nodeid))
        ends_s = accumulate(self.cpu_s[nodeid] for nodeid in in_order)
        # One test at least: a slow one may be all there is.
        return [
            name
            for i, (name, s) in enumerate(zip(in_order, ends_s, strict=True))
            if not i or s <= most_s
        ]

    def _of_file(self, file: str, seen: frozenset[str] = frozenset()) -> set[str]:
        """The tests that enter any function of a file, or of those that import it."""
        own = {
            name for (where, _), names in self.tests_of.items() if where == file for name in names
        }
        if own or file in seen:
            return own
        outer = self.importers.get(file, set())
        return set().union(*(self._of_file(other, seen | {file}) for other in outer))


def _importers(root: Path) -> dict[str, set[str]]:
    """For every file of the source those that import it, wherever in the file they do."""
    found: dict[str, set[str]] = {}
    for path in sorted((root / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                parts = [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
                for part in parts:
                    target = f"src/{part.replace('.', '/')}.py"
                    if (root / target).exists():
                        found.setdefault(target, set()).add(str(path.relative_to(root)))
    return found
