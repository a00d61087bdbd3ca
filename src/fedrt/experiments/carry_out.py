"""Trains the missing cells, each once, and none whose training equals that of another."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

from fedrt.errors import FedrtError, InputError, reason
from fedrt.experiments.cells import Cell, Column
from fedrt.experiments.kept import (
    Kept,
    check_links,
    keep_run,
    kept_files,
    read_kept,
    same_training,
    write_kept,
)
from fedrt.policies import make_policy
from fedrt.records.directory import RunDirectory, environment, read_run
from fedrt.records.foreign import refuse_links
from fedrt.records.options import RunOptions
from fedrt.runs.loop import make_world
from fedrt.scenario import Scenario, read_scenario
from fedrt.studies.training import Progress, Training, carry_on, make_run_setup, start_run
from fedrt.system.torn import TORN, clear_torn
from fedrt.world.simulated import SimulatedWorld

Note = Callable[[str], None]
ShowCell = Callable[[Cell, int], AbstractContextManager[Progress | None]]
"""Given a cell and its number of rounds, what to call after each."""


class Store:
    """The folder of saved cells, and of the runs that are being trained."""

    def __init__(self, folder: Path) -> None:
        self.cells, self.runs = folder / "cells", folder / "runs"

    def path(self, cell: Cell) -> Path:
        return self.file(cell.name)

    def file(self, name: str) -> Path:
        """The file of the cell of that name."""
        return self.cells / f"{name}.npz"

    def read(self, cell: Cell) -> Kept | None:
        """The saved cell; None if there is none. One of another scenario is an error."""
        path = self.path(cell)
        if not _is_there(path):
            return None
        kept = read_kept(path)
        check_same(cell, kept, path, "; remove it or give another `out`")
        return kept

    def write(self, kept: Kept) -> None:
        """Save a cell."""
        path = self.file(kept.about["cell"])
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{path.parent}: cannot be made: {reason(error)}") from None
        clear_torn(path.parent)
        write_kept(path, kept)

    def check_writable(self, names: Iterable[str]) -> None:
        """Raise an error if these cells cannot be saved; creates nothing."""
        problems: dict[str, None] = {}
        for name in names:
            path = self.file(name)
            folder = next(each for each in path.parents if _is_there(each))
            try:
                handle, probe = tempfile.mkstemp(TORN, f".{path.name}-", folder)
                os.close(handle)
                os.unlink(probe)
            except OSError as error:
                problems[f"{folder}: cannot be written: {reason(error)}"] = None
        if problems:
            raise InputError(problems)

    def run(self, cell: Cell) -> Path:
        """The folder in which the cell is trained."""
        return self.runs / cell.name

    def clear_run(self, cell: Cell, note: Note) -> None:
        """Delete what is left of a cell's training, unless another process uses it."""
        run = self.run(cell)
        if not _is_there(run):
            return
        try:
            with RunDirectory(run).locked():
                # The description goes first: what is left of a removal that was cut is no run.
                (run / "run.json").unlink(missing_ok=True)
                shutil.rmtree(run)
        except FileNotFoundError:
            pass  # another process removes it too
        except OSError as error:
            note(f"{run}: cannot be removed: {reason(error)}")
        except FedrtError as error:
            note(error.report())


def _is_there(path: Path) -> bool:
    """Whether a file or folder exists; False for a name that is too long."""
    try:
        return path.exists()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None


@cache
def _scenario(column: Column) -> Scenario:
    return column.load()


@cache
def _links(column: Column, seed: int) -> int:
    """The number of links of the base graph."""
    return int(make_world(_scenario(column), seed).base_graph.sum()) // 2


def check_same(cell: Cell, kept: Kept, path: Path, advice: str = "") -> None:
    """Raise an error about a saved cell that differs from the one that would be trained now."""
    about, scenario = kept.about, _scenario(cell.column)
    if (about["cell"], about["policy"], about["seed"]) != (cell.name, cell.policy, cell.seed):
        said = f"{about['cell']}, {about['policy']}, seed {about['seed']}"
        raise InputError(f"{path}: says that it is {said}")
    try:
        theirs = read_scenario(about["scenario"])
    except InputError as error:
        raise InputError(f"{path}: its scenario cannot be read: {error.lines[0]}") from None
    if theirs != scenario:
        raise InputError(
            f"{path}: was trained under other settings than {cell.column.name} has now{advice}"
        )
    rounds = scenario.rounds.global_rounds
    if len(kept.distance) != rounds:
        raise InputError(f"{path}: holds {len(kept.distance)} rounds, not {rounds}")
    check_links(kept, _links(cell.column, cell.seed), str(path))


def take_over(
    folders: Sequence[Path], cells: Sequence[Cell], store: Store, note: Note = print
) -> None:
    """Save the cells of other folders that are missing here.

    All is read and checked before any of it is written: also that the asked-for columns were
    trained as they would be now, and that policies still without a cell are there.
    """
    problems: list[str] = []
    taken: dict[str, Kept] = {}
    counts = []
    for folder in folders:
        own = _lacking(folder, cells, store, problems)
        new = {name: kept for name, kept in own.items() if name not in taken}
        taken |= new
        counts.append(f"took {len(new)} cells from {folder}")
    if problems:
        raise InputError(problems)
    found = _read_all(cells, store)
    _check_policies(cells, {*found, *taken})
    store.check_writable(taken)
    for kept in taken.values():
        store.write(kept)
    for line in counts:
        note(line)


