"""Train a cell of the committed results again and hold it against what is kept.

    python tools/verify_cell.py cifar10-iid/fedrt-0 --device cuda --data-dir DIR

Time and energy are planned again from the kept distances first, which must agree to 1e-9. Then the
cell is trained from the start. A GPU does not repeat to the bit, so accuracy may differ by a point
and, as links follow the distances, time and energy by 2 %; more than that exits with 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np

from fedrt.cli import guarded
from fedrt.errors import InputError
from fedrt.experiments.carry_out import Store, carry_out, check_same
from fedrt.experiments.cells import DTYPES, WHAT, Cell, Column, in_full
from fedrt.experiments.kept import Kept, plan_again, read_kept
from fedrt.studies.training import RunOptions

RESULTS = Path(__file__).parents[1] / "results"
MOST_POINTS = 1.0
MOST_SHARE = 0.02


def find_cell(name: str) -> tuple[Cell, Kept]:
    """The kept cell of that name, and how it is trained: under the settings it was kept with."""
    columns: dict[str, Column] = {c.name: c for part, _ in WHAT.values() for c in part}
    column, _, stem = name.partition("/")
    if column not in columns or not stem or "/" in stem:
        raise InputError(f"{name}: must be COLUMN/POLICY-SEED, COLUMN one of {', '.join(columns)}")
    path = RESULTS / "cells" / column / f"{stem}.npz"
    kept = read_kept(path)
    learning = tomllib.loads(kept.about["scenario"]).get("learning")
    dtype = learning.get("dtype") if isinstance(learning, dict) else None
    if dtype not in DTYPES:
        raise InputError(f"{path}: does not say in which dtype it was trained")
    cell = Cell(in_full(columns[column], dtype), kept.about["policy"], kept.about["seed"])
    check_same(cell, kept, path)
    return cell, kept


def main() -> int:
    """Train one cell again; the exit code."""
    return guarded(verify)


def verify() -> int:
    """Train the cell that was named and hold it against the kept one; 0 if they agree, else 1."""
    parser = argparse.ArgumentParser(description="train a kept cell again and compare")
    parser.add_argument("name", help="a cell, as cifar10-iid/fedrt-0")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data-dir")
    args = parser.parse_args()
    cell, kept = find_cell(args.name)
    again = plan_again(cell, cell.column.load(), kept) is not None
    print(f"planned again from its distances: {'agrees' if again else 'DIFFERS'}")
    options = RunOptions(device=args.device, data_dir=args.data_dir, device_rows=False)
    with tempfile.TemporaryDirectory() as folder:
        trained = carry_out([cell], Store(Path(folder)), options)[cell.name]
    points = 100 * (trained.best_accuracy - kept.best_accuracy)
    time, energy = trained.time_s / kept.time_s - 1, trained.energy_j / kept.energy_j - 1
    first = np.abs(trained.rounds["loss"][:3] / kept.rounds["loss"][:3] - 1).max()
    print(
        f"best accuracy {kept.best_accuracy:.2%}, again {trained.best_accuracy:.2%}: {points:+.2f}"
    )
    print(f"time {time:+.2%}, energy {energy:+.2%}, loss of the first 3 rounds within {first:.2%}")
    good = again and abs(points) <= MOST_POINTS and max(abs(time), abs(energy)) <= MOST_SHARE
    print("verified" if good else "NOT verified")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
