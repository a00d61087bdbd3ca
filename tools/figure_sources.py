"""Where the figures of the pages come from: the files under results/ and benchmarks/results/.

The note behind a paragraph (`figures.py`) is a list of Python expressions over these names:

- a file of benchmarks/results by its name, `peers` or `devices_cpu`, as nested attributes;
- `table(column, policy)`: a row of results/table.csv;
- `cell(name)`: what a trained cell holds;
- `paper(policy, column, quantity)`: the paper's own table;
- and the functions below.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fedrt.errors import InputError, reason
from fedrt.experiments.beyond import late_mean
from fedrt.experiments.cells import SEEDS, TABLE
from fedrt.experiments.kept import Kept, read_kept
from fedrt.experiments.paper import METHODS, paper_value

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
MEASURED = ROOT / "benchmarks" / "results"
HOUR_S = 3600.0


class View:
    """A JSON object whose members are attributes: `peers.sides.fedrt.median_s`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> Any:
        value = self.values[name]
        return View(value) if isinstance(value, dict) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


class Trained:
    """What the pages tell of a trained cell."""

    def __init__(self, kept: Kept) -> None:
        accuracy = 100 * kept.rounds["accuracy"]
        accuracy = accuracy[~np.isnan(accuracy)]
        self.name: str = kept.about["cell"]
        self.best, self.final = float(accuracy.max()), float(accuracy[-1])
        self.best_of_half = float(accuracy[::-2].max())
        """The best of every second evaluation, the last among them."""
        self.late = late_mean(accuracy)
        """Mean of the last evaluations."""
        self.apart = float(kept.rounds["consensus"].mean())
        """The distance of edge models from their average after gossip, mean over rounds."""
        self.time_h, self.energy_j = kept.time_s / HOUR_S, kept.energy_j
        self.seconds: float = kept.about["train_wall_s"]
        """Real, in all; compilation is in it where the cell was a process's first."""
        edges = 100 * kept.rounds["edge_accuracy_mean"][~np.isnan(kept.rounds["accuracy"])]
        self.edges_late = late_mean(edges)
        """The same of the edge models' own, mean over edges."""
        self.rounds_s = float(kept.rounds["wall_s"].sum())
        """Real, of the rounds alone."""
        evaluated = ~np.isnan(kept.rounds["accuracy"])
        self.plain_round_s = float(np.median(kept.rounds["wall_s"][~evaluated]))
        self.evaluated_round_s = float(np.median(kept.rounds["wall_s"][evaluated]))
        self.taken_over = "trained_as" in kept.about


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; a complaint if there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds no JSON object")
    return value


@cache
def measured(name: str) -> View:
    """A file of benchmarks/results."""
    return View(read_json(MEASURED / f"{name}.json"))


@cache
def cell(name: str) -> Trained:
    """A cell of results/cells."""
    return Trained(read_kept(RESULTS / "cells" / f"{name}.npz"))


@cache
def all_cells() -> tuple[Trained, ...]:
    """Every cell that is there."""
    found = sorted((RESULTS / "cells").glob("*/*.npz"))
    return tuple(cell(f"{path.parent.name}/{path.stem}") for path in found)


