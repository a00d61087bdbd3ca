"""The table of docs/results.md: which commit, source and machine made each results file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from figure_sources import MEASURED, RESULTS, ROOT

from fedrt.experiments.kept import read_kept

OLDER_HEAD = "## Older results"
CLEAN = re.compile(r"[0-9a-f]{40}")
DIGEST = re.compile(r"[0-9a-f]{32}")
BENCH = {("bench", "bench.json"), ("bench", "speed.json")}
"""What `fedrt bench` writes beside an environment.json that holds for all."""
SHORT = 10
"""Characters of a commit or a digest that the table shows."""


def results_files() -> list[Path]:
    """Every file of results that says, or should say, how it was made.

    Of a run folder and of the bench's it is environment.json.
    """
    files = sorted(
        path
        for folder in (MEASURED, RESULTS)
        for ending in ("json", "npz")
        for path in folder.rglob(f"*.{ending}")
    )
    in_runs = {path.parent for path in files if path.name == "run.json"}
    return [
        path
        for path in files
        if path.name == "environment.json"
        or (path.parent not in in_runs and (path.parent.name, path.name) not in BENCH)
    ]


def origins(path: Path) -> list[dict[str, Any]]:
    """What a file says of how it was made."""
    if path.suffix == ".npz":
        return list(_origins(read_kept(path).about))
    return list(_origins(json.loads(path.read_text(encoding="utf-8"))))


def _origins(value: Any) -> Iterator[dict[str, Any]]:
    """Every object that has a commit, at any depth."""
    if isinstance(value, dict):
        if "commit" in value or {"python", "libraries"} <= value.keys():
            yield value
        for member in value.values():
            yield from _origins(member)
    elif isinstance(value, list):
        for member in value:
            yield from _origins(member)


def is_traceable(origin: dict[str, Any]) -> bool:
    """Whether it has a commit without changes and a digest of the source."""
    commit, source = origin.get("commit"), origin.get("source")
    return bool(CLEAN.fullmatch(str(commit)) and DIGEST.fullmatch(str(source)))


def older_patterns(page: str) -> list[str]:
    """The paths and patterns that docs/results.md lists as older results."""
    return re.findall(r"`((?:benchmarks/)?results/[^`]+)`", page.partition(OLDER_HEAD)[2])


def is_older(path: Path, patterns: list[str]) -> bool:
    """Whether a file is listed as an older result."""
    return any(path.relative_to(ROOT).match(pattern) for pattern in patterns)


def results_origin() -> str:
    """A row for each results file of a commit without changes, that is not listed as older."""
    patterns = older_patterns((ROOT / "docs" / "results.md").read_text(encoding="utf-8"))
    lines = [
        "| file | commit | source | load, 1 min | nice | processor |",
        "|---|---|---|---|---|---|",
    ]
    for path in results_files():
        known = origins(path)
        if is_older(path, patterns) or not known or not all(map(is_traceable, known)):
            continue
        for origin in {(each["commit"], each["source"]): each for each in known}.values():
            load, nice = origin.get("load_average"), origin.get("nice")
            cells = (
                f"`{path.relative_to(ROOT).as_posix()}`",
                f"`{origin['commit'][:SHORT]}`",
                f"`{origin['source'][:SHORT]}`",
                "not recorded" if load is None else f"{load[0]:.1f}",
                "not recorded" if nice is None else str(nice),
                f"{origin.get('processor', 'not recorded')}, {origin.get('cores')} cores",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


BLOCKS = {"results-origin": results_origin}
