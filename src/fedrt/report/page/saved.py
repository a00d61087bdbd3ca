"""Reads run folders for the page, whatever their state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError, reason
from fedrt.messages import UPLOADS
from fedrt.records.directory import SavedRun, read_run
from fedrt.report.page.encode import plain_data
from fedrt.report.page.sources import read_json
from fedrt.system.inputs import read_text, refuse_many_cells

Columns = dict[str, NDArray[Any]]

ROUNDS = ("global_round", "time_s", "ends_at_s", "energy_j_mean", "energy_j_max")
EDGES = ("global_round", "edge", "compute_s", "upload_s", "backhaul_s", "waiting_s")
LINKS = ("global_round", "edge", "edge2", "bps", "distance", "kept")
DEVICES = ("global_round", "device", "edge", "bandwidth_hz", "cpu_hz", "spent_j", "left_j")
CODECS = ("global_round", "device", "codec", "stepped_up", "upload_bytes")
"""Of devices, in runs whose policy chooses codecs."""
NUMBERS = "biuf"


@dataclass(frozen=True)
class PageRun:
    """One policy on one seed, with its rounds; larger tables are read on demand."""

    path: Path
    said: SavedRun
    config: str
    command: str
    environment: dict[str, Any]
    rounds: Columns
    read: Callable[[Path, Sequence[str]], Columns]
    """How its tables are read."""

    @cached_property
    def done(self) -> int:
        """The number of global rounds that have been saved."""
        return len(self.rounds["global_round"]) if self.rounds else 0

    @property
    def planned(self) -> int:
        return self.said.scenario.rounds.global_rounds

    @property
    def trained(self) -> bool:
        return "loss" in self.rounds or self.said.options is not None

    def has(self, name: str, columns: Sequence[str]) -> bool:
        """Whether a larger table can be read and has these columns."""
        from pyarrow import parquet

        try:
            with (self.path / f"{name}.parquet").open("rb") as file:
                return set(columns) <= set(parquet.read_schema(file).names)
        except Exception:  # a damaged file may fail in any part of its reader
            return False

    def table(self, name: str, needed: Sequence[str]) -> Columns | None:
        """The rows of a larger table up to the last saved round; None if there is no such table."""
        path = self.path / f"{name}.parquet"
        if not path.is_file():
            return None
        columns = self.read(path, needed)
        rows = columns["global_round"] < self.done
        # Tables are saved before `rounds`, so they may be ahead of it.
        return columns if rows.all() else {key: value[rows] for key, value in columns.items()}


def read_saved(path: Path, read: Callable[[Path, Sequence[str]], Columns] | None = None) -> PageRun:
    """The description and rounds in a run folder; an error about what cannot be read."""
    read = read or read_columns
    said = read_run(path)
    run, environment = read_json(path / "run.json"), None
    if (path / "environment.json").is_file():
        environment = read_json(path / "environment.json")
    try:
        config = read_text(path / "config.toml")
    except (OSError, ValueError) as error:
        raise InputError(f"{path / 'config.toml'}: cannot be read: {reason(error)}") from None
    table = path / "rounds.parquet"
    rounds = read(table, ROUNDS) if table.is_file() else {}
    if rounds and not np.array_equal(rounds["global_round"], np.arange(len(rounds["time_s"]))):
        raise InputError(f"{table}: its rounds are not 0, 1, 2, ...")
    command = run.get("command")
    return PageRun(
        path=path,
        said=said,
        config=config,
        command=command if isinstance(command, str) else "",
        environment=plain_data(environment) if isinstance(environment, dict) else {},
        rounds=rounds,
        read=read,
    )


def read_columns(
    path: Path,
    needed: Sequence[str],
    read: Callable[[Path, Any, Sequence[str]], Columns] | None = None,
) -> Columns:
    """The numeric columns of a table, which must include the required ones.

    `rounds` is read whole, since what training adds is not known here; of others only what is
    needed. `read` takes columns out of the open file where it need not be all of it.
    """
    from pyarrow import parquet

    try:
        # The reader takes an open file, since a name need not be text that it knows.
        with path.open("rb") as file, parquet.ParquetFile(file) as source:
            names = source.schema_arrow.names
            missing = [name for name in needed if name not in names]
            if missing:
                raise InputError(f"{path}: has no column {missing[0]}")
            wanted = names if path.stem == "rounds" else list(needed)
            refuse_many_cells(path, source.metadata.num_rows, len(wanted))
            if read is not None:
                columns = read(path, source, wanted)
            else:
                columns = to_columns(source.read(columns=wanted), wanted)
    except InputError:
        raise
    except Exception as error:  # a damaged file may fail in any part of its reader
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    columns = {name: values for name, values in columns.items() if values.dtype.kind in NUMBERS}
    for name in needed:
        if name not in columns:
            raise InputError(f"{path}: its {name} must be numbers")
    return columns


def to_columns(table: Any, names: Sequence[str]) -> Columns:
    """The named columns as arrays; codecs as their places in `UPLOADS`, others as -1."""
    return {
        name: _codec_places(table[name]) if name == "codec" else table[name].to_numpy()
        for name in names
    }


def _codec_places(names: Any) -> NDArray[np.int64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    places = pc.index_in(names, value_set=pa.array(list(UPLOADS)))
    found: NDArray[np.int64] = pc.fill_null(places, -1).to_numpy().astype(np.int64)
    return found


def whole_numbers(columns: Columns, name: str, below: int, path: Path) -> NDArray[np.int64]:
    """A column of whole numbers from 0 to below `below`; an error if one is not."""
    values = columns[name]
    if values.dtype.kind not in "iu" or (
        len(values) and not 0 <= values.min() <= values.max() < below
    ):
        raise InputError(f"{path}: its {name} must be whole numbers from 0 to {below - 1}")
    return values.astype(np.int64, copy=False)
