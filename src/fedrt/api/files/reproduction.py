"""`fedrt.reproduce`: the paper's table and figures, reproduced beside its own numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from fedrt.api.asked import (
    Objects,
    PolicyLike,
    Seeds,
    TrainingOptions,
    check_list,
    read_options,
    read_policy,
    read_seeds,
)
from fedrt.api.files import NAMES
from fedrt.api.folders import Place
from fedrt.api.session import command_text, note
from fedrt.errors import InputError
from fedrt.experiments.carry_out import Store, carry_out, look_up, take_over
from fedrt.experiments.cells import (
    DTYPES,
    OTHERWISE,
    WHAT,
    Cell,
    Column,
    cells_of,
    choose_columns,
    in_brief,
    in_full,
)
from fedrt.records.options import RunOptions
from fedrt.system.extras import need
from fedrt.system.plugins import offered

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedrt.experiments.kept import Kept

WITH_POLICIES = ("table", "fig-convergence", "fig-energy", "beyond", "joint")
"""The tables and figures that show policies added by `policies`."""
CHECKPOINT_EVERY = 10
RESULTS = "results"
NO_CELLS = (
    f"{RESULTS}: is not here: the trained cells come with the repository; stand in a clone of it,"
    f" or name its folder, `out` CLONE/{RESULTS}; `quick` trains small ones in minutes, and another"
    " `out` trains all of them anew, for hours on a GPU"
)
FEW = 12
"""The number of missing cells that are named; further ones are counted."""


@dataclass(frozen=True)
class Made:
    """One table or figure that was made: its files, and its text or rows if it has any."""

    name: str
    files: tuple[Path, ...]
    text: str | None = None
    rows: Sequence[Any] | None = None


@dataclass(frozen=True)
class Reproduction:
    """What was reproduced: the folder of cells, tables and figures, and what was made there."""

    folder: Path
    cells: int
    """The cells that are there."""
    asked: int
    """The cells that what was asked for shows."""
    made: tuple[Made, ...]


def reproduce(
    what: str,
    *,
    seeds: Seeds = "0,1,2",
    only: str | Sequence[str] | None = None,
    cells: str | Sequence[str] | None = None,
    policies: Sequence[PolicyLike] = (),
    quick: bool = False,
    dtype: str | None = None,
    out: Place | None = None,
    merge: Sequence[Place] = (),
    train: bool = True,
    progress: bool = True,
    **training: Unpack[TrainingOptions],
) -> Reproduction:
    """Train missing cells, then write the paper's table and figures: `fedrt reproduce`.

    `what` is one of `NAMES` or `all`. `cells` trains the named cells alone and makes nothing;
    `merge` takes over cells from other folders; without `train` what is there is shown.
    """
    if what not in (*NAMES, "all"):
        raise InputError(f"`what` {what!r}: must be one of {', '.join((*NAMES, 'all'))}")
    names, objects = NAMES if what == "all" else (what,), Objects()
    more = [read_policy(each, objects) for each in policies]
    if more and not set(names) & set(WITH_POLICIES):
        raise InputError(f"`policy`: {what} shows none; {', '.join(WITH_POLICIES)} do")
    if train:
        need("training", "torch")
    options = replace(
        read_options(training),
        checkpoint_every=1 if quick else CHECKPOINT_EVERY,
        device_rows=False,
    )
    prepare = _preparation(quick, dtype)
    shown = _chosen(names, read_seeds(seeds), _words(only, "only"), more, prepare)
    wanted = _cells(shown)
    if cells is not None:
        wanted = _named(wanted, _words(cells, "cells"))
    if not (quick or out or merge or not train or Path(RESULTS).is_dir()):
        raise InputError(NO_CELLS)
    folder = Path(out or ("runs/quick" if quick else RESULTS))
    store = Store(folder)
    with offered(objects.found):
        if merge:
            take_over([Path(each) for each in merge], wanted, store, note)
        found = _found(wanted, store, options, train, progress)
        made: tuple[Made, ...] = ()
        if cells is None:
            made = _make_all(shown, found, folder)
    return Reproduction(folder, len(found), len(wanted), made)


def _found(
    wanted: Sequence[Cell], store: Store, options: RunOptions, train: bool, progress: bool
) -> dict[str, Kept]:
    """The cells by their names, those that lack trained unless only what is there counts."""
    if not train:
        found = look_up(wanted, store, note)
        if not found:
            folder = store.cells.parent
            raise InputError(f"{folder}: none of these cells is there; train them")
        _tell_lacking([cell.name for cell in wanted if cell.name not in found], len(wanted))
        return found
    show = _show if progress else None
    try:
        return carry_out(
            wanted, store, options, command=command_text("reproduce"), note=note, show=show
        )
    except KeyboardInterrupt:
        note("stopped; the same command goes on from here")
        raise


def _make_all(
    shown: Mapping[str, _Shown], found: dict[str, Kept], folder: Path
) -> tuple[Made, ...]:
    made = {name: _make(name, each, found, folder) for name, each in shown.items()}
    if not any(made.values()):
        raise InputError(f"{folder}: has too few cells to show any of it; train more")
    for name, each in made.items():
        if each is None:
            note(f"{name}: none of the cells it shows is there; left as it was")
    return tuple(each for each in made.values() if each is not None)


@dataclass(frozen=True)
class _Shown:
    """What a table or figure shows."""

    columns: tuple[Column, ...]
    policies: list[str]
    seeds: list[int]


def _words(given: str | Sequence[str] | None, name: str) -> list[str]:
    """The words of a list, or of a comma-separated text."""
    if given is None:
        return []
    words = [word.strip() for word in given.split(",")] if isinstance(given, str) else list(given)
    return check_list(words, ",".join(words), name)


def _chosen(
    names: Sequence[str],
    seeds: list[int],
    only: list[str],
    more: Sequence[str],
    prepare: Callable[[Column], Column],
) -> dict[str, _Shown]:
    """What each table or figure is to show."""
    every = {c.name: c for name in names for c in WHAT[name][0]}
    prepared = {c.name: prepare(c) for c in choose_columns(list(every.values()), only)}
    shown = {}
    for name in names:
        columns, policies = WHAT[name]
        added = more if name in WITH_POLICIES else ()
        own = tuple(prepared[c.name] for c in columns if c.name in prepared)
        shown[name] = _Shown(own, list(dict.fromkeys((*policies, *added))), seeds)
    return shown


def _cells(shown: Mapping[str, _Shown]) -> list[Cell]:
    """All cells that are needed, each once."""
    every = [
        c for each in shown.values() for c in cells_of(each.columns, each.policies, each.seeds)
    ]
    return list({cell.name: cell for cell in every}.values())


def _named(cells: Sequence[Cell], patterns: Sequence[str]) -> list[Cell]:
    """The cells whose names match one of these names or patterns."""
    unknown = [p for p in patterns if not any(fnmatchcase(cell.name, p) for cell in cells)]
    if unknown:
        raise InputError(
            f"`cells` {p!r}: fits none of the cells, as {cells[0].name}" for p in unknown
        )
    return [cell for cell in cells if any(fnmatchcase(cell.name, p) for p in patterns)]


def _tell_lacking(names: list[str], count: int) -> None:
    if names:
        which = f": {', '.join(names)}" if len(names) <= FEW else ""
        note(f"{len(names)} of {count} cells are not there yet{which}")


def _preparation(quick: bool, dtype: str | None) -> Callable[[Column], Column]:
    """How a column is changed before it is trained."""
    if quick:
        if dtype:
            raise InputError("`dtype`: not with `quick`")
        return in_brief
    chosen = dtype or DTYPES[0]
    if chosen not in DTYPES:
        raise InputError(f"`dtype` {chosen!r}: must be one of {', '.join(DTYPES)}")
    return lambda column: in_full(column, chosen)


def _make(name: str, shown: _Shown, found: dict[str, Kept], out: Path) -> Made | None:
    """Write one table or figure in all its forms; None if it would be empty."""
    texts: dict[str, Callable[[_Shown, dict[str, Kept], Path], Made | None]] = {
        "table": _make_table,
        "choices": _make_choices,
        "beyond": partial(_make_beyond, "beyond"),
        "joint": partial(_make_beyond, "joint"),
    }
    if name in texts:
        return texts[name](shown, found, out)
    from fedrt.report import reproduction_figures as draw
    from fedrt.report.figures import save_figure

    policies, seeds = shown.policies, shown.seeds
    pictures: dict[str, Callable[[], dict[str, Figure | None]]] = {
        "fig-convergence": lambda: {**draw.convergence_figures(policies, seeds, found)},
        "fig-energy": lambda: {name: draw.energy_figure(policies, seeds, found)},
        "fig-noniid": lambda: {name: draw.non_iid_figure(seeds, found)},
        "fig-basegraph": lambda: {name: draw.base_graph_figure(seeds, found)},
    }
    endings = ("svg", "pdf", "png")
    files: list[Path] = []
    for stem, figure in pictures[name]().items():
        if figure is not None:
            save_figure(figure, out, stem, endings)
            files += [out / f"{stem}.{ending}" for ending in endings]
    return Made(name, tuple(files)) if files else None


def _make_table(shown: _Shown, found: dict[str, Kept], out: Path) -> Made | None:
    from fedrt.experiments.table import csv_rows, table_rows
    from fedrt.report.reproduction import latex_table, markdown_table
    from fedrt.system.files import write_csv, write_text

    rows = table_rows(shown.columns, shown.policies, shown.seeds, found)
    if not rows:
        return None
    files = tuple(out / f"table.{ending}" for ending in ("md", "tex", "csv"))
    text = markdown_table(rows)
    write_text(files[0], text)
    write_text(files[1], latex_table(rows))
    write_csv(files[2], csv_rows(rows))
    return Made("table", files, text, rows)


def _make_choices(shown: _Shown, found: dict[str, Kept], out: Path) -> Made | None:
    from fedrt.experiments.choices import plan_choices, trained_otherwise
    from fedrt.report.reproduction import markdown_choices
    from fedrt.system.files import write_text

    other = {column.name for column in OTHERWISE}
    usual = [c for c in shown.columns if c.name not in other]
    planned = plan_choices(usual, shown.seeds, found)
    otherwise = [c for c in shown.columns if c.name in other]
    trained = trained_otherwise(otherwise, shown.seeds, found)
    if not planned and not trained:
        return None
    text = markdown_choices(planned, trained)
    write_text(out / "choices.md", text)
    return Made("choices", (out / "choices.md",), text)


def _make_beyond(name: str, shown: _Shown, found: dict[str, Kept], out: Path) -> Made | None:
    from fedrt.experiments.beyond import pairs
    from fedrt.report.reproduction import markdown_beyond
    from fedrt.system.files import write_text

    held = pairs(shown.columns, shown.policies, shown.seeds, found)
    if not held:
        return None
    text, file = markdown_beyond(held), out / f"{name}.md"
    write_text(file, text)
    return Made(name, (file,), text)


def _show(cell: Cell, rounds: int) -> Any:
    from fedrt.report.progress import cell_progress

    return cell_progress(cell.name, rounds)