@cache
def table_rows() -> dict[tuple[str, str], View]:
    """The rows of results/table.csv by column and policy."""
    with (RESULTS / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {(row["column"], row["policy"]): View(_numbers(row)) for row in rows}


def _numbers(row: Mapping[str, str]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, text in row.items():
        try:
            plain[key] = float(text)
        except ValueError:
            plain[key] = text
    return plain


def quickest_seed_s() -> float:
    """Real seconds of a seed of the paper's table: the quickest cell of each row, added up."""
    rows = [[cell(f"{c.name}/{policy}-{s}") for s in SEEDS] for c in TABLE for policy in METHODS]
    trained = [row for row in rows if not any(each.taken_over for each in row)]
    return sum(min(each.seconds for each in row) for row in trained)


def energies_against_fedrt(quantity: str) -> list[float]:
    """What the even-split policies spend above FedRT in each column of the table, in percent."""
    rows = table_rows()
    return [
        100 * (rows[c.name, policy][quantity] / rows[c.name, "fedrt"][quantity] - 1)
        for c in TABLE
        for policy in ("static-r", "ce-fedavg", "mll-sgd")
    ]


def cifar10_energy_ratios() -> list[float]:
    """Energies of all methods on CIFAR-10 over the paper's."""
    columns = [c.name for c in TABLE if c.name.startswith("cifar10")]
    return [table_rows()[column, policy].energy_ratio for column in columns for policy in METHODS]


def cifar10_alone() -> list[Trained]:
    """Cells of CIFAR-10 IID that had the GPU to themselves and found their program compiled."""
    return [cell(f"cifar10-iid/static-{each}") for each in ("r-0", "t-0", "r-2", "t-2")]


def mean_hours(column: str, policy: str) -> float:
    """Simulated hours of a column's cells, mean over seeds."""
    return sum(cell(f"{column}/{policy}-{seed}").time_h for seed in SEEDS) / len(SEEDS)


def late_change(column: str, policy: str) -> float:
    """The mean of the last evaluations above `fedrt`'s, in points, mean over seeds."""
    pairs = [[cell(f"{column}/{who}-{seed}").late for who in (policy, "fedrt")] for seed in SEEDS]
    return sum(own - theirs for own, theirs in pairs) / len(SEEDS)


def is_there(name: str) -> bool:
    """Whether that cell is kept."""
    return (RESULTS / "cells" / f"{name}.npz").is_file()


def below_average(name: str) -> float:
    """Points that the edge models' own accuracy is below their average's, late in a run."""
    return cell(name).late - cell(name).edges_late


def best_missed(column: str) -> float:
    """Points of best accuracy that every second evaluation misses, mean over a column's cells."""
    cells = [cell(f"{column}/{policy}-{seed}") for policy in METHODS for seed in SEEDS]
    return float(np.mean([each.best - each.best_of_half for each in cells if not each.taken_over]))


def augmentation_points() -> float | str:
    """What crops and mirror images are worth on CIFAR-10 IID, in points of best accuracy."""
    without = "cifar10-iid-unaugmented/fedrt-0"
    if not is_there(without):
        return "one earlier training with 86.9 and one without with 78.1 %; no file was kept"
    return cell("cifar10-iid/fedrt-0").best - cell(without).best


def left(rule: str) -> list[float]:
    """By column, what a round's gossip leaves under a mixing rule (results/choices.md)."""
    for line in (RESULTS / "choices.md").read_text(encoding="utf-8").splitlines():
        name, *values = line.strip("| ").split(" | ")
        if name == rule:
            return [float(value) for value in values]
    raise InputError(f"{RESULTS / 'choices.md'}: has no row {rule}")


def chosen(choice: str) -> list[float]:
    """By column, the change in time under a choice, in percent (results/choices.md)."""
    for line in (RESULTS / "choices.md").read_text(encoding="utf-8").splitlines():
        name, *values = line.strip("| ").split(" | ")
        if name == choice:
            return [float(value.partition("(")[2].partition("%")[0]) for value in values]
    raise InputError(f"{RESULTS / 'choices.md'}: has no row {choice}")


def parameters(name: str) -> int:
    """Of a model on the paper's data."""
    return sum(each.numel() for each in _model(name).parameters())


def buffers(name: str) -> int:
    """Numbers beside the parameters that are averaged too."""
    return sum(each.numel() for each in _model(name).buffers() if each.is_floating_point())


def _model(name: str) -> Any:
    from fedrt.learning.models.architectures import MODELS

    shape = (3, 32, 32) if name == "resnet20" else (1, 28, 28)
    return MODELS[name](shape, 10)


def change(results: Any, policy: str, key: str = "total_time_s") -> list[float]:
    """By seed, the change from `fedrt` in percent."""
    pairs = zip(results[policy][key], results["fedrt"][key], strict=True)
    return [100 * (ours / theirs - 1) for ours, theirs in pairs]


def estimated(choice: str, preset: str, policy: str, key: str = "total_time_s") -> float:
    """Mean over seeds of a run without training, hours or joules."""
    values = measured("estimates").cases[choice][preset][policy][key]
    return float(np.mean(values)) / (HOUR_S if key == "total_time_s" else 1.0)


def horizon(preset: str) -> float:
    """What the true horizon changes in the time of `fedrt`, in percent."""
    times = [estimated(choice, preset, "fedrt") for choice in ("true horizon", "as shipped")]
    return 100 * (times[0] / times[1] - 1)


def _law_changes(case: str, policy: str, against: tuple[str, str]) -> list[float]:
    """The change of time in percent where budgets can be kept."""
    cases = measured("law_effects").cases
    columns = ("fmnist-iid", "cifar10-iid, 2 J", "femnist, 2 J")

    def time_s(name: str, who: str, column: str) -> float:
        return float(np.mean(cases[name][column][who]["total_time_s"]))

    return [100 * (time_s(case, policy, c) / time_s(*against, c) - 1) for c in columns]


def law_cost(case: str, policy: str, worst: Callable[[list[float]], float]) -> float:
    """What a law adds to the time by the paper's laws, in percent: the least or the most."""
    return worst(_law_changes(case, policy, ("paper", "fedrt")))


def law_gap(case: str, policy: str, worst: Callable[[list[float]], float]) -> float:
    """What planning without a law costs against planning with it, in percent."""
    return worst(_law_changes(case, policy, (case, "fedrt")))


def saved_by_links(preset: str) -> float:
    """What exact links alone save of the time of `fedrt`, in percent."""
    times = [estimated("as shipped", preset, policy) for policy in ("exact_links", "fedrt")]
    return 100 * (1 - times[0] / times[1])


def distance_to_paper(policies: Iterable[str], columns: Iterable[str]) -> float:
    """Mean of |ln(ours / paper)| over the times of runs without training."""
    ratios = [
        abs(
            math.log(
                estimated("as shipped", column, policy) / (paper_value(policy, column, "time") or 1)
            )
        )
        for policy in policies
        for column in columns
    ]
    return float(np.mean(ratios))


def namespace() -> dict[str, Any]:
    """The names that notes may use."""
    names: dict[str, Any] = {
        path.stem.replace("-", "_"): _Lazy(path.stem) for path in MEASURED.glob("*.json")
    }
    functions: tuple[Callable[..., Any], ...] = (
        cell,
        all_cells,
        quickest_seed_s,
        cifar10_alone,
        energies_against_fedrt,
        cifar10_energy_ratios,
        below_average,
        best_missed,
        late_change,
        mean_hours,
        law_cost,
        law_gap,
        augmentation_points,
        left,
        chosen,
        parameters,
        buffers,
        horizon,
        saved_by_links,
        change,
        estimated,
        distance_to_paper,
        median,
    )
    names |= {each.__name__: each for each in functions}
    names |= {"mean": lambda *v: float(np.mean(v[0] if len(v) == 1 else v))}
    names |= {"table": lambda column, policy: table_rows()[column, policy]}
    names |= {"paper": paper_value}
    names |= {each.__name__: each for each in (min, max, sum, len, abs, round, sorted)}
    return names


class _Lazy:
    """A file that is read when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, key: str) -> Any:
        return getattr(measured(self.name), key)

    def __getitem__(self, key: str) -> Any:
        return measured(self.name)[key]
