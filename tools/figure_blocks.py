"""The blocks of README.md and docs/ that are made whole from the results (`figures.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import bench_blocks
import gap_blocks
import gossip_blocks
import joint_blocks
import law_blocks
import law_world_blocks
import learned_blocks
import plus_blocks
import provenance_blocks
import settings_page
import testbed_blocks
import training_blocks
from figure_sources import MEASURED, cell, is_there, measured
from results_tables import readme_table, table_rows, whole_table

from fedrt.experiments.cells import BASE_GRAPHS, COMPLETE, SEEDS, WHAT, cells_of

NAMED = 4
"""So many cells that lack are named, more are counted."""
MADE = {
    "table": "table",
    "fig-noniid": "figure of few labels",
    "fig-basegraph": "figure of base graphs",
    "choices": "what the paper leaves open",
    "beyond": "`fedrt-plus` against `fedrt`",
}


def cells() -> str:
    """How many cells of each table and figure are there for three seeds, and which lack."""
    lines = ["| | cells of seeds 0, 1, 2 | lacking |", "|---|---|---|"]
    for what, words in MADE.items():
        every = [each.name for each in cells_of(*WHAT[what], SEEDS)]
        lacking = [name for name in every if not is_there(name)]
        named = ", ".join(f"`{name}`" for name in lacking)
        if len(lacking) > NAMED:
            seeds = sorted({int(name.rpartition("-")[2]) for name in lacking})
            named = f"{len(lacking)}, of seeds {', '.join(map(str, seeds))}"
        lines.append(f"| {words} | {len(every) - len(lacking)} of {len(every)} | {named} |")
    return _text(lines)


def base_graphs() -> str:
    """Accuracy and hours of FedRT over base graphs, seed 0."""
    heads = [column.name.rpartition("-")[2] for column in BASE_GRAPHS if "femnist" in column.name]
    lines = ["| p | " + " | ".join([*heads, "1"]) + " |", "|---" * (len(heads) + 2) + "|"]
    for full in COMPLETE:
        graphs = [c for c in BASE_GRAPHS if c.name.startswith(f"{full.name}-links")]
        cells = [cell(f"{column.name}/fedrt-0") for column in (*graphs, full)]
        late, hours = ([f"{getattr(c, q):.1f}" for c in cells] for q in ("late", "time_h"))
        lines += [f"| {full.title}, % | {' | '.join(late)} |", f"| hours | {' | '.join(hours)} |"]
    return _text(lines)


def control() -> str:
    """Times of one decision, and of solvers on the same problems."""
    data = measured("control")
    against = data["allocation, 8 edges x 9 devices, against CVXPY/Clarabel"]
    many = data["allocation at scale, 100 devices an edge"]["1000000_devices"]
    links = data["links, exact and greedy"]
    small = data["fedrt-plus, one decision, 8 edges x 9 devices"]
    large = data["fedrt-plus, one decision, 500 edges x 200 devices"]
    coded = measured("control_joint")
    few = coded["fedrt-joint, one decision, 8 edges x 9 devices"]
    many_coded = coded["fedrt-joint, one decision, 500 edges x 200 devices"]

    def ms(each: Any, digits: int) -> str:
        return f"{1000 * each.median_s:.{digits}f}"

    solver = (
        f"{ms(against.cvxpy_joint, 1)} ms as one problem,"
        f" {ms(against.cvxpy_one_by_one, 0)} ms cluster by cluster"
    )
    ratio = f"{against.times_faster_than_joint:.0f}, {against.times_faster_than_one_by_one:.0f}"
    servers = [
        f"| links, exact / greedy, {n} servers |"
        f" {ms(links[f'{n}_servers'].exact, d)} / {ms(links[f'{n}_servers'].greedy, e)} ms | | |"
        for n, d, e in ((8, 3, 2), (500, 0, 0))
    ]
    return _text(
        [
            "| | ours | CVXPY with Clarabel, parametrised | ratio |",
            "|---|---|---|---|",
            f"| allocation, 8 edges x 9 devices | {ms(against.fedrt, 3)} ms | {solver} | {ratio} |",
            f"| allocation, 10,000 edges x 100 devices | {many.median_s:.2f} s,"
            f" {many.peak_rss_mb:.0f} MB | | |",
            *servers,
            f"| `fedrt-plus`, a whole decision, 8 edges x 9 devices |"
            f" {ms(small.earlier_edge_round, 1)} ms, {ms(small.last_edge_round, 1)} with links"
            " (aim 5) | | |",
            f"| the same, 500 edges x 200 devices | {large.earlier_edge_round.median_s:.2f} s,"
            f" {large.last_edge_round.median_s:.2f} with links (aim 1) | | |",
            f"| `fedrt-joint`, a whole decision, 8 edges x 9 devices |"
            f" {ms(few.earlier_edge_round, 1)} ms, {ms(few.last_edge_round, 1)} with links"
            " (aim 10) | | |",
            f"| the same, 500 edges x 200 devices | {many_coded.earlier_edge_round.median_s:.2f} s,"
            f" {many_coded.last_edge_round.median_s:.2f} with links (aim 2) | | |",
        ]
    )


SIDES = {
    "fedrt": ("ours, `stacked`, two processes", ""),
    "pfl-2-channels-last": ("pfl 0.6, two processes, channels-last", "1.15"),
    "flower-channels-last": ("Flower 1.41's simulation, channels-last", "1.5"),
    "fedrt-plain": ("`sequential` in two processes", "1"),
    "fedrt-sequential": ("`sequential`, two threads", "1"),
}
"""The sides of the benchmark beside others, with the ratio that is the aim."""


def peers(name: str) -> str:
    """A round of training beside others, from the file of that name."""
    sides = measured(name).sides
    lines = ["| | s, median (quartiles) | turns | times ours | aim |", "|---|---|---|---|---|"]
    for each in [
        *(known for known in SIDES if known in sides),
        *(s for s in sides if s not in SIDES),
    ]:
        side, (words, asked) = sides[each], SIDES.get(each, (f"`{each}`", ""))
        times = "1" if each == "fedrt" else f"{side.times_fedrt:.2f}"
        spread = f"{side.median_s:.2f} ({side.q1_s:.2f} to {side.q3_s:.2f})"
        lines.append(f"| {words} | {spread} | {side.n} | {times} | {asked} |")
    return _text([*lines, "", _busy(measured(name))])


def _busy(data: Any) -> str:
    """How busy the machine was, and which priority the sides had: what a table must not hide."""
    load = data.environment["load_average"][0] if "environment" in data else data.load_before
    nice = data.config["nice"]
    priority = "the usual priority" if nice is None else f"`nice {nice}`"
    return f"Load average of the machine when it began: {load:.0f}; all sides with {priority}."


FORMS = {
    "plain": "the module itself, as `sequential`",
    "channels-last": "the module itself, channels last",
    "grouped": "grouped convolutions of the library",
    "rows": "matrix products by rows",
    "direct": "direct convolutions of our own",
}


def forms() -> str:
    """A local step in every form, in the chunk that suits it best."""
    lines = ["| form | ms, chunk: EPYC | the same as AVX2, emulated |", "|---|---|---|"]
    for form, words in FORMS.items():
        best = []
        for file in ("forms-epyc", "forms-epyc-avx2"):
            rows = measured(file).step
            keys = [key for key in rows if key.startswith(f"{form},") and "threads" not in key]
            key = min(keys, key=lambda key: rows[key].median_s)
            best.append(f"{1000 * rows[key].median_s:.1f}, {key.rpartition(' ')[2]}")
        lines.append(f"| {words} | {' | '.join(best)} |")
    return _text(lines)


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


BLOCKS: dict[str, Callable[[], str]] = {
    "table-in-brief": lambda: readme_table(table_rows()),
    "table": lambda: whole_table(table_rows()),
    "gossip-left": gossip_blocks.gossip_left,
    "gossip-seldom": gossip_blocks.gossip_seldom,
    "gossip-trained": gossip_blocks.gossip_trained,
    "femnist-methods": training_blocks.femnist_methods,
    "few-labels": training_blocks.few_labels,
    "law-effects": law_blocks.law_effects,
    "testbed-policies": testbed_blocks.policies,
    "testbed-errors": testbed_blocks.errors,
    "testbed-second": testbed_blocks.second,
    "joint-bound": joint_blocks.joint_bound,
    "environment": learned_blocks.environment,
    "learned": learned_blocks.learned,
    "plus-said": plus_blocks.plus_said,
    "plus-table": plus_blocks.plus_table,
    "plus-in-table": plus_blocks.plus_in_table,
    "bound-by-seed": plus_blocks.bound_by_seed,
    "bound-notes": plus_blocks.bound_notes,
    "bound-table": plus_blocks.bound_table,
    "held-out": plus_blocks.held_out,
    "law-bounds": law_world_blocks.law_bounds,
    "law-runs": law_world_blocks.law_runs,
    "random-worlds": plus_blocks.random_worlds,
    "beyond-worlds": plus_blocks.beyond_worlds,
    "beyond-parts": plus_blocks.beyond_parts,
    "beyond-slower": plus_blocks.beyond_slower,
    "beyond-trained": plus_blocks.beyond_trained,
    "beyond-trained-said": plus_blocks.beyond_trained_said,
    "cells": cells,
    "settings": settings_page.settings,
    "base-graphs": base_graphs,
    "control": control,
    "forms": forms,
    **bench_blocks.BLOCKS,
    **gap_blocks.BLOCKS,
    **provenance_blocks.BLOCKS,
    **{path.stem: partial(peers, path.stem) for path in MEASURED.glob("peers*.json")},
}