def _lacking(
    folder: Path, cells: Sequence[Cell], store: Store, problems: list[str]
) -> dict[str, Kept]:
    """The cells of another folder that are missing in the store, by name."""
    columns = {cell.column.name: cell.column for cell in cells}
    theirs, found = Store(folder), {}
    try:
        if not theirs.cells.is_dir():
            raise InputError(f"`merge` {folder}: has no folder cells/")
    except OSError as error:
        raise InputError(f"`merge` {folder}: cannot be read: {reason(error)}") from None
    for path in kept_files(theirs.cells, problems):
        try:
            kept = read_kept(path)
            about, column = kept.about, columns.get(path.parent.name)
            if not _is_there(store.file(about["cell"])):
                if column is not None:
                    check_same(Cell(column, about["policy"], about["seed"]), kept, path)
                found[about["cell"]] = kept
        except InputError as error:
            problems += error.lines
    return found


class Workshop:
    """Keeps the data, model and engine of the last scenario and seed for the next cell."""

    def __init__(self) -> None:
        self.held: tuple[Any, Any] | None = None

    @contextmanager
    def open_trainer(
        self, world: SimulatedWorld, options: RunOptions, tuning: Path | None
    ) -> Iterator[Training]:
        """A new trainer, with the present setup if it fits, else with a new one."""
        from fedrt.learning.trainer import Trainer

        job = (world.scenario, world.seed, options)
        if self.held is None or self.held[0] != job:
            self.close()
            self.held = (job, make_run_setup(world, options, tuning))
        yield Trainer(self.held[1])

    def close(self) -> None:
        """Close what the setup has started."""
        if self.held is not None:
            self.held[1].close()
            self.held = None


def carry_out(
    cells: Sequence[Cell],
    store: Store,
    options: RunOptions,
    *,
    command: str = "",
    note: Note = print,
    show: ShowCell | None = None,
) -> dict[str, Kept]:
    """Every cell by name; missing ones are trained, one after the other."""
    if _is_there(store.runs):
        refuse_links(store.runs, itself=True)
    found = look_up(cells, store, note)
    store.check_writable(cell.name for cell in cells if cell.name not in found)
    shop = Workshop()
    try:
        for number, cell in enumerate(cells, start=1):
            # Another process may have kept it since.
            kept = found.get(cell.name) or store.read(cell)
            if kept is None:
                twin = same_training(cell, found.values())
                kept = twin or _train(cell, store, options, shop, command, note, show)
                store.write(kept)
                note(f"{number} of {len(cells)}: {_said(cell, kept)}")
            found[cell.name] = kept
            store.clear_run(cell, note)
    finally:
        shop.close()
    return found


def look_up(cells: Sequence[Cell], store: Store, note: Note = print) -> dict[str, Kept]:
    """The cells that are saved, or that follow from the training of another; nothing is trained.

    A policy of which a cell is lacking has to be there.
    """
    found = _read_all(cells, store)
    _check_policies(cells, found)
    for cell in cells:
        kept = None if cell.name in found else same_training(cell, found.values())
        if kept is not None:
            store.write(kept)
            note(_said(cell, kept))
            found[cell.name] = kept
    return found


def _read_all(cells: Sequence[Cell], store: Store) -> dict[str, Kept]:
    """The saved cells; one error about all that are damaged or of another scenario."""
    found, problems = {}, []
    for cell in cells:
        try:
            kept = store.read(cell)
        except InputError as error:
            problems += error.lines
        else:
            if kept is not None:
                found[cell.name] = kept
    if problems:
        raise InputError(problems)
    return found


def _check_policies(cells: Sequence[Cell], found: Collection[str]) -> None:
    for policy in dict.fromkeys(cell.policy for cell in cells if cell.name not in found):
        make_policy(policy)


def _said(cell: Cell, kept: Kept) -> str:
    how = f"as {kept.about['trained_as']}" if "trained_as" in kept.about else "trained"
    return (
        f"{cell.name} {how}: {kept.time_s / 3600:.2f} h, {kept.energy_j:.1f} J,"
        f" {kept.best_accuracy:.2%}, in {kept.about['train_wall_s']:.0f} s"
    )


def _train(
    cell: Cell,
    store: Store,
    options: RunOptions,
    shop: Workshop,
    command: str,
    note: Note,
    show: ShowCell | None,
) -> Kept:
    """Train one cell from the start, or from where it was stopped."""
    scenario, run = cell.column.load(), store.run(cell)
    if _is_there(run) and not all((run / name).is_file() for name in ("run.json", "config.toml")):
        store.clear_run(cell, note)
    fresh = not _is_there(run)
    if not fresh:
        held = read_run(run)
        if held.scenario != scenario:
            raise InputError(f"{run}: was started under other settings; remove it")
    else:
        start_run(run, scenario, cell.policy, cell.seed, command, options)
    began = time.monotonic()
    rounds = scenario.rounds.global_rounds
    with show(cell, rounds) if show is not None else nullcontext() as progress:
        summary = carry_on(
            run,
            progress,
            lambda line: note(f"{cell.name}: {line}") if line.startswith("going on") else None,
            fresh=fresh,
            open_trainer=shop.open_trainer,
        )
    about = {
        "command": command,
        "environment": environment(),
        "device": shop.held[1].device_name if shop.held is not None else "unknown",
        # Of a run that was stopped, the rounds before the stop count too.
        "train_wall_s": time.monotonic() - began if fresh else summary["wall_s"],
    }
    return keep_run(cell, run, about)
