"""The options of a run, which are saved in its folder so that resuming needs none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrt.errors import InputError
from fedrt.scenario.tables.fields import read_table, setting
from fedrt.validation import Flag, Listed, Maybe, Real, Text, Whole

PATH = Text(10_000)
CHUNK, WORKERS = Whole(1, 10_000_000), Whole(1, 10_000)


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out: engine, processes, checkpoints and the like."""

    engine: str = setting(Text(), "stacked")
    device: str = setting(Text(), "cpu")
    data_dir: str | None = setting(Maybe(PATH), None)
    chunk: int | None = setting(Maybe(CHUNK), None)
    workers: int | None = setting(Maybe(WORKERS), None)
    checkpoint_every: int = setting(Whole(1, 1_000_000), 1)
    keep_checkpoints: int = setting(Whole(1, 1_000_000), 2)
    targets: tuple[float, ...] = setting(Listed(Real()), ())
    tensorboard: bool = setting(Flag(), False)
    device_rows: bool | None = setting(Maybe(Flag()), None)
    log: tuple[str, ...] | None = setting(Maybe(Listed(Text(100))), None)
    """The loggers that are told of the run, by name."""
    stop_at: str | None = setting(Maybe(Text(100)), None)
    """The measure and the value at which the run ends, as `accuracy=0.9`."""
    patience: int | None = setting(Maybe(Whole(1, 1_000_000)), None)
    """Evaluations without improvement after which the run ends."""
    keep_models: bool | None = setting(Maybe(Flag()), None)
    """Whether a comparison keeps the models of its runs; a run by itself always does."""
    address: str | None = setting(Maybe(Text(300)), None)
    """Of the cluster that the ray engine trains on; none: one of its own on this machine."""


def read_options(path: Path, table: Any) -> RunOptions:
    """The options saved in the run.json of a folder."""
    problems: list[str] = []
    options = read_table(RunOptions, table, f"{path / 'run.json'}: options", problems)
    if options is None:
        raise InputError(problems)
    return options
