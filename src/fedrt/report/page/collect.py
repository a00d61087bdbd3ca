"""All data of the page: lines, details, studies, and what could not be read."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrt import __version__
from fedrt.errors import InputError
from fedrt.report.answers.comparisons import compared, comparison_answer
from fedrt.report.devices.measured import LIVE, fleet_now
from fedrt.report.devices.testbed import emulated
from fedrt.report.page.cache import Cache
from fedrt.report.page.curves import (
    Line,
    baselines,
    line_data,
    make_lines,
    more_quantities,
    page_measure,
    summary_row,
)
from fedrt.report.page.detail import share
from fedrt.report.page.reproduced import read_reproduced
from fedrt.report.page.saved import PageRun
from fedrt.report.page.sources import PageSources, find
from fedrt.report.page.studies import read_study
from fedrt.scenario import Scenario
from fedrt.scenario.entries import import_paths

MOST_LINES = 60
MOST_DIFFERENCES = 40
RECENT = 10


def collect(paths: Sequence[Path], cache: Cache | None = None) -> dict[str, Any]:
    """The page's data for the given folders; an error if there is nothing to show.

    With a cache, unchanged files are not read again.
    """
    with np.errstate(all="ignore"):  # damaged files may hold any numbers
        return _collect(paths, cache or Cache())


def _collect(paths: Sequence[Path], cache: Cache) -> dict[str, Any]:
    found = find(paths)
    runs = _read(found.runs, found.problems, cache)
    studies = []
    for kind, folder in found.studies:
        try:
            if kind == "reproduced":
                studies.append(read_reproduced(folder, found.problems))
            else:
                studies.append(read_study(kind, folder))
        except InputError as error:
            found.problems += error.lines
    if not runs and not studies and (found.empty or found.problems):
        raise InputError(found.problems)
    lines = make_lines(runs)
    notes = []
    if len(lines) > MOST_LINES:
        notes.append(f"the first {MOST_LINES} of {len(lines)} lines are shown")
        lines = lines[:MOST_LINES]
    notes += [*_branches(runs), *_step_ups(runs), *_diverged(runs)]
    details = _details(lines, found.problems, notes, cache)
    return {
        "version": __version__,
        "title": _title(paths, lines, studies),
        "subtitle": _subtitle(lines),
        "problems": found.problems,
        "notes": notes,
        "progress": _progress(found, runs),
        "answer": _answer(lines),
        "baselines": baselines(lines) if lines else [],
        "lines": [line_data(line, lines) for line in lines],
        "measure": _measure(lines),
        "runs": details,
        "studies": studies,
        "configs": _configs(lines),
        "differences": _differences(lines),
        "figures": [str(path) for path in found.figures],
    }


def _answer(lines: Sequence[Line]) -> str:
    """What the lines say together; nothing unless all have ended and share one config."""
    rows = {line.label: summary_row(line, lines) for line in lines}
    numbers = ("total_time_s", "energy_j_mean", "over_budget_devices", "over_budget_j")
    whole = all(
        row["ended"] == row["of"] and all(k in row for k in numbers) for row in rows.values()
    )
    if not whole or len({line.runs[0].config for line in lines}) != 1:
        return ""
    return comparison_answer(compared(rows))


def _measure(lines: Sequence[Line]) -> dict[str, Any]:
    """What the runs are judged by, and what else was measured of their models."""
    found = page_measure(lines)
    more = dict.fromkeys(name for line in lines for name in more_quantities(line))
    return {"name": found.name, "is_share": found.is_share, "more": list(more)}


def _read(paths: Sequence[Path], problems: list[str], cache: Cache) -> list[PageRun]:
    runs = []
    for path in dict.fromkeys(paths):
        try:
            runs.append(cache.run(path))
        except InputError as error:
            here = str(path)
            problems += [line if here in line else f"{here}: {line}" for line in error.lines]
    return runs


def _branches(runs: Sequence[PageRun]) -> list[str]:
    """A line for every run that branched from another."""
    lines = []
    for run in runs:
        told = run.said.run.get("branch")
        if isinstance(told, Mapping):
            where, last = str(told.get("from"))[:500], told.get("after_global_round")
            after = last + 1 if isinstance(last, int) else "?"
            changed = told.get("changed")
            words = "; ".join(map(str, changed)) if isinstance(changed, list) else ""
            line = f"{run.path.name} is a branch of {where} after global round {after}"
            lines.append(f"{line}: {words[:500] or 'nothing was changed'}")
    return lines


def _step_ups(runs: Sequence[PageRun]) -> list[str]:
    """A line for every run in which devices' codecs were stepped up."""
    lines = []
    for run in runs:
        found = (run.said.summary or {}).get("stepped_up")
        if isinstance(found, Mapping) and isinstance(found.get("count"), int):
            lines.append(f"{run.path.name}: codecs were stepped up {found['count']} times")
    return lines


def _diverged(runs: Sequence[PageRun]) -> list[str]:
    """A line for every run whose loss is no finite number from some round to the last."""
    lines = []
    for run in runs:
        loss = run.rounds.get("loss") if run.trained else None
        if loss is None or not run.done or np.isfinite(loss[-1]):
            continue
        first = int(np.flatnonzero(np.isfinite(loss))[-1]) + 2 if np.isfinite(loss).any() else 1
        lines.append(f"{run.path.name}: the loss is not a finite number from round {first} on")
    return lines


def _title(paths: Sequence[Path], lines: Sequence[Line], studies: Sequence[Any]) -> str:
    names = [line.runs[0].said.scenario.name for line in lines]
    names += [study["scenario"] for study in studies]
    return ", ".join(dict.fromkeys(names)) or ", ".join(path.name for path in paths)


