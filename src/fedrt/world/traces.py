"""Traces: values over time from a CSV or Parquet file, checked for completeness.

A trace is a table in long form: one row per value, the columns before the value saying which round
and device, edge server or link it belongs to, all counted from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError, reason
from fedrt.system.inputs import MOST_DATA, open_regular, refuse_many_cells
from fedrt.validation import Real, shown

FloatArray = NDArray[np.float64]


def read_trace(file: str, sizes: dict[str, int], value: str, rule: Real) -> FloatArray:
    """The values of a trace as an array indexed by its key columns in order.

    `sizes` gives the columns and how many values each takes; one with 0 takes as many as there are.
    Cells the trace does not give are NaN: `gaps` names them.
    """
    columns = read_columns(file, [*sizes, value])
    problems: list[str] = []
    keys = []
    for name, size in sizes.items():
        column = columns[name]
        most = size - 1 if size else 999_999
        bad = ~((column >= 0) & (column <= most) & (column == np.floor(column)))
        _note(problems, file, name, column, bad, f"a whole number from 0 to {most}")
        keys.append(np.where(bad, 0, column).astype(np.int64))
    numbers = columns[value]
    _note(
        problems, file, value, numbers, ~rule.holds_for(numbers), f"{rule.wording}; check the unit"
    )
    if problems:
        raise InputError(problems)
    shape = tuple(
        size or _count(file, name, key)
        for (name, size), key in zip(sizes.items(), keys, strict=True)
    )
    flat = np.ravel_multi_index(tuple(keys), shape)
    first, count = np.unique(flat, return_counts=True)
    if (count > 1).any():
        where = _cell(list(sizes), np.unravel_index(int(first[count > 1][0]), shape))
        raise InputError(f"{file}: {where} is given {int(count.max())} times: must be given once")
    table = np.full(shape, np.nan)
    table.flat[flat] = numbers
    return table


def _count(file: str, name: str, key: NDArray[np.int64]) -> int:
    """How many values a key column takes, from 0 on without a gap.

    Before the table is made: one stray round number must not ask for a million rounds of memory.
    """
    there = np.unique(key)
    missing = np.flatnonzero(there != np.arange(len(there)))
    if missing.size:
        raise InputError(f"{file}: has no value for {name} {missing[0]}")
    return len(there)


def gaps(file: str, table: FloatArray, names: list[str], needed: NDArray[np.bool_]) -> list[str]:
    """A line that names the first missing value of a trace, if one is missing that is needed."""
    missing = np.isnan(table) & needed
    if not missing.any():
        return []
    where = _cell(names, np.unravel_index(int(np.argmax(missing)), table.shape))
    more = int(missing.sum()) - 1
    return [f"{file}: has no value for {where}" + (f", nor for {more} more" if more else "")]


def too_short(file: str, length: int, global_rounds: int, repeat: bool) -> list[str]:
    """A line if the trace ends before the run does."""
    if repeat or length >= global_rounds:
        return []
    return [
        f"{file}: has {length} global rounds, the scenario {global_rounds}: give more rows, lower"
        " rounds.global_rounds, or set repeat = true"
    ]


def read_columns(file: str, names: list[str], one_of: Sequence[str] = ()) -> dict[str, FloatArray]:
    """The named columns as numbers, and that of `one_of` which is there; any other is an error."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    path = Path(file)
    try:
        if path.suffix.lower() == ".parquet":
            with open_regular(path, MOST_DATA) as source, parquet.ParquetFile(source) as packed:
                about = packed.metadata
                refuse_many_cells(path, about.num_rows, about.num_columns)
                table = packed.read()
        elif path.suffix.lower() == ".csv":
            with open_regular(path, MOST_DATA) as source:
                table = csv.read_csv(source)
        else:
            raise InputError(f"{file}: must end in .csv or .parquet")
        found = table.column_names
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{file}: cannot be read: {reason(error)}") from None
    names = [*names, *[name for name in one_of if name in found][:1]]
    if sorted(found) != sorted(names) or (one_of and not set(one_of) & set(found)):
        has, must = shown(", ".join(found))[1:-1], ", ".join(names)
        if one_of:
            must = ", ".join(n for n in names if n not in one_of) + f" and {' or '.join(one_of)}"
        raise InputError(f"{file}: has the columns {has}: must have {must}")
    if not table.num_rows:
        raise InputError(f"{file}: has no rows")
    columns = {}
    for name in names:
        column = table.column(name)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            texts = [str(item) for item in column.to_pylist()]
            words = (i for i, text in enumerate(texts) if not _is_number(text))
            row = next(words, None)
            what = f"the type {column.type}" if row is None else f"{shown(texts[row])} in row {row}"
            raise InputError(f"{file}: column {name} has {what}: must be a number")
        columns[name] = column.to_numpy().astype(np.float64)
    return columns


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _note(
    problems: list[str],
    file: str,
    name: str,
    column: FloatArray,
    bad: NDArray[np.bool_],
    rule: str,
) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        more = int(bad.sum()) - 1
        also = f" (and {more} more rows)" if more else ""
        problems.append(f"{file}: {name} = {column[row]:g} in row {row}{also}: must be {rule}")


def _cell(names: list[str], index: tuple[np.intp, ...]) -> str:
    return ", ".join(f"{name} {int(i)}" for name, i in zip(names, index, strict=True))
