"""The numbers printed in the paper's table."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

QUANTITIES = ("time", "energy", "accuracy")
METHODS = ("fedrt", "static-r", "static-t", "ce-fedavg", "mll-sgd")
BASELINES = METHODS[1:]


@cache
def _table() -> dict[str, Any]:
    file = Path(__file__).parent / "paper_table.json"
    table: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return table


def paper_value(method: str, column: str, quantity: str) -> float | None:
    """The paper's hours, joules per device, or percent; None if it has no such value."""
    table = _table()
    if method not in table["methods"] or column not in table["columns"]:
        return None
    place = table["columns"].index(column)
    return float(table["methods"][method][quantity][place])


def paper_saving(baseline: str, column: str) -> float | None:
    """The share of a baseline's time that the paper's FedRT saves."""
    ours, theirs = paper_value("fedrt", column, "time"), paper_value(baseline, column, "time")
    return None if ours is None or theirs is None else 1 - ours / theirs
