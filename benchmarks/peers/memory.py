"""Memory of a process with all its children, read from /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def tree_memory_mb(root: int | None = None) -> dict[str, float]:
    """In MB: `peak_rss`, the sum of every process's own peak, and `pss`, what is held now.

    Peaks count pages that processes share once for each of them; the proportional set size
    counts them once. Processes that have ended are in neither. Empty where there is no /proc.
    """
    peak_kb, held_kb = 0, 0
    for process in tree(root or os.getpid()):
        peak_kb += _line_kb(Path(f"/proc/{process}/status"), "VmHWM:")
        held_kb += _line_kb(Path(f"/proc/{process}/smaps_rollup"), "Pss:")
    return {"peak_rss": round(peak_kb / 1024, 1), "pss": round(held_kb / 1024, 1)}


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name, in brackets, may hold blanks.
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def _line_kb(path: Path, name: str) -> int:
    """The number on a line; 0 where a process is gone or keeps it to itself."""
    try:
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
