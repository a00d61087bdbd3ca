"""Checkpoints and records of rounds, from which a stopped run is resumed bit for bit.

A checkpoint holds the models after a global round, and what the policy remembers (`runs.plain`). A
record holds what was observed, planned and what happened in a round (`records.records`). On
resuming, the rounds before the checkpoint are read from their records, which restores ledger and
tables bit for bit, and training continues from there.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedrt.errors import InputError
from fedrt.records.compact import compact, expanded
from fedrt.records.records import BadRecordError, RunSize, packed, unpacked
from fedrt.runs.plain import is_plain
from fedrt.runs.rounds import PastEdgeRound
from fedrt.system.files import make_folder, write_arrays
from fedrt.system.inputs import read_arrays

Arrays = Mapping[str, NDArray[Any]]

OWN_NAME = re.compile(r"[0-9]{6,18}\.npz")
"""How checkpoints and records are named: no other file is ever removed."""
LATER = {"copies", "pairs", "codec_state", "guard", "models", "model_labels", "samples"}
"""What a state may have though that of a run's start has not: copies, if gossip is coded, what
devices remember of messages, if a policy chooses codecs, models that real servers sent with the
names of their states, and the numbers of samples with which real devices joined."""
EARLIER = {"anew"}
"""What the states of older versions do not have."""
Record = Sequence[PastEdgeRound]
"""The edge rounds of one global round."""


class Checkpoints:
    """The checkpoints and records in a run folder."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.checkpoints, self.records = folder / "checkpoints", folder / "records"
        self.keep = keep

    def save_record(self, t: int, record: Record) -> None:
        """Save the record of global round t."""
        make_folder(self.records)
        write_arrays(self.records / f"{t:06}.npz", compact(packed(record)))

    def load_records(self, rounds: int, size: RunSize) -> list[Record]:
        """The records of the first `rounds` global rounds, checked against the run's size."""
        return [_read_record(self.records, t, size) for t in range(rounds)]

    def save(self, rounds: int, state: Arrays) -> None:
        """Save the state after a number of rounds, and delete all but the newest checkpoints.

        Later ones that are there did not read when the run went on from here: they go too.
        """
        make_folder(self.checkpoints)
        write_arrays(self.checkpoints / f"{rounds:06}.npz", state)
        paths = self._all()
        later = [path for path in paths if int(path.stem) > rounds]
        for path in [*later, *paths[len(later) + self.keep :]]:
            path.unlink(missing_ok=True)

    def load(
        self, like: Arrays, size: RunSize, most: int | None = None, *, start_over: bool = True
    ) -> tuple[Arrays, list[Record], list[str]]:
        """The newest readable state, the records up to it, and a note on each damaged file.

        It must have the names and shapes of the state given. No records: the run starts over,
        unless it may not: then an error, if there are checkpoints or records of rounds.
        With `most`, none after more rounds than that.
        """
        notes: dict[str, None] = {}
        for path in self._all():
            if most is not None and int(path.stem) > most:
                continue
            if int(path.stem) == 0 and not start_over and (notes or self._past_first()):
                break
            try:
                state = _read(path, like.keys())
                records = self.load_records(int(path.stem), size)
            except InputError as error:
                notes[f"{error}; going back to an earlier state"] = None
                continue
            for name, array in like.items():
                if name in state and state[name].shape != array.shape:
                    raise InputError(
                        f"{path}: its {name} are {state[name].shape}, the run needs {array.shape};"
                        " was config.toml changed?"
                    )
            return state, records, list(notes)
        if not start_over and (notes or _own_files(self.records)):
            lines = [note.partition(";")[0] for note in notes]
            folder = self.checkpoints.parent
            rule = "no checkpoint can be read, and a run that has begun is not started over"
            raise InputError([*lines, f"{folder}: cannot go on: {rule}; give another `out`"])
        return {}, [], [*notes, *(["no checkpoint is left: starting over"] if notes else [])]

    def _past_first(self) -> bool:
        """Whether there are records of later rounds than the first."""
        return any(int(path.stem) > 0 for path in _own_files(self.records))

    def newest_models(self) -> NDArray[Any]:
        """The edge models of the newest readable checkpoint, one per row."""
        told = f"{self.checkpoints.parent}: has no models"
        for path in self._all():
            try:
                models = _read(path).get("models")
            except InputError as error:
                told = str(error)
                continue
            if models is not None and models.ndim == 2 and models.dtype.kind == "f":
                return models
        raise InputError(f"{told}; a comparison keeps them with `keep_models`")

    def newest(self, size: RunSize) -> int:
        """The number of rounds before the newest complete checkpoint; 0 if there is none."""
        for path in self._all():
            try:
                with zipfile.ZipFile(path) as archive:
                    if archive.testzip() is not None:
                        continue
                self.load_records(int(path.stem), size)
            except (InputError, OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
                continue
            return int(path.stem)
        return 0

    def _all(self) -> list[Path]:
        """The numbers of rounds of all checkpoints, newest first."""
        return sorted(_own_files(self.checkpoints), key=lambda path: int(path.stem), reverse=True)

    def clear(self, *, keep_models: bool = False) -> None:
        """Delete the records of a finished run, and its checkpoints but perhaps the last."""
        self.clear_records()
        if not keep_models:
            _remove_own(self.checkpoints)
            return
        for path in self._all()[1:]:
            path.unlink(missing_ok=True)

    def clear_records(self) -> None:
        """Delete the records of a finished run; its tables hold the same."""
        _remove_own(self.records)


def _own_files(folder: Path) -> list[Path]:
    """The files in a folder that have names given by FedRT; none if it is a link or missing."""
    try:
        if folder.is_symlink():
            return []
        return [path for path in folder.iterdir() if OWN_NAME.fullmatch(path.name)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove_own(folder: Path) -> None:
    """Delete the files with names given by FedRT, and the folder unless it holds others."""
    for path in _own_files(folder):
        if path.is_symlink() or path.is_file():
            path.unlink(missing_ok=True)
    if not folder.is_symlink():
        with suppress(OSError):  # not there, no folder, or not empty
            folder.rmdir()


def _read_record(folder: Path, t: int, size: RunSize) -> Record:
    """The record of global round t; an error that names a file with anything else."""
    path = folder / f"{t:06}.npz"
    try:
        return unpacked(expanded(_read(path)), size, t)
    except (BadRecordError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path}: cannot be read: is not the record of a round of this run: {error}"
        ) from None


def _read(path: Path, names: Set[str] | None = None) -> dict[str, NDArray[Any]]:
    """All arrays of a file, whose checksums are verified."""
    arrays = read_arrays(path)
    later = LATER | {name for name in arrays if is_plain(name)}
    if names is not None and not names - EARLIER <= arrays.keys() <= names | later:
        raise InputError(f"{path}: cannot be read: it holds {', '.join(arrays) or 'nothing'}")
    return arrays
