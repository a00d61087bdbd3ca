"""A folder as `fedrt reproduce` leaves it, with small cells made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fedrt.experiments.cells import BASE_GRAPHS, NON_IID, TABLE, cells_of
from fedrt.experiments.kept import Kept, write_kept
from fedrt.experiments.paper import METHODS
from support.kept_cells import made_up

SEEDS = (0, 1)
ROUNDS = 4
SCENARIO = "[fleet]\n"
ENVIRONMENT = {"fedrt": "0.1.0", "libraries": {"torch": "2.13.0"}, "processor": "an abacus"}


def fill(folder: Path) -> dict[str, Kept]:
    """Two columns of the table, a few labels, a sparse base graph and a policy of one's own."""
    cells = cells_of((TABLE[0], TABLE[4]), METHODS, SEEDS)
    cells += cells_of(NON_IID[4:6], ("fedrt", "static-t"), SEEDS[:1])
    cells += cells_of(BASE_GRAPHS[:1], ("fedrt",), SEEDS[:1])
    cells += cells_of(TABLE[4:], ("my:Own",), SEEDS[:1])
    kept = {}
    for i, cell in enumerate(cells):
        accuracies = [np.nan, 0.5 + i / 100, np.nan, 0.86 + i / 1000]
        made = made_up(cell.name, 5 + i, 100 + i, accuracies)
        about = made.about | {
            "policy": cell.policy,
            "seed": cell.seed,
            "scenario": SCENARIO,
            "device": "an abacus",
            "environment": ENVIRONMENT | {"load_average": [float(i), 0.5, 0.5], "nice": i % 2},
            "command": "fedrt reproduce <b>",
        }
        if cell.policy == "ce-fedavg":
            about["trained_as"] = cell.name.replace("ce-fedavg", "static-t")
        kept[cell.name] = replace(made, about=about)
        path = folder / "cells" / f"{cell.name}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_kept(path, kept[cell.name])
    for name in ("fig-energy.svg", "fig-energy.pdf"):
        (folder / name).write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    return kept
