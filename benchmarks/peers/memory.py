"""Memory of a process with all its children, read from /proc."""

from __future__ import annotations

import os
from pathlib import Path


def tree_memory_mb(root: int | None = None) -> dict[str, float]:
    """In MB: `peak_rss`, the sum of every process's own peak, and `pss`, what is held now.

    Peaks count pages that processes share once for each of them; the proportional set size
    counts them once. Processes that have ended are in neither. Empty where there is no /proc.
    """
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in brackets, may hold blanks.
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    waiting, peak_kb, held_kb = [root or os.getpid()], 0, 0
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, [])
        peak_kb += _line_kb(Path(f"/proc/{process}/status"), "VmHWM:")
        held_kb += _line_kb(Path(f"/proc/{process}/smaps_rollup"), "Pss:")
    return {"peak_rss": round(peak_kb / 1024, 1), "pss": round(held_kb / 1024, 1)}


def _line_kb(path: Path, name: str) -> int:
    """The number on a line; 0 where a process is gone or keeps it to itself."""
    try:
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
