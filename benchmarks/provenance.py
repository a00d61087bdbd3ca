"""Results files: the one place where benchmarks write them, with how each came about.

A file has under `environment` what `fedrt.records.directory.environment` says: the commit, a digest
of src/fedrt, versions and processor, the machine's load when the benchmark began, its niceness.
Commit before a benchmark whose results a page quotes: tests/benchmarks/test_provenance.py accepts
files of clean commits only, and of the others those that docs/results.md lists.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedrt.records.directory import environment, niceness
from fedrt.system.files import write_json

START = environment()
"""Taken when the benchmark's process begins, before it loads the machine itself."""
DIRTY = "-dirty"


def start_environment(**more: Any) -> dict[str, Any]:
    """The environment when the benchmark began, with the niceness that it has taken by now."""
    return START | {"nice": niceness()} | more


def save(path: Path | None, results: Mapping[str, Any]) -> None:
    """Write a results file atomically, with command and environment; none without a path."""
    if path is None:
        return
    origin = results.get("environment") or start_environment()
    path.parent.mkdir(parents=True, exist_ok=True)
    command = {"command": " ".join(sys.argv).replace(str(path), path.name)}
    write_json(path, {**command, **results, "environment": origin})
    if not origin["commit"] or origin["commit"].endswith(DIRTY):
        print(f"{path}: not of a clean commit: {origin['commit']}", file=sys.stderr)


def earlier(path: Path | None) -> dict[str, Any] | None:
    """What a stopped benchmark has saved; refused if another source than this one made it."""
    if path is None or not path.exists():
        return None
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if data.get("environment", {}).get("source") != START["source"]:
        raise SystemExit(f"{path}: was made by another source; give another --save or remove it")
    return data
