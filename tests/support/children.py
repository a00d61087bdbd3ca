"""Processes that tests start: their environment, and when one that hangs is ended."""

from __future__ import annotations

import os
from pathlib import Path

from support.paths import ROOT, TESTS

LIMIT_S = 600.0
"""Only ends a hang. What is waited for takes seconds, and minutes on a machine with ten times the
load; nothing is decided by it."""


def environment(*paths: Path, **variables: str) -> dict[str, str]:
    """This process's environment, one thread, with tests, tools and further folders on the path.

    What is set already stays: a variant of `tools/other_processors.sh` holds in children too.
    """
    folders = [str(TESTS), str(ROOT / "tools"), *map(str, paths)]
    before = os.environ.get("PYTHONPATH")
    # First what is set already: its sitecustomize is the one that counts.
    path = os.pathsep.join([before, *folders] if before else folders)
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": threads, **variables}
