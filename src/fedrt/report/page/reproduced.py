"""The reproduced table and figures for the page, from the cells that are there."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedrt.errors import InputError
from fedrt.experiments.cells import (
    BASE_GRAPHS,
    COMPLETE,
    LABELS_PER_CLUSTER,
    LINK_PROBABILITIES,
    NON_IID,
    Column,
    to_compare,
)
from fedrt.experiments.paper import paper_value
from fedrt.experiments.table import Figure, Row, table_rows
from fedrt.report.page.cells import FoundCells, known_columns, origins, read_cells, stock
from fedrt.report.page.curves import seeds_curves
from fedrt.report.page.encode import number
from fedrt.scenario import Scenario
from fedrt.scenario.tables.fields import read_table
from fedrt.studies.labels import style_numbers
from fedrt.world.fleet import budget_range

CURVES = ("accuracy", "loss", "energy_j_mean")
SPARSE = [3, 3]
"""The dash of lines that stand beside a solid one of the same colour."""


def read_reproduced(folder: Path, problems: list[str]) -> dict[str, Any]:
    """The page's data of a folder of `fedrt reproduce`."""
    found = read_cells(folder, problems)
    if not found:
        raise InputError(
            f"{folder / 'cells'}: holds no cell that reads; fedrt reproduce makes them"
        )
    known = {name: column for name, (column, _) in known_columns().items()}
    names = {name.partition("/")[0] for name in found}
    columns = [known[name] for name in known if name in names]
    columns += [Column(name, name, "") for name in sorted(names - set(known))]
    only_accuracy = {column.name for column in (*NON_IID, *BASE_GRAPHS)}
    return {
        "kind": "reproduced",
        "folder": str(folder),
        "scenario": "The paper's table and figures",
        "columns": [_column(c, found) for c in columns if c.name not in only_accuracy],
        "groups": [group for group in (_few_labels(found), _base_graphs(found)) if group["panels"]],
        "stock": stock(folder, found),
        "origins": origins(found),
    }


def _column(column: Column, found: FoundCells) -> dict[str, Any]:
    """One column of the table: its rows, the paper's, and its curves."""
    own = [kept for name, kept in found.items() if name.startswith(f"{column.name}/")]
    rounds, seeds = len(own[0].distance), sorted({kept.about["seed"] for kept in own})
    styles = style_numbers(kept.about["policy"] for kept in own)
    order = sorted(styles, key=styles.__getitem__)
    scenario = _scenario(own[0].about["scenario"])
    # As many rounds as were trained: the paper's time and energy are scaled to them.
    as_trained = replace(column, settings=(f"rounds.global_rounds={rounds}",))
    return {
        "title": column.title,
        "rounds": rounds,
        "seeds": seeds,
        "rows": [_row(row, styles) for row in table_rows([as_trained], order, seeds, found)],
        "lines": [
            line | {"budget_j": None if scenario is None else budget_range(scenario)}
            for line in _lines(
                {(policy, styles[policy]): (column, policy) for policy in order},
                found,
                CURVES,
            )
        ],
        "paper_accuracy": _share(paper_value("fedrt", column.name, "accuracy")),
    }


def _scenario(text: str) -> Scenario | None:
    """The scenario of a cell, if this version can read it."""
    problems: list[str] = []
    try:
        return read_table(Scenario, tomllib.loads(text), "scenario", problems)
    except tomllib.TOMLDecodeError:
        return None


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _row(row: Row, styles: Mapping[str, int]) -> dict[str, Any]:
    there = [each for each in row.reached if each is not None]
    reached = {
        "seeds": len(there),
        "time_h": sum(each[0] for each in there) / len(there) if there else None,
        "energy_j": sum(each[1] for each in there) / len(there) if there else None,
    }
    return {
        "policy": row.policy,
        "style": styles[row.policy],
        "seeds": list(row.seeds),
        "time_h": _figure(row.time),
        "energy_j": _figure(row.energy),
        "accuracy_percent": _figure(row.accuracy),
        "saving": None if row.saving is None else _figure(row.saving),
        "reached": None if row.accuracy.paper is None else reached,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "mean": number(figure.mean),
        "std": number(figure.std),
        "n": len(figure.ours),
        "paper": figure.paper,
    }


def _lines(
    lines: Mapping[tuple[str, int], tuple[Column, str]], found: FoundCells, names: Sequence[str]
) -> list[dict[str, Any]]:
    """The lines of policies in columns, each over the seeds that all of them have."""
    seeds = sorted({kept.about["seed"] for kept in found.values()})
    return [
        {
            "label": label,
            "style": look,
            "seeds": [cell.seed for cell in cells],
            "curves": seeds_curves([found[cell.name].rounds for cell in cells], names),
        }
        for (label, look), cells in to_compare(lines, seeds, found).items()
    ]


def _few_labels(found: FoundCells) -> dict[str, Any]:
    """Accuracy with few labels per cluster: FedRT, and Static-T with the full graph."""
    who = {"fedrt": ("FedRT", "solid"), "static-t": ("Static-T", SPARSE)}
    panels: dict[str, list[dict[str, Any]]] = {}
    for column in NON_IID:
        labels = int(column.name.rpartition("-")[2])
        place = LABELS_PER_CLUSTER.index(labels)
        named = {f"{labels} labels, {name}": (policy, dash) for policy, (name, dash) in who.items()}
        lines = {(label, place): (column, policy) for label, (policy, _) in named.items()}
        for line in _lines(lines, found, ("accuracy",)):
            title = column.title.partition(",")[0]
            panels.setdefault(title, []).append(line | {"dash": named[line["label"]][1]})
    return {"title": "Few labels in a cluster", "panels": _panels(panels)}


def _base_graphs(found: FoundCells) -> dict[str, Any]:
    """Accuracy of FedRT on base graphs from sparse to complete, if there is a sparse one."""
    sparse = {column.name: column for column in BASE_GRAPHS}
    panels = {}
    for complete in COMPLETE:
        columns = [sparse[f"{complete.name}-links-{p}"] for p in LINK_PROBABILITIES]
        graphs = zip((*LINK_PROBABILITIES, 1.0), (*columns, complete), strict=True)
        wanted = {
            (f"p = {p:g}", place): (column, "fedrt") for place, (p, column) in enumerate(graphs)
        }
        lines = _lines(wanted, found, ("accuracy",))
        if any(line["style"] < len(columns) for line in lines):
            panels[complete.title] = lines
    return {"title": "Base graphs with fewer links", "panels": _panels(panels)}


def _panels(lines: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"title": title, "lines": own} for title, own in lines.items()]
