"""`fedrt reproduce`: the paper's table and figures, reproduced beside its own numbers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrt.cli.parser import Commands, Parser, add_command, note, read_list, typed_command
from fedrt.cli.run import add_training, training_options
from fedrt.errors import InputError
from fedrt.system.extras import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedrt.experiments.cells import Cell, Column
    from fedrt.experiments.kept import Kept

NAMES = (
    "table",
    "fig-convergence",
    "fig-energy",
    "fig-noniid",
    "fig-basegraph",
    "choices",
    "beyond",
    "joint",
)
WITH_POLICIES = ("table", "fig-convergence", "fig-energy", "beyond", "joint")
"""The tables and figures that show policies added by --policy."""
CHECKPOINT_EVERY = 10
RESULTS = "results"
NO_CELLS = (
    f"{RESULTS}: is not here: the trained cells come with the repository; stand in a clone of it,"
    f" or name its folder with --out CLONE/{RESULTS}; --quick trains small ones in minutes, and"
    " --out DIR trains all of them anew, for hours on a GPU"
)
FEW = 12
"""The number of missing cells that are named; further ones are counted."""


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "make the paper's table and figures again, beside the paper's own numbers"
    parser = add_command(commands, "reproduce", run, text)
    parser.add_argument("what", choices=(*NAMES, "all"), help="what to make")
    parser.add_argument("--seeds", default="0,1,2", metavar="0,1,...", help="default: 0,1,2")
    parser.add_argument("--only", metavar="A,B,...", help="only these columns, as cifar10-iid")
    parser.add_argument(
        "--cells",
        metavar="A,B,...",
        help="train these cells alone, as cifar10-iid/fedrt-0 or '*/fedrt-1'; show nothing",
    )
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        dest="policies",
        metavar="NAME",
        help="one more row: a name or import path, my_pkg:MyPolicy; may be repeated",
    )
    parser.add_argument("--quick", action="store_true", help="few rounds of a small model, minutes")
    parser.add_argument(
        "--dtype", metavar="T", help="bfloat16 (default), float32 or float64; not with --quick"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="where cells, tables and figures are kept; default: results, or runs/quick",
    )
    parser.add_argument(
        "--merge",
        action="append",
        default=[],
        metavar="DIR",
        help="take over another --out's cells",
    )
    parser.add_argument(
        "--no-training", action="store_true", help="show what is there; train nothing"
    )
    add_training(parser)


def run(args: argparse.Namespace) -> None:
    """Train missing cells, then write and print the chosen tables and figures."""
    from fedrt.api.asked import read_options
    from fedrt.experiments.carry_out import Store, carry_out, look_up, take_over

    names = NAMES if args.what == "all" else (args.what,)
    if args.policies and not set(names) & set(WITH_POLICIES):
        raise InputError(f"--policy: {args.what} shows none; {', '.join(WITH_POLICIES)} do")
    if not args.no_training:
        need("training", "torch")
    every = 1 if args.quick else CHECKPOINT_EVERY
    asked = read_options(training_options(args))
    options = replace(asked, checkpoint_every=every, device_rows=False)
    shown = _chosen(names, args)
    cells = _cells(shown)
    if args.cells is not None:
        cells = _named(cells, read_list(args.cells, "cells"))
    named = args.quick or args.out or args.merge or args.no_training
    if not (named or Path(RESULTS).is_dir()):
        raise InputError(NO_CELLS)
    out = Path(args.out or ("runs/quick" if args.quick else RESULTS))
    store = Store(out)
    if args.merge:
        take_over([Path(folder) for folder in args.merge], cells, store, note)
    if args.no_training:
        found = look_up(cells, store, note)
        if not found:
            raise InputError(f"{out}: none of these cells is there; leave out --no-training")
        _tell_lacking([cell.name for cell in cells if cell.name not in found], len(cells))
    else:
        try:
            found = carry_out(cells, store, options, command=typed_command(), note=note, show=_show)
        except KeyboardInterrupt:
            note("stopped; the same command goes on from here")
            raise
    if args.cells is not None:
        print(f"{len(found)} of {len(cells)} cells are in {store.cells}")
        return
    left = [name for name, each in shown.items() if not _make(name, each, found, out)]
    if len(left) == len(names):
        raise InputError(f"{out}: has too few cells to show any of it; leave out --no-training")
    for name in left:
        note(f"{name}: none of the cells it shows is there; left as it was")
    print(f"saved in {out}")


@dataclass(frozen=True)
class _Shown:
    """What a table or figure shows."""

    columns: tuple[Column, ...]
    policies: list[str]
    seeds: list[int]


def _chosen(names: Sequence[str], args: argparse.Namespace) -> dict[str, _Shown]:
    """What each table or figure is to show, from the options."""
    from fedrt.api.asked import read_seeds
    from fedrt.experiments.cells import WHAT, choose_columns

    seeds, prepare = read_seeds(args.seeds), _preparation(args)
    only = read_list(args.only, "only") if args.only is not None else []
    every = {c.name: c for name in names for c in WHAT[name][0]}
    prepared = {c.name: prepare(c) for c in choose_columns(list(every.values()), only)}
    shown = {}
    for name in names:
        columns, policies = WHAT[name]
        more = args.policies if name in WITH_POLICIES else ()
        own = tuple(prepared[c.name] for c in columns if c.name in prepared)
        shown[name] = _Shown(own, list(dict.fromkeys((*policies, *more))), seeds)
    return shown


def _cells(shown: Mapping[str, _Shown]) -> list[Cell]:
    """All cells that are needed, each once."""
    from fedrt.experiments.cells import cells_of

    every = [
        c for each in shown.values() for c in cells_of(each.columns, each.policies, each.seeds)
    ]
    return list({cell.name: cell for cell in every}.values())


def _named(cells: Sequence[Cell], patterns: Sequence[str]) -> list[Cell]:
    """The cells whose names match one of these names or patterns."""
    unknown = [p for p in patterns if not any(fnmatchcase(cell.name, p) for cell in cells)]
    if unknown:
        raise InputError(
            f"--cells {p!r}: fits none of the cells, as {cells[0].name}" for p in unknown
        )
    return [cell for cell in cells if any(fnmatchcase(cell.name, p) for p in patterns)]


def _tell_lacking(names: list[str], count: int) -> None:
    if names:
        which = f": {', '.join(names)}" if len(names) <= FEW else ""
        note(f"{len(names)} of {count} cells are not there yet{which}")


def _preparation(args: argparse.Namespace) -> Any:
    """How a column is changed before it is trained."""
    from fedrt.experiments.cells import DTYPES, in_brief, in_full

    if args.quick:
        if args.dtype:
            raise InputError("--dtype: not with --quick")
        return in_brief
    dtype = args.dtype or DTYPES[0]
    if dtype not in DTYPES:
        raise InputError(f"--dtype {dtype!r}: must be one of {', '.join(DTYPES)}")
    return lambda column: in_full(column, dtype)


def _make(name: str, shown: _Shown, found: dict[str, Kept], out: Path) -> bool:
    """Write one table or figure in all its forms; False if it would be empty."""
    texts: dict[str, Callable[[_Shown, dict[str, Kept], Path], bool]] = {
        "table": _make_table,
        "choices": _make_choices,
        "beyond": partial(_make_beyond, "beyond.md"),
        "joint": partial(_make_beyond, "joint.md"),
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
    made = False
    for stem, figure in pictures[name]().items():
        if figure is not None:
            save_figure(figure, out, stem, ("svg", "pdf", "png"))
            print(f"{out / stem}.svg, .pdf, .png")
            made = True
    return made


def _make_table(shown: _Shown, found: dict[str, Kept], out: Path) -> bool:
    from fedrt.experiments.table import csv_rows, table_rows
    from fedrt.report.reproduction import latex_table, markdown_table, print_table
    from fedrt.system.files import write_csv, write_text

    rows = table_rows(shown.columns, shown.policies, shown.seeds, found)
    if not rows:
        return False
    write_text(out / "table.md", markdown_table(rows))
    write_text(out / "table.tex", latex_table(rows))
    write_csv(out / "table.csv", csv_rows(rows))
    print_table(rows)
    return True


def _make_choices(shown: _Shown, found: dict[str, Kept], out: Path) -> bool:
    from fedrt.experiments.cells import OTHERWISE
    from fedrt.experiments.choices import plan_choices, trained_otherwise
    from fedrt.report.reproduction import markdown_choices
    from fedrt.system.files import write_text

    other = {column.name for column in OTHERWISE}
    usual = [c for c in shown.columns if c.name not in other]
    planned = plan_choices(usual, shown.seeds, found)
    otherwise = [c for c in shown.columns if c.name in other]
    trained = trained_otherwise(otherwise, shown.seeds, found)
    if not planned and not trained:
        return False
    text = markdown_choices(planned, trained)
    write_text(out / "choices.md", text)
    print(text)
    return True


def _make_beyond(file: str, shown: _Shown, found: dict[str, Kept], out: Path) -> bool:
    from fedrt.experiments.beyond import pairs
    from fedrt.report.reproduction import markdown_beyond
    from fedrt.system.files import write_text

    held = pairs(shown.columns, shown.policies, shown.seeds, found)
    if not held:
        return False
    text = markdown_beyond(held)
    write_text(out / file, text)
    print(text)
    return True


def _show(cell: Cell, rounds: int) -> Any:
    from fedrt.report.progress import cell_progress

    return cell_progress(cell.name, rounds)
