"""Tests that change or look at the machine itself, one at a time."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone() -> Iterator[None]:
    """Of all processes with tests only this one makes or counts namespaces and control groups."""
    with (Path(tempfile.gettempdir()) / "fedrt-machine-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