def _subtitle(lines: Sequence[Line]) -> str:
    """The size of the runs, if all lines have it in common."""
    sizes = {
        (s.fleet.num_devices, s.fleet.num_edges, s.rounds.global_rounds)
        for line in lines
        for s in [line.runs[0].said.scenario]
    }
    if len(sizes) != 1:
        return ""
    devices, edges, rounds = sizes.pop()
    learning = lines[0].runs[0].said.scenario.learning
    what = f"{learning.model} on {learning.dataset}"
    if not any(line.runs[0].trained for line in lines):
        what = "without training"
    return f"{devices} devices on {edges} edge servers, {rounds} global rounds, {what}"


def _details(
    lines: Sequence[Line], problems: list[str], notes: list[str], cache: Cache
) -> list[dict[str, Any]]:
    """All runs, with details of as many as fit into the page."""
    detailed = _detailed(lines, problems, notes, cache)
    return [
        {
            "line": i,
            "seed": run.said.seed,
            "folder": str(run.path),
            "done": run.done,
            "rounds": run.planned,
            "ended": run.said.summary is not None,
            "detail": detailed.get(run.path),
            "fleet": _told(fleet_now, run, problems),
            "testbed": _told(emulated, run, problems),
        }
        for i, line in enumerate(lines)
        for run in line.runs
    ]


def _told(
    read: Callable[[Path, Scenario], dict[str, Any] | None], run: PageRun, problems: list[str]
) -> dict[str, Any] | None:
    """What a file of a run on real devices says; None in other runs."""
    try:
        return read(run.path, run.said.scenario)
    except InputError as error:
        problems += error.lines
        return None


def _detailed(
    lines: Sequence[Line], problems: list[str], notes: list[str], cache: Cache
) -> dict[Path, Any]:
    """The details of runs by folder: first each line's first seed, then the others."""
    places = [(k, i) for i, line in enumerate(lines) for k in range(len(line.runs))]
    begun = [lines[i].runs[k] for k, i in sorted(places) if lines[i].runs[k].done]
    if not begun:
        return {}
    most = share(max(begun, key=lambda run: run.said.scenario.fleet.num_devices), len(begun))
    if most.runs < len(begun):
        notes.append(f"{most.runs} of {len(begun)} runs are shown in detail")
    return {run.path: cache.detail(run, most, problems) for run in begun[: most.runs]}


def _progress(found: PageSources, runs: Sequence[PageRun]) -> dict[str, Any]:
    """The global rounds done and planned over all runs, and an estimate of the seconds left."""
    unborn = max(0, found.planned - len(runs))
    each = max((run.planned for run in runs), default=0)
    paces = [_pace(run) for run in runs]
    known = [pace for pace in paces if pace is not None]
    usual = sum(known) / len(known) if known else None
    left_s = None
    if usual is not None:
        left_s = unborn * each * usual
        for run, pace in zip(runs, paces, strict=True):
            left_s += (run.planned - run.done) * (usual if pace is None else pace)
    return {
        "done": sum(run.done for run in runs),
        "total": sum(run.planned for run in runs) + unborn * each,
        "ended": sum(run.said.summary is not None for run in runs),
        "runs": max(found.planned, len(runs)),
        "left_s": left_s,
        "round_s": usual,
    }


def _pace(run: PageRun) -> float | None:
    """The real seconds of a recent round, for runs that train."""
    if "wall_s" not in run.rounds or not run.done:
        return None
    return float(run.rounds["wall_s"][-RECENT:].mean())


def _configs(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Every config with the runs that have it, and the commands that repeat them."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.runs[0].config, []).append(line)
    return [
        {
            "labels": [line.label for line in members],
            "text": text,
            "typed": list(
                dict.fromkeys(run.command for line in members for run in line.runs if run.command)
            ),
            "again": _again(members),
            "environment": members[0].runs[0].environment,
        }
        for text, members in groups.items()
    ]


def _again(lines: Sequence[Line]) -> str:
    """A command that repeats these runs from the saved config, into a new folder."""
    runs = [run for line in lines for run in line.runs]
    if (runs[0].path / LIVE).is_file():
        return runs[0].command  # on real devices: nothing but their coordinator's command does
    config = str(runs[0].path / "config.toml")
    policies = list(dict.fromkeys(run.said.policy for run in runs))
    seeds = sorted({run.said.seed for run in runs})
    if runs[0].said.options is not None and len(runs) == 1:
        words = ["run", config, "--policy", policies[0], "--seed", str(seeds[0])]
    else:
        verb = "compare" if runs[0].said.options is not None else "estimate"
        words = [verb, config, "--policies", ",".join(policies)]
        words += ["--seeds", ",".join(map(str, seeds))]
    if import_paths(runs[0].said.scenario):
        words.append("--allow-code")
    return shlex.join(["fedrt", *words])


def _differences(lines: Sequence[Line]) -> dict[str, Any] | None:
    """The settings in which the configs differ; None for a single config."""
    texts = list(dict.fromkeys(line.runs[0].config for line in lines))
    if len(texts) < 2:
        return None
    flat = [_flat(tomllib.loads(text)) for text in texts]
    keys = dict.fromkeys(key for table in flat for key in table)
    differ = [key for key in keys if len({table.get(key, "") for table in flat}) > 1]
    labels = [
        ", ".join(line.label for line in lines if line.runs[0].config == text) for text in texts
    ]
    rows = [[key, *(table.get(key, "") for table in flat)] for key in differ[:MOST_DIFFERENCES]]
    return {"labels": labels, "rows": rows, "more": max(0, len(differ) - MOST_DIFFERENCES)}


def _flat(table: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """A nested table as pairs of `section.key` and text."""
    flat: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[before + key] = str(value)[:200]
    return flat
