"""Several workshops at once: each worker process has a copy of the tree and a cache of its own.

What the tests reach is recorded once, file by file, by whichever worker is free; mutants go the
same way. Neither the order of the answers nor their number depends on how many workers there are.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from types import TracebackType
from typing import Any

from mutation.operators import Mutant
from mutation.reach import Reach
from mutation.workshop import Verdict, Workshop, digest_of, load_heavy, tracked_files

_shop: Workshop
"""The one of this worker process."""
_reach: Reach | None = None


class Crew:
    """The workers and what they know of the tests."""

    def __init__(self, root: Path, folder: Path, jobs: int) -> None:
        self.root, self.folder, self.names = root, folder, tracked_files(root)
        self.reach_file = folder / "reach.json"
        load_heavy()
        forked = multiprocessing.get_context("fork")
        numbers = forked.SimpleQueue()
        for number in range(jobs):
            numbers.put(number)
        self.pool = ProcessPoolExecutor(
            jobs, forked, _start, (numbers, root, folder, tuple(self.names))
        )

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.pool.shutdown(cancel_futures=True)

    def record(self, targets: Sequence[str]) -> Reach:
        """Run all tests once, untouched, and remember what they reach; kept with the copies."""
        kept, now = self.folder / "digest", digest_of(self.root, self.names, targets)
        if not (kept.exists() and kept.read_text() == now):
            kept.unlink(missing_ok=True)
            files = self._test_files(targets)
            # The longest first, as far as their size tells.
            by_size = sorted(files, key=lambda file: -(self.root / file).stat().st_size)
            asked = {file: self.pool.submit(_record, file) for file in by_size}
            found: dict[str, Any] = {}
            for file in files:
                found |= asked[file].result()
            self.reach_file.write_text(json.dumps(found))
            kept.write_text(now)
        return Reach.load(self.reach_file, self.root)

    def _test_files(self, targets: Sequence[str]) -> list[str]:
        found = []
        for target in targets:
            inside = [
                name
                for name in self.names
                if name.startswith(f"{target}/") and Path(name).match("test_*.py")
            ]
            found += inside or [target]
        return found

    def test(self, mutants: Sequence[Mutant], most_s: float) -> Iterator[tuple[int, Verdict]]:
        """The place of each mutant and the verdict on it, as they come."""
        asked: dict[Future[Verdict], int] = {
            self.pool.submit(_test, mutant, self.reach_file, most_s): i
            for i, mutant in enumerate(mutants)
        }
        for done in as_completed(asked):
            yield asked[done], done.result()


def _start(numbers: Any, root: Path, folder: Path, names: Sequence[str]) -> None:
    global _shop
    # Ended from outside, a worker ends the tests it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    _shop = Workshop(root, folder / f"worker-{numbers.get()}", names)


def _record(file: str) -> dict[str, Any]:
    return _shop.record(file)


def _test(mutant: Mutant, reach_file: Path, most_s: float) -> Verdict:
    global _reach
    if _reach is None:
        _reach = Reach.load(reach_file, _shop.copy)
    return _shop.test(mutant, _reach, most_s)
