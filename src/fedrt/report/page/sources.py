"""What the folders given to `fedrt report` hold: runs, studies, cells and figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrt.errors import InputError, reason
from fedrt.policies import POLICIES
from fedrt.records.directory import BEFORE
from fedrt.system.inputs import parse_json, read_text

STUDIES = ("sweep", "front", "size", "bound", "bench")
"""Folders with `NAME.json` are the outcome of `fedrt NAME`."""
CELLS = "cells"
"""A folder with this one in it was filled by `fedrt reproduce`."""
FIGURES = (".svg", ".pdf", ".png")
MOST_FIGURES = 40
READ = (".parquet", ".json", ".toml", ".npz", *FIGURES)


@dataclass
class PageSources:
    """What there is to show, and problems as lines of text."""

    runs: list[Path] = field(default_factory=list)
    studies: list[tuple[str, Path]] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    planned: int = 0
    """Runs that are to be in the folders, as far as they say so."""

    @property
    def empty(self) -> bool:
        return not self.runs and not self.studies and not self.planned


def find(paths: Sequence[Path]) -> PageSources:
    """Everything in the given folders; what is wrong with a folder adds to the problems."""
    found = PageSources()
    for path in dict.fromkeys(paths):
        try:
            _look_at(path, found)
        except (OSError, ValueError) as error:
            found.problems.append(f"{path}: cannot be read: {reason(error)}")
        except InputError as error:
            found.problems += error.lines
    return found


def _look_at(path: Path, found: PageSources) -> None:
    if not path.is_dir():
        what = "is not a folder" if path.exists() else "is not there"
        hint = "give a run directory or a folder of runs"
        if path.name == "results":
            hint = (
                "the reproduced table comes with the repository: give CLONE/results, or make a"
                " small one with fedrt reproduce table --quick and give runs/quick"
            )
        raise InputError(f"{path}: {what}; {hint}")
    said = read_json(path / "run.json") if (path / "run.json").is_file() else {}
    said = said if isinstance(said, dict) else {}
    studies = [(name, path) for name in STUDIES if (path / f"{name}.json").is_file()]
    if (path / CELLS).is_dir():
        studies.append(("reproduced", path))
    folders = [entry for entry in path.iterdir() if entry.is_dir() and entry.name[:1] != "."]
    # What a branch comes from is told by the branch itself.
    runs = [each for each in folders if each.name != BEFORE and (each / "run.json").is_file()]
    policies, seeds = said.get("policies"), said.get("seeds")
    if isinstance(policies, list) and isinstance(seeds, list):
        found.planned += len(policies) * len(seeds)
        runs.sort(key=lambda run: run_order(run, policies))
    elif runs:
        found.planned += len(runs)
        runs.sort(key=lambda run: run_order(run, list(POLICIES)))
    elif studies:
        pass
    elif "vary" in said or "study" in said:
        raise InputError(f"{path}: is a study that has not ended; there is nothing to show yet")
    elif any((path / name).is_file() for name in ("run.json", "rounds.parquet")):
        runs = [path]
        found.planned += 1
    elif (path / "table.csv").is_file():
        raise InputError(f"{path}: has a table but no {CELLS}/, from which its page is made")
    else:
        raise InputError(
            f"{path}: holds no run, comparison, sweep, front, size, bound or reproduction"
        )
    found.runs += runs
    found.studies += studies
    # A link may lead to any file of this machine, which a page must not give away.
    figures = sorted(f for f in path.iterdir() if f.suffix in FIGURES and not f.is_symlink())
    found.figures += [figure for figure in figures if figure.is_file()][:MOST_FIGURES]


def run_order(run: Path, policies: Sequence[Any]) -> tuple[int, str, int, str]:
    """The runs sorted by policy in the given order, then by seed."""
    policy, _, seed = run.name.rpartition("-")
    names = [str(name).replace(":", ".") for name in policies]
    place = names.index(policy) if policy in names else len(names)
    return place, policy, int(seed) if seed.isascii() and seed.isdigit() else 0, run.name


def read_json(path: Path) -> Any:
    """The data of a JSON file; an error if it is invalid."""
    try:
        return parse_json(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None


def signature(paths: Sequence[Path]) -> tuple[tuple[str, int, int], ...]:
    """A value that changes whenever a file behind the page does."""
    seen = []
    for path in paths:
        for folder, folders, files in os.walk(path):
            inner = Path(folder).relative_to(path).parts
            # Runs are in the folders given or one below, kept cells one further down.
            deeper = not inner or inner == (CELLS,)
            folders[:] = sorted(name for name in folders if name[:1] != ".") if deeper else []
            for name in sorted(files):
                if name.endswith(READ):
                    try:
                        state = os.stat(os.path.join(folder, name))
                    except OSError:
                        continue
                    seen.append((os.path.join(folder, name), state.st_mtime_ns, state.st_size))
    return tuple(seen)
