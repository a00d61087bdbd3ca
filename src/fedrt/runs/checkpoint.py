"""Checkpoints and the record of each round: what lets a killed run go on as if nothing happened.

A checkpoint holds the learner's state after a global round. A record holds what a round gave that
planning cannot compute again: distances and metrics. On resuming, the rounds before the checkpoint
are planned again from their records, which brings back books, tables and the policy's own state
bit for bit, and training goes on from there.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError, reason
from fedrt.files import write_whole
from fedrt.turns import Distances, EdgeRound, Learner

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Record:
    """What one global round gave besides its plan."""

    distances: Distances
    metrics: Mapping[str, float]


class Checkpoints:
    """The checkpoints and records of a run directory."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.checkpoints, self.records = folder / "checkpoints", folder / "records"
        self.keep = keep

    def save_record(self, t: int, record: Record) -> None:
        """Save what round t gave."""
        self.records.mkdir(exist_ok=True)
        names = json.dumps(list(record.metrics))
        arrays = {
            "believed": record.distances.believed,
            "true": record.distances.true,
            "names": np.array(names),
            "values": np.array(list(record.metrics.values()), dtype=np.float64),
        }
        _write(self.records / f"{t:06}.npz", arrays)

    def load_records(self, rounds: int) -> list[Record]:
        """The records of the first so many rounds."""
        records = []
        for t in range(rounds):
            arrays = _read(self.records / f"{t:06}.npz")
            names = json.loads(str(arrays["names"]))
            metrics = dict(zip(names, arrays["values"].tolist(), strict=True))
            records.append(Record(Distances(arrays["believed"], arrays["true"]), metrics))
        return records

    def save(self, rounds: int, state: Arrays) -> None:
        """Save the state after so many rounds, and drop all but the newest few."""
        self.checkpoints.mkdir(exist_ok=True)
        _write(self.checkpoints / f"{rounds:06}.npz", state)
        for path in self._all()[self.keep :]:
            path.unlink(missing_ok=True)

    def load(self) -> tuple[int, Arrays, list[str]]:
        """The newest state that reads: (rounds done, state, notes on damaged ones); 0 for none."""
        notes: list[str] = []
        for path in self._all():
            try:
                return int(path.stem), _read(path), notes
            except InputError as error:
                notes.append(f"{error}; the one before it is used")
        return 0, {}, notes

    def _all(self) -> list[Path]:
        """Newest first."""
        found = (path for path in self.checkpoints.glob("*.npz") if path.stem.isdigit())
        return sorted(found, reverse=True)

    def clear_records(self) -> None:
        """Remove the records of a finished run: its tables hold the same."""
        if self.records.is_dir():
            for path in self.records.iterdir():
                path.unlink(missing_ok=True)
            self.records.rmdir()


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


def _write(path: Path, arrays: Arrays) -> None:
    def fill(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    write_whole(path, fill)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """Every array of a file; the archive's checksums tell whether it is whole."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
