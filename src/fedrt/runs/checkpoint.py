"""Checkpoints and the record of each round: what lets a killed run go on as if nothing happened.

A checkpoint holds the learner's state after a global round. A record holds what a round gave that
planning cannot compute again: distances and metrics. On resuming, the rounds before the checkpoint
are planned again from their records, which brings back books, tables and the policy's own state
bit for bit, and training goes on from there.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError, reason
from fedrt.files import make_folder, write_whole
from fedrt.inputs import refuse_zip_bomb
from fedrt.turns import Distances, EdgeRound, Learner, none_refused

Arrays = Mapping[str, NDArray[Any]]

RECORD = {"believed", "true", "names", "values"}
OWN_NAME = re.compile(r"[0-9]{6,18}\.npz")
"""How checkpoints and records are named: no other file is ever removed."""
REFUSED = "refused"
"""Only in the record of a round in which updates were refused."""


@dataclass(frozen=True)
class Record:
    """What one global round gave besides its plan."""

    distances: Distances
    metrics: Mapping[str, float]
    refused: NDArray[np.int64] = field(default_factory=none_refused)


class Checkpoints:
    """The checkpoints and records of a run directory."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.checkpoints, self.records = folder / "checkpoints", folder / "records"
        self.keep = keep

    def save_record(self, t: int, record: Record) -> None:
        """Save what round t gave."""
        make_folder(self.records)
        names = json.dumps(list(record.metrics))
        arrays = {
            "believed": record.distances.believed,
            "true": record.distances.true,
            "names": np.array(names),
            "values": np.array(list(record.metrics.values()), dtype=np.float64),
        }
        if len(record.refused):
            arrays[REFUSED] = record.refused
        _write(self.records / f"{t:06}.npz", arrays)

    def load_records(self, rounds: int, edges: int | None = None) -> list[Record]:
        """The records of the first so many rounds, of a run with so many edges."""
        return [_read_record(self.records / f"{t:06}.npz", edges) for t in range(rounds)]

    def save(self, rounds: int, state: Arrays) -> None:
        """Save the state after so many rounds, and drop all but the newest few.

        Later ones that are there did not read when the run went on from here: they go too.
        """
        make_folder(self.checkpoints)
        _write(self.checkpoints / f"{rounds:06}.npz", state)
        paths = self._all()
        later = [path for path in paths if int(path.stem) > rounds]
        for path in [*later, *paths[len(later) + self.keep :]]:
            path.unlink(missing_ok=True)

    def load(
        self, like: Arrays, most: int | None = None, edges: int | None = None
    ) -> tuple[Arrays, list[Record], list[str]]:
        """The newest state that reads and the records up to it; a note on each damaged file.

        It must have the names and shapes of the state given. No records: the run starts over.
        With `most`, none after more rounds than that. `edges` is the size of the distances.
        """
        notes: dict[str, None] = {}
        for path in self._all():
            if most is not None and int(path.stem) > most:
                continue
            try:
                state = _read(path, like.keys())
                records = self.load_records(int(path.stem), edges)
            except InputError as error:
                notes[f"{error}; going back to an earlier state"] = None
                continue
            for name, array in like.items():
                if state[name].shape != array.shape:
                    raise InputError(
                        f"{path}: its {name} are {state[name].shape}, the run needs {array.shape};"
                        " was config.toml changed?"
                    )
            return state, records, list(notes)
        return {}, [], [*notes, *(["no checkpoint is left: starting over"] if notes else [])]

    def newest(self, edges: int) -> int:
        """The rounds before the newest state that is whole, with its records; 0: there is none."""
        for path in self._all():
            try:
                with zipfile.ZipFile(path) as archive:
                    if archive.testzip() is not None:
                        continue
                self.load_records(int(path.stem), edges)
            except (InputError, OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
                continue
            return int(path.stem)
        return 0

    def _all(self) -> list[Path]:
        """Newest first."""
        return sorted(_own_files(self.checkpoints), key=lambda path: int(path.stem), reverse=True)

    def clear(self) -> None:
        """Remove the states of a finished run, and its records."""
        self.clear_records()
        _remove_own(self.checkpoints)

    def clear_records(self) -> None:
        """Remove the records of a finished run: its tables hold the same."""
        _remove_own(self.records)


def _own_files(folder: Path) -> list[Path]:
    """The files of our own naming in a folder; none where it is a link or not there."""
    try:
        if folder.is_symlink():
            return []
        return [path for path in folder.iterdir() if OWN_NAME.fullmatch(path.name)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove_own(folder: Path) -> None:
    """Remove the files of our own naming, and the folder unless it holds others."""
    for path in _own_files(folder):
        if path.is_symlink() or path.is_file():
            path.unlink(missing_ok=True)
    if not folder.is_symlink():
        with suppress(OSError):  # not there, no folder, or not empty
            folder.rmdir()


class Resumed:
    """A learner that answers for finished rounds from their records, then hands over to another."""

    def __init__(self, records: list[Record], learner: Learner) -> None:
        self.records, self.learner = records, learner

    def distances(self, t: int) -> Distances:
        if t < len(self.records):
            return self.records[t].distances
        return self.learner.distances(t)

    def train(self, turn: EdgeRound) -> None:
        if turn.t >= len(self.records):
            self.learner.train(turn)

    def mix(self, turn: EdgeRound) -> Mapping[str, float]:
        if turn.t < len(self.records):
            return self.records[turn.t].metrics
        return self.learner.mix(turn)

    def refused(self, t: int) -> NDArray[np.int64]:
        if t < len(self.records):
            return self.records[t].refused
        return self.learner.refused(t)


def _read_record(path: Path, edges: int | None) -> Record:
    """One record; a line about a file that holds something else."""
    arrays = _read(path, RECORD, {REFUSED})
    believed, true, values = arrays["believed"], arrays["true"], arrays["values"]
    refused = arrays.get(REFUSED, none_refused())
    try:
        names = json.loads(str(arrays["names"]))
    except (ValueError, RecursionError):
        names = None
    size = len(believed) if believed.ndim and edges is None else edges
    good = (
        isinstance(names, list)
        and all(isinstance(name, str) for name in names)
        and believed.shape == true.shape == (size, size)
        and values.shape == (len(names),)
        and all(array.dtype == np.float64 for array in (believed, true, values))
        and refused.shape == (len(refused), 3)
        and refused.dtype == np.int64
    )
    if not good:
        raise InputError(f"{path}: cannot be read: is not the record of a round of this run")
    metrics = dict(zip(names, values.tolist(), strict=True))
    return Record(Distances(believed, true), metrics, refused)


def _write(path: Path, arrays: Arrays) -> None:
    def fill(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    write_whole(path, fill)


def _read(path: Path, names: Set[str], perhaps: Set[str] = frozenset()) -> dict[str, NDArray[Any]]:
    """Every array of a file; the archive's checksums tell whether it is whole."""
    try:
        with path.open("rb") as file:
            refuse_zip_bomb(file, path)
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
    except InputError:
        raise
    except Exception as error:  # a damaged archive may fail in any part of its reader
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    if arrays.keys() - perhaps != names:
        raise InputError(f"{path}: cannot be read: it holds {', '.join(arrays) or 'nothing'}")
    return arrays
