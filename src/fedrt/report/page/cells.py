"""The saved cells in a folder of `fedrt reproduce`: which are there, wrong or missing."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fedrt.errors import InputError
from fedrt.experiments.cells import (
    DTYPES,
    SEEDS,
    WHAT,
    Column,
    cells_of,
    in_brief,
    in_full,
)
from fedrt.experiments.kept import Kept, kept_files, read_kept
from fedrt.report.page.encode import number, plain_data
from fedrt.scenario import read_scenario

FoundCells = dict[str, Kept]
BUSY = ("load_average", "nice")
"""What an environment says of the moment of a training, and not of its place."""


def read_cells(folder: Path, problems: list[str]) -> FoundCells:
    """The cells that are valid and fit together, by name; the others add to the problems."""
    found: FoundCells = {}
    for path in kept_files(folder / "cells", problems):
        try:
            kept = read_kept(path)
        except InputError as error:
            problems += error.lines
        else:
            found[kept.about["cell"]] = kept
    return _alike(folder, found, problems)


def _alike(folder: Path, found: FoundCells, problems: list[str]) -> FoundCells:
    """The cells without those whose settings differ from most in their column."""
    settings = {name: (_meaning(k.about["scenario"]), len(k.distance)) for name, k in found.items()}
    usual: dict[str, Any] = {}
    for column in {name.partition("/")[0] for name in found}:
        own = Counter(each for name, each in settings.items() if name.startswith(f"{column}/"))
        usual[column] = own.most_common(1)[0][0]
    odd = [name for name in found if settings[name] != usual[name.partition("/")[0]]]
    problems += [
        f"{folder / 'cells' / name}.npz: was trained under other settings than the rest of its"
        " column"
        for name in odd
    ]
    return {name: kept for name, kept in found.items() if name not in odd}


@cache
def _meaning(text: str) -> str:
    """All settings of a scenario, including those of versions later than its text."""
    try:
        return repr(read_scenario(text))
    except InputError:
        return text


def known_columns() -> dict[str, tuple[Column, tuple[str, ...]]]:
    """All columns of the paper's table and figures by name, with the policies they need."""
    known: dict[str, tuple[Column, tuple[str, ...]]] = {}
    for columns, policies in WHAT.values():
        for column in columns:
            before = known[column.name][1] if column.name in known else ()
            known[column.name] = (column, tuple(dict.fromkeys((*before, *policies))))
    return known


def stock(folder: Path, found: FoundCells) -> dict[str, Any]:
    """For every column and policy, the seeds that are there and the cells that are missing.

    Missing cells are those of the default seeds of the command.
    """
    known = known_columns()
    missing = [
        cell.name
        for column, policies in known.values()
        for cell in cells_of([column], policies, SEEDS)
        if cell.name not in found
    ]
    here = dict.fromkeys([*known, *sorted({name.partition("/")[0] for name in found})])
    policies = list(dict.fromkeys(p for _, needed in known.values() for p in needed))
    policies += sorted({k.about["policy"] for k in found.values()} - set(policies))
    rows = []
    for name in here:
        column, needed = known[name] if name in known else (Column(name, name, ""), ())
        rows.append(
            {
                "title": column.title,
                "seeds": [_seeds(found, name, policy) for policy in policies],
                "needed": [policy in needed for policy in policies],
            }
        )
    return {
        "policies": policies,
        "seeds": list(SEEDS),
        "rows": rows,
        "missing": missing,
        "of": len(missing) + len(found),
        "again": _again(folder, found),
    }


def _seeds(found: FoundCells, column: str, policy: str) -> list[int]:
    return sorted(
        kept.about["seed"]
        for name, kept in found.items()
        if name.startswith(f"{column}/") and kept.about["policy"] == policy
    )


def _again(folder: Path, found: FoundCells) -> str:
    """The command that trains the missing cells as most of the others were trained."""
    known = known_columns()
    ways: Counter[tuple[str, ...]] = Counter()
    for name, kept in found.items():
        column = name.partition("/")[0]
        if column in known:
            ways[_way(known[column][0], kept.about["scenario"])] += 1
    words = ways.most_common(1)[0][0] if ways else ()
    return shlex.join(["fedrt", "reproduce", "all", *words, "--out", str(folder)])


@cache
def _way(column: Column, text: str) -> tuple[str, ...]:
    """The options with which a column is trained like a saved scenario."""
    meaning = _meaning(text)
    if meaning == repr(in_brief(column).load()):
        return ("--quick",)
    for dtype in DTYPES[1:]:
        if meaning == repr(in_full(column, dtype).load()):
            return ("--dtype", dtype)
    return ()


def origins(found: FoundCells) -> list[dict[str, Any]]:
    """Where and how the cells were trained: one entry per device and set of versions."""
    groups: dict[str, list[Kept]] = {}
    for kept in found.values():
        environment = plain_data(kept.about.get("environment"))
        if isinstance(environment, dict):
            environment = {key: environment[key] for key in environment if key not in BUSY}
        groups.setdefault(repr((kept.about.get("device"), environment)), []).append(kept)
    return [_origin(cells) for cells in groups.values()]


def _origin(cells: Sequence[Kept]) -> dict[str, Any]:
    about = cells[0].about
    environment, device = about.get("environment"), about.get("device")
    own = [kept for kept in cells if "trained_as" not in kept.about]
    walls = [number(kept.about.get("train_wall_s")) for kept in own]
    commands = dict.fromkeys(str(kept.about.get("command") or "") for kept in cells)
    return {
        "device": device if isinstance(device, str) else "unknown",
        "environment": plain_data(environment) if isinstance(environment, dict) else {},
        "trained": len(own),
        "shared": len(cells) - len(own),
        "wall_s": sum(wall for wall in walls if wall is not None),
        "commands": [command for command in commands if command],
    }
