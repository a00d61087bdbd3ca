"""Measured computing energy: the efficient points of tables of frequency and power."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedrt import quantities as q
from fedrt.errors import InputError
from fedrt.scenario.physical import CYCLE_J, MOST_POINTS, POWER_W, CpuTable
from fedrt.world.laws import CUBIC, CpuTables
from fedrt.world.traces import read_columns

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def points_of(table: CpuTable, path: str) -> tuple[FloatArray, FloatArray]:
    """The frequencies of a table in Hz, and the joules of a cycle at each; one point for each."""
    if table.file is not None:
        hz, per_cycle = _read_points(table.file)
    else:
        assert table.hz is not None
        hz = np.array(table.hz)
        if table.joules_per_cycle is not None:
            per_cycle = np.array(table.joules_per_cycle)
        else:
            per_cycle = np.array(table.power_w) / hz
    if len(np.unique(hz)) < len(hz):
        raise InputError(f"{path}: gives a frequency twice: must give each once")
    return hz, per_cycle


def _read_points(file: str) -> tuple[FloatArray, FloatArray]:
    columns = read_columns(file, ["hz"], ["power_w", "joules_per_cycle"])
    rules = {"hz": q.CPU_HZ, "power_w": POWER_W, "joules_per_cycle": CYCLE_J}
    lines = [
        f"{file}: {name} = {values[~rules[name].holds_for(values)][0]:g}: must be"
        f" {rules[name].wording}"
        for name, values in columns.items()
        if not rules[name].holds_for(values).all()
    ]
    hz = columns["hz"]
    if len(hz) > MOST_POINTS:
        lines.append(f"{file}: has {len(hz)} rows: must be at most {MOST_POINTS}")
    if lines:
        raise InputError(lines)
    if "power_w" in columns:
        return hz, columns["power_w"] / hz
    return hz, columns["joules_per_cycle"]


def unused_points(
    tables: Mapping[int, CpuTable],
    table_of_device: IntArray,
    found: CpuTables,
    paths: Mapping[int, str],
) -> list[str]:
    """One line for each table with points that no device uses, as `measured_cpus` found."""
    lines = []
    for number, table in tables.items():
        seconds = 1.0 / points_of(table, paths[number])[0]
        mine = np.unique(found.of_device[table_of_device == number])
        parts = [found.s_per_cycle[found.first[i] : found.first[i + 1]] for i in mine.tolist()]
        if not parts:
            continue
        count, unused = len(seconds), int((~np.isin(seconds, np.concatenate(parts))).sum())
        if unused:
            what = "is" if unused == 1 else "are"
            lines.append(
                f"{paths[number]}: {unused} of its {count} points {what} never efficient between"
                " cpu_min_hz and cpu_max_hz, and not used"
            )
    return lines


def efficient_points(hz: FloatArray, per_cycle_j: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The points that no other one and no mixture of two others beats, fastest first.

    A device that divides its cycles between two points takes the mean of their seconds and joules
    per cycle. So what counts is the lower left part of the convex hull in these coordinates, from
    the highest frequency to the point of least energy.
    """
    order = np.argsort(-hz)
    seconds, joules = 1.0 / hz[order], per_cycle_j[order]
    kept: list[int] = []
    for i in range(len(order)):
        if kept and joules[i] >= joules[kept[-1]]:
            continue  # slower, and saves nothing
        while len(kept) >= 2 and _is_above(seconds, joules, kept[-2], kept[-1], i):
            kept.pop()
        kept.append(i)
    return hz[order][kept], joules[kept]


def _is_above(s: FloatArray, j: FloatArray, one: int, between: int, other: int) -> bool:
    """Whether a point lies on or above the line between two others."""
    part = (s[between] - s[one]) / (s[other] - s[one])
    return bool(j[between] >= j[one] + part * (j[other] - j[one]))


def measured_cpus(
    tables: Mapping[int, CpuTable],
    table_of_device: IntArray,
    cpu_hz: tuple[FloatArray, FloatArray],
    paths: Mapping[int, str],
) -> tuple[CpuTables, tuple[FloatArray, FloatArray]]:
    """The efficient points of each device's table, and the ends of its frequencies.

    `paths` name the tables' settings. A device whose number is not in `tables` keeps the cubic law.
    Of a table only points between a device's least and greatest frequency count, and the efficient
    ones of these are its range.
    """
    low_hz, high_hz = (ends.copy() for ends in cpu_hz)
    of_device = np.full(len(low_hz), CUBIC)
    first, seconds, joules = [0], [], []
    for number, table in tables.items():
        path = paths[number]
        hz, per_cycle_j = points_of(table, path)
        mine = np.flatnonzero(table_of_device == number)
        order = np.argsort(hz)
        hz, per_cycle_j = hz[order], per_cycle_j[order]
        start = np.searchsorted(hz, low_hz[mine], "left")
        stop = np.searchsorted(hz, high_hz[mine], "right")
        for n in mine[start >= stop][:1].tolist():
            rule = f"a frequency from cpu_min_hz = {low_hz[n]:g} to cpu_max_hz = {high_hz[n]:g}"
            raise InputError(f"{path}: must have {rule}")
        # Devices with the same points between their ends share a table.
        ranges, which = np.unique(np.stack([start, stop], axis=1), axis=0, return_inverse=True)
        for i, (begin, end) in enumerate(ranges.tolist()):
            best_hz, best_j = efficient_points(hz[begin:end], per_cycle_j[begin:end])
            who = mine[which.ravel() == i]
            of_device[who] = len(first) - 1
            low_hz[who], high_hz[who] = best_hz[-1], best_hz[0]
            first.append(first[-1] + len(best_hz))
            seconds.append(1.0 / best_hz)
            joules.append(best_j)
    ends = (low_hz, high_hz)
    points = (np.concatenate([np.zeros(0), *values]) for values in (seconds, joules))
    return CpuTables(of_device, np.array(first), *points), ends
