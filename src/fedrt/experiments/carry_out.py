"""Training what is missing: each cell once, and none whose training another has done already."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from fedrt.errors import FedrtError, InputError
from fedrt.experiments.cells import Cell
from fedrt.experiments.kept import Kept, keep_run, read_kept, same_training, write_kept
from fedrt.files import clear_torn
from fedrt.policies import make_policy
from fedrt.runs.directory import environment, read_run
from fedrt.runs.training import Progress, RunOptions, carry_on, make_run_setup, start_run
from fedrt.scenario import read_scenario
from fedrt.world.world import World

Note = Callable[[str], None]
ShowCell = Callable[[Cell, int], AbstractContextManager[Progress | None]]
"""Given a cell and its number of rounds, what to call after each."""


class Store:
    """The folder of kept cells, and of the runs that are on their way."""

    def __init__(self, folder: Path) -> None:
        self.cells, self.runs = folder / "cells", folder / "runs"

    def path(self, cell: Cell) -> Path:
        return self.cells / f"{cell.name}.npz"

    def read(self, cell: Cell) -> Kept | None:
        """The kept cell; None if it is not there. One of another scenario is refused."""
        path = self.path(cell)
        if not path.exists():
            return None
        kept = read_kept(path)
        _check_same(cell, kept, path)
        return kept

    def write(self, cell: Cell, kept: Kept) -> None:
        """Save a cell."""
        path = self.path(cell)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{path.parent}: cannot be made: {error.strerror}") from None
        clear_torn(path.parent)
        write_kept(path, kept)

    def merge(self, other: Path) -> list[str]:
        """Take over the cells of another folder that are lacking here; their names."""
        theirs = Store(other)
        if not theirs.cells.is_dir():
            raise InputError(f"--merge {other}: has no folder cells/")
        taken = []
        for path in sorted(theirs.cells.rglob("*.npz")):
            name = path.relative_to(theirs.cells)
            kept, mine = read_kept(path), self.cells / name
            if kept.about["cell"] != str(name.with_suffix("")):
                raise InputError(f"{path}: says that it is {kept.about['cell']}")
            if not mine.exists():
                mine.parent.mkdir(parents=True, exist_ok=True)
                write_kept(mine, kept)
                taken.append(kept.about["cell"])
        return taken


def _check_same(cell: Cell, kept: Kept, path: Path) -> None:
    if (kept.about["policy"], kept.about["seed"]) != (cell.policy, cell.seed):
        raise InputError(f"{path}: is of {kept.about['policy']}, seed {kept.about['seed']}")
    if read_scenario(kept.about["scenario"]) != cell.column.load():
        raise InputError(
            f"{path}: was trained under other settings than {cell.column.name} has now; remove it"
            " or give another --out"
        )


class Workshop:
    """Keeps the data, model and engine of the last scenario and seed for the next cell."""

    def __init__(self) -> None:
        self.held: tuple[Any, Any] | None = None

    @contextmanager
    def open_trainer(self, world: World, options: RunOptions, tuning: Path | None) -> Iterator[Any]:
        """A fresh learner on the setup that is there, or on a new one."""
        from fedrt.learning.learner import Trainer

        job = (world.scenario, world.seed, options)
        if self.held is None or self.held[0] != job:
            self.close()
            self.held = (job, make_run_setup(world, options, tuning))
        yield Trainer(self.held[1])

    def close(self) -> None:
        """End what the setup started."""
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
    """Every cell by its name; those that are not kept yet are trained, one after the other."""
    found = look_up(cells, store, note)
    shop = Workshop()
    try:
        for number, cell in enumerate(cells, start=1):
            if cell.name not in found:
                twin = same_training(cell, found.values())
                kept = twin or _train(cell, store, options, shop, command, note, show)
                store.write(cell, kept)
                note(f"{number} of {len(cells)}: {_said(cell, kept)}")
                found[cell.name] = kept
    finally:
        shop.close()
    return found


def look_up(cells: Sequence[Cell], store: Store, note: Note = print) -> dict[str, Kept]:
    """The cells that are kept, and those that another one's training makes known; no training.

    A policy of which a cell is lacking has to be there.
    """
    read = {cell.name: store.read(cell) for cell in cells}
    found = {name: kept for name, kept in read.items() if kept is not None}
    lacking = [cell for cell in cells if cell.name not in found]
    for policy in dict.fromkeys(cell.policy for cell in lacking):
        make_policy(policy)
    for cell in lacking:
        kept = same_training(cell, found.values())
        if kept is not None:
            store.write(cell, kept)
            note(_said(cell, kept))
            found[cell.name] = kept
    return found


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
    """Train one cell from the start or from where it was stopped."""
    scenario, run = cell.column.load(), store.runs / cell.name
    fresh = not run.exists()
    if not fresh:
        held = read_run(run)
        if held.scenario != scenario:
            raise InputError(f"{run}: was started under other settings; remove it")
    else:
        start_run(run, scenario, cell.policy, cell.seed, command, options)
    began = time.monotonic()
    rounds = scenario.rounds.global_rounds
    with show(cell, rounds) if show is not None else nullcontext() as progress:
        carry_on(
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
        "train_wall_s": time.monotonic() - began,
    }
    kept = keep_run(cell, run, about)
    try:
        shutil.rmtree(run)
    except OSError as error:
        raise FedrtError(f"{run}: cannot be removed: {error.strerror}") from None
    return kept
