"""The cache of `fedrt watch`, so that an update reads only what is new.

Tables are saved whole, with all rows so far, but in groups of rows that stay as they are once they
are full: of a run with many rounds only its last groups are read again. Runs whose files have not
changed are not read at all.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrt.report.page.detail import DetailShare, detail_data
from fedrt.report.page.saved import Columns, PageRun, read_columns, read_saved, to_columns
from fedrt.report.page.sources import READ

State = tuple[tuple[str, int, int, int], ...]


class Cache:
    """The runs and groups of rows that have been read, by folder and file."""

    def __init__(self) -> None:
        self._runs: dict[Path, tuple[State, PageRun]] = {}
        self._details: dict[Path, tuple[PageRun, DetailShare, dict[str, Any], list[str]]] = {}
        self._groups: dict[tuple[Path, tuple[str, ...]], list[tuple[object, Columns]]] = {}

    def run(self, path: Path) -> PageRun:
        """The run in a folder, read again if one of its files has changed."""
        state = _state(path)
        if path not in self._runs or self._runs[path][0] != state:
            self._runs.pop(path, None)
            self._runs[path] = (state, read_saved(path, self.columns))
        return self._runs[path][1]

    def detail(self, run: PageRun, most: DetailShare, problems: list[str]) -> dict[str, Any]:
        """The details of a run, made again if the run or its share of the page has changed."""
        known = self._details.get(run.path)
        if known is None or known[0] is not run or known[1] != most:
            found: list[str] = []
            known = self._details[run.path] = (run, most, detail_data(run, most, found), found)
        problems += known[3]
        return known[2]

    def columns(self, path: Path, needed: Sequence[str]) -> Columns:
        """The columns that `read_columns` gives, reading only new groups of rows."""
        return read_columns(path, needed, self._read)

    def _read(self, path: Path, source: Any, wanted: Sequence[str]) -> Columns:
        known = self._groups.setdefault((path, tuple(wanted)), [])
        about = source.metadata
        prints = [_fingerprint(about.row_group(i)) for i in range(about.num_row_groups)]
        same = 0
        while same < min(len(known), len(prints)) and known[same][0] == prints[same]:
            same += 1
        del known[same:]
        for i in range(same, len(prints)):
            table = source.read_row_groups([i], columns=list(wanted))
            known.append((prints[i], to_columns(table, wanted)))
        if not known:
            return to_columns(source.read(columns=list(wanted)), wanted)
        return {name: np.concatenate([group[name] for _, group in known]) for name in wanted}


def _state(folder: Path) -> State:
    """A value that changes whenever a file of the run does."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(READ):
                    about = entry.stat()
                    found.append((entry.name, about.st_mtime_ns, about.st_size, about.st_ino))
    except OSError:
        return ()
    return tuple(sorted(found))


def _fingerprint(group: Any) -> object:
    """A value that is equal only for equal groups of rows."""
    parts = [group.num_rows, group.total_byte_size]
    for i in range(group.num_columns):
        column = group.column(i)
        range_of = column.statistics
        parts += [column.data_page_offset, column.total_compressed_size]
        if range_of is not None and range_of.has_min_max:
            parts += [range_of.min, range_of.max]
    return tuple(map(repr, parts))
