"""The table of README.md and docs/reproduction.md, from results/table.csv."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from fedrt.errors import InputError, reason
from fedrt.experiments.cells import ROWS, SEEDS

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "results" / "table.csv"
COLUMNS = {
    "cifar10-iid": "CIFAR-10 IID",
    "cifar10-dirichlet": "CIFAR-10 Dirichlet",
    "fmnist-iid": "FMNIST IID",
    "fmnist-dirichlet": "FMNIST Dirichlet",
    "femnist": "FEMNIST",
}
QUANTITIES = {"time_h": (".2f", "h"), "energy_j": (".0f", "J"), "accuracy_percent": (".2f", "%")}
FEWER = {1: "†", 2: "‡"}

Rows = Mapping[tuple[str, str], Mapping[str, str]]


def readme_table(rows: Rows) -> str:
    """Hours of every method; joules and accuracy of FedRT and of our own policy."""
    wide = {policy: tuple(QUANTITIES) for policy in ("fedrt", "fedrt-plus")}
    return _table(rows, [(p, q) for p in ROWS for q in wide.get(p, ("time_h",))])


def whole_table(rows: Rows) -> str:
    """All hours, then all joules, then all accuracies."""
    return _table(rows, [(policy, quantity) for quantity in QUANTITIES for policy in ROWS])


def _table(rows: Rows, lines: list[tuple[str, str]]) -> str:
    text = ["| | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    last = ""
    for policy, quantity in lines:
        name = "" if policy == last else f"`{policy}` "
        cells = [_cell(rows[column, policy], quantity) for column in COLUMNS]
        text.append(f"| {name}| " + " | ".join(cells) + " |")
        last = policy
    there = {_count(row) for row in rows.values()}
    marks = [f"{FEWER[n]} {n} seed{'s' if n > 1 else ''}" for n in sorted(FEWER) if n in there]
    if marks:
        text += ["", f"{', '.join(marks)}; the rest {len(SEEDS)}."]
    return "\n".join(text) + "\n"


def _count(row: Mapping[str, str]) -> int:
    return len(row["seeds"].split())


def _cell(row: Mapping[str, str], quantity: str) -> str:
    digits, unit = QUANTITIES[quantity]
    paper = row[f"{quantity}_paper"]
    beside = f" ({float(paper):{digits}})" if paper else ""
    return f"{float(row[quantity]):{digits}}{FEWER.get(_count(row), '')}{beside} {unit}"


def table_rows() -> Rows:
    """The rows of results/table.csv."""
    return read_rows(TABLE)


def read_rows(path: Path) -> Rows:
    """The rows by column and policy; a complaint where one that the tables show is lacking."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = {(row.get("column"), row.get("policy")): row for row in csv.DictReader(file)}
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    lacking = [f"{c} {policy}" for c in COLUMNS for policy in ROWS if (c, policy) not in rows]
    if lacking:
        raise InputError(f"{path}: lacks {', '.join(lacking)}; fedrt reproduce table makes it")
    fields = ("seeds", *QUANTITIES, *(f"{name}_paper" for name in QUANTITIES))
    if any(row.get(name) is None for row in rows.values() for name in fields):
        raise InputError(f"{path}: lacks some of {', '.join(fields)}")
    return {(str(column), str(policy)): row for (column, policy), row in rows.items()}
