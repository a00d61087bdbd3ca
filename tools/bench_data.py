"""What the bench says of trained and learned policies, packed from results/ into the package.

    python tools/bench_data.py    # writes src/fedrt/bench/data/trained.json anew; a test holds it

The same numbers are put into results/bench/bench.json, beside the scores there.

- FEMNIST: the cells of the paper's column in results/cells/femnist, for every policy there.
- digits: results/bench/digits.json, the comparison.json of

      fedrt compare bench/digits --policies ... --seeds 0,1,2 --target 0.95

- learned policies: results/bench/learned.json, whose rows are checked here.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from fedrt.bench.trained import read_trained
from fedrt.cli import guarded
from fedrt.errors import InputError
from fedrt.experiments.kept import read_kept
from fedrt.policies import SHIPPED
from fedrt.system.files import write_json

ROOT = Path(__file__).parents[1]
CELLS = ROOT / "results" / "cells" / "femnist"
BENCH = ROOT / "results" / "bench"
FILE = ROOT / "src" / "fedrt" / "bench" / "data" / "trained.json"
SEEDS = (0, 1, 2)
FEMNIST, DIGITS = 0.80, 0.95
"""The stated accuracies: FEMNIST's policies end at 85 to 86 %, those of digits at 96 to 98 %."""
LISTS = ("time_s", "energy_j_mean", "over_budget_devices", "over_budget_j")


def femnist() -> dict[str, Any]:
    """The first time at the accuracy of every policy that has a cell for each seed."""
    found = {}
    for policy in SHIPPED:
        files = [CELLS / f"{policy}-{seed}.npz" for seed in SEEDS]
        if not all(file.is_file() for file in files):
            continue
        cells = [read_kept(file) for file in files]
        first = [cell.first_reached(FEMNIST) for cell in cells]
        found[policy] = {
            "time_s": [None if at is None else at[0] for at in first],
            "energy_j_mean": [None if at is None else at[1] for at in first],
            "best_accuracy": [cell.best_accuracy for cell in cells],
        }
    return _subset("paper/femnist", FEMNIST, "results/cells/femnist", found)


def digits() -> dict[str, Any]:
    """The first time at the accuracy of every policy in the comparison on digits."""
    source = BENCH / "digits.json"
    compared = json.loads(source.read_text(encoding="utf-8"))
    found = {}
    for policy, each in compared["policies"].items():
        first = each["targets"][f"{DIGITS:g}"]
        found[policy] = {
            "time_s": [None if at is None else at["time_s"] for at in first],
            "energy_j_mean": [None if at is None else at["energy_j_mean"] for at in first],
            "best_accuracy": each["best_accuracy"]["per_seed"],
        }
    return _subset(compared["scenario"], DIGITS, str(source.relative_to(ROOT)), found)


def _subset(scenario: str, accuracy: float, source: str, found: dict[str, Any]) -> dict[str, Any]:
    about = {"scenario": scenario, "accuracy": accuracy, "seeds": list(SEEDS), "source": source}
    return {**about, "policies": found}


def learned(file: Path = BENCH / "learned.json") -> list[dict[str, Any]]:
    """The rows of learned policies; none where there is no such file."""
    if not file.is_file():
        return []
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["rows"]
    problems = [line for i, row in enumerate(rows) for line in _problems(row, f"rows[{i}]")]
    if problems:
        raise InputError([f"{file.name}: {line}" for line in problems])
    return rows


def _problems(row: dict[str, Any], where: str) -> list[str]:
    """A line for everything that a row of a learned policy lacks."""
    texts = ("name", "source", "world", "acts_on")
    lines = [f"{where}.{key}: must be a text" for key in texts if not isinstance(row.get(key), str)]
    count = len(row.get("seeds", ()))
    several = {where: row, **{f"{where}.beside.{n}": r for n, r in row.get("beside", {}).items()}}
    for place, each in several.items():
        for key in LISTS:
            values = each.get(key)
            if not isinstance(values, list) or len(values) != count or not all(map(_good, values)):
                lines.append(f"{place}.{key}: must have {count} numbers, one for each seed")
    return lines


def _good(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def packed() -> dict[str, Any]:
    """Everything that goes into the package."""
    return {"subsets": {"digits": digits(), "femnist": femnist()}, "learned": learned()}


def main() -> int:
    """Pack the results anew."""
    write_json(FILE, packed())
    scores = BENCH / "bench.json"
    if scores.is_file():
        data = json.loads(scores.read_text(encoding="utf-8"))
        write_json(scores, data | read_trained(list(data["policies"])))
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main))
