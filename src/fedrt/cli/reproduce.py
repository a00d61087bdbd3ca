"""`fedrt reproduce`: the paper's table and figures made again, beside the paper's own numbers."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrt.cli.parser import Commands, Parser, add_command, read_list, read_seeds, typed_command
from fedrt.cli.run import add_training, note, read_options
from fedrt.errors import InputError

if TYPE_CHECKING:
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
)
DTYPES = ("bfloat16", "float32", "float64")
CHECKPOINT_EVERY = 25


def add(commands: Commands[Parser]) -> None:
    """Put the command on the command line."""
    text = "make the paper's table and figures again, beside the paper's own numbers"
    parser = add_command(commands, "reproduce", run, text)
    parser.add_argument("what", choices=(*NAMES, "all"), help="what to make")
    parser.add_argument("--seeds", default="0,1,2", metavar="0,1,...", help="default: 0,1,2")
    parser.add_argument("--only", metavar="A,B,...", help="only these columns, as cifar10-iid")
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
    """Train what is missing, then write and print what was asked for."""
    from fedrt.experiments.carry_out import Store, carry_out, look_up
    from fedrt.experiments.cells import WHAT, cells_of, choose_columns

    seeds = read_seeds(args.seeds)
    options = replace(read_options(args), checkpoint_every=CHECKPOINT_EVERY, device_rows=False)
    prepare = _preparation(args)
    names = NAMES if args.what == "all" else (args.what,)
    only = read_list(args.only, "--only") if args.only else []
    every = {c.name: c for name in names for c in WHAT[name][0]}
    chosen = {c.name for c in choose_columns(list(every.values()), only)}
    out = Path(args.out or ("runs/quick" if args.quick else "results"))
    store = Store(out)
    for folder in args.merge:
        taken = store.merge(Path(folder))
        note(f"took {len(taken)} cells from {folder}")
    prepared = {name: prepare(column) for name, column in every.items()}
    wanted: dict[str, Cell] = {}
    for name in names:
        columns, policies = WHAT[name]
        own = [prepared[c.name] for c in columns if c.name in chosen]
        for cell in cells_of(own, _policies(policies, args), seeds):
            wanted.setdefault(cell.name, cell)
    cells = list(wanted.values())
    if args.no_training:
        found = look_up(cells, store, note)
        if not found:
            raise InputError(f"{out}: none of these cells is there; leave out --no-training")
        if len(found) < len(cells):
            note(f"{len(cells) - len(found)} of {len(cells)} cells are not there yet")
    else:
        try:
            found = carry_out(cells, store, options, command=typed_command(), note=note, show=_show)
        except KeyboardInterrupt:
            note("stopped; the same command goes on from here")
            raise
    for name in names:
        columns = tuple(prepared[c.name] for c in WHAT[name][0] if c.name in chosen)
        _make(name, _Shown(columns, _policies(WHAT[name][1], args), seeds, found, out))
    print(f"saved in {out}")


def _policies(usual: tuple[str, ...], args: argparse.Namespace) -> list[str]:
    return list(dict.fromkeys((*usual, *args.policies)))


def _preparation(args: argparse.Namespace) -> Any:
    """What is done to a column before it is trained."""
    from fedrt.experiments.cells import in_brief, in_full

    if args.quick:
        if args.dtype:
            raise InputError("--dtype: not with --quick")
        return in_brief
    dtype = args.dtype or DTYPES[0]
    if dtype not in DTYPES:
        raise InputError(f"--dtype {dtype!r}: must be one of {', '.join(DTYPES)}")
    return lambda column: in_full(column, dtype)


@dataclass(frozen=True)
class _Shown:
    """What a table or figure is made from."""

    columns: tuple[Column, ...]
    policies: list[str]
    seeds: list[int]
    found: dict[str, Kept]
    out: Path


def _make(name: str, shown: _Shown) -> None:
    """One table or figure from the cells, in all its forms."""
    texts = {"table": _make_table, "choices": _make_choices, "beyond": _make_beyond}
    if name in texts:
        texts[name](shown)
        return
    from fedrt.report import reproduction_figures as draw
    from fedrt.report.figures import save_figure

    policies, seeds, found = shown.policies, shown.seeds, shown.found
    pictures = {
        "fig-convergence": lambda: draw.convergence_figures(policies, seeds, found),
        "fig-energy": lambda: {name: draw.energy_figure(policies, seeds, found)},
        "fig-noniid": lambda: {name: draw.non_iid_figure(seeds, found)},
        "fig-basegraph": lambda: {name: draw.base_graph_figure(seeds, found)},
    }
    for stem, figure in pictures[name]().items():
        save_figure(figure, shown.out, stem, ("svg", "pdf", "png"))
        print(f"{shown.out / stem}.svg, .pdf, .png")


def _make_table(shown: _Shown) -> None:
    from fedrt.experiments.table import csv_rows, table_rows
    from fedrt.files import write_csv, write_text
    from fedrt.report.reproduction import latex_table, markdown_table, print_table

    rows = table_rows(shown.columns, shown.policies, shown.seeds, shown.found)
    write_text(shown.out / "table.md", markdown_table(rows))
    write_text(shown.out / "table.tex", latex_table(rows))
    write_csv(shown.out / "table.csv", csv_rows(rows))
    print_table(rows)


def _make_choices(shown: _Shown) -> None:
    from fedrt.experiments.cells import BY_CLASS
    from fedrt.experiments.choices import plan_choices
    from fedrt.experiments.table import table_rows
    from fedrt.files import write_text
    from fedrt.report.reproduction import markdown_choices

    other = {column.name for column in BY_CLASS}
    usual = [c for c in shown.columns if c.name not in other]
    by_class = [c for c in shown.columns if c.name in other]
    planned = plan_choices(usual, shown.seeds[0], shown.found)
    text = markdown_choices(planned, table_rows(by_class, ["fedrt"], shown.seeds, shown.found))
    write_text(shown.out / "choices.md", text)
    print(text)


def _make_beyond(shown: _Shown) -> None:
    from fedrt.experiments.beyond import pairs
    from fedrt.files import write_text
    from fedrt.report.reproduction import markdown_beyond

    held = pairs(shown.columns, shown.policies, shown.seeds, shown.found)
    text = markdown_beyond(held)
    write_text(shown.out / "beyond.md", text)
    print(text)


def _show(cell: Cell, rounds: int) -> Any:
    from fedrt.report.progress import cell_progress

    return cell_progress(cell.name, rounds)
