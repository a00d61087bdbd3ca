"""A progress bar on stderr, and none where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def round_progress(
    total: int, *, quiet: bool = False
) -> Iterator[Callable[[str, int], Callable[[Any], None]] | None]:
    """Gives `start(policy, seed)`, which returns what to call after each round; None if quiet."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    with bar:
        task = bar.add_task("rounds", total=total)

        def start(policy: str, seed: int) -> Callable[[Any], None]:
            bar.update(task, description=f"{policy}, seed {seed}")
            return lambda done: bar.advance(task)

        yield start
