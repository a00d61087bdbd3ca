"""The effect of choices that the paper leaves open.

Planning a kept cell again under a changed scenario shows the effect on time and energy without
training: the distances stay those of the kept training, which under another choice would have been
a little different. The form of the Dirichlet partition and augmentation change the training itself:
those columns are trained. Everything is held against the table over the same seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from fedrt.control.mixing.weights import MIXINGS, contraction
from fedrt.experiments.cells import OTHERWISE, Cell, Column
from fedrt.experiments.kept import Kept, replay
from fedrt.records.directory import run_name
from fedrt.runs.loop import make_world
from fedrt.scenario import load_scenario

HOUR_S = 3600.0
CHOICES: dict[str, tuple[str, ...]] = {
    "as in the table": (),
    "kappa = 0": ("control.kappa=0",),
    "kappa = 0.25": ("control.kappa=0.25",),
    "kappa = 0.75": ("control.kappa=0.75",),
    "kappa = 1": ("control.kappa=1",),
    "true horizon": ('control.energy_horizon="exact"',),
    "backhaul 0.1 to 10 Mbit/s": ("backhaul.low_bps=1e5",),
}


@dataclass(frozen=True)
class Planned:
    """One cell planned again under a choice, or unchanged."""

    time_h: float
    energy_j: float
    links: float
    """Links kept, mean over rounds."""
    left: dict[str, float]
    """For each mixing rule, what psi steps leave of the distance to the average: the median."""


def plan_choice(cell: Cell, kept: Kept, settings: Sequence[str]) -> Planned:
    """The whole run of a cell with its saved distances and some settings changed."""
    column = cell.column
    scenario = load_scenario(column.scenario, [*column.settings, *settings])
    links: list[int] = []
    left: dict[str, list[float]] = {name: [] for name in MIXINGS}
    for done, _ in replay(make_world(scenario, cell.seed), cell.policy, kept):
        gossip = done.last.gossip
        links.append(int(gossip.links.sum()) // 2)
        for name, rule in MIXINGS.items():
            left[name].append(contraction(rule(gossip.links)) ** gossip.steps)
    return Planned(
        time_h=done.ends_at_s / HOUR_S,
        energy_j=float(done.last.after.spent_j.mean()),
        links=sum(links) / len(links),
        left={name: median(values) for name, values in left.items()},
    )


def plan_choices(
    columns: Iterable[Column], seeds: Sequence[int], found: Mapping[str, Kept]
) -> dict[str, dict[str, Planned]]:
    """For every column that is there, FedRT under every choice: means over seeds."""
    planned = {}
    for column in columns:
        cells = [cell for seed in seeds if (cell := Cell(column, "fedrt", seed)).name in found]
        if cells:
            planned[column.title] = {
                words: _mean([plan_choice(cell, found[cell.name], settings) for cell in cells])
                for words, settings in CHOICES.items()
            }
    return planned


def _mean(planned: Sequence[Planned]) -> Planned:
    """The mean of each value over seeds."""
    return Planned(
        time_h=mean(each.time_h for each in planned),
        energy_j=mean(each.energy_j for each in planned),
        links=mean(each.links for each in planned),
        left={rule: mean(each.left[rule] for each in planned) for rule in MIXINGS},
    )


@dataclass(frozen=True)
class Otherwise:
    """Best accuracies of FedRT in a column that is trained differently, in percent, by seed."""

    column: Column
    accuracy: dict[int, float]
    usual: dict[int, float]
    """In the table's column, over the same seeds as far as they are there."""


def trained_otherwise(
    columns: Iterable[Column], seeds: Sequence[int], found: Mapping[str, Kept]
) -> list[Otherwise]:
    """The columns of `OTHERWISE` that are there, each with the table's accuracies."""
    usual = {column.name: name for column, name in OTHERWISE.items()}
    made = []
    for column in columns:
        own = _best(column.name, seeds, found)
        if own:
            made.append(Otherwise(column, own, _best(usual[column.name], list(own), found)))
    return made


def _best(column: str, seeds: Sequence[int], found: Mapping[str, Kept]) -> dict[int, float]:
    names = {seed: f"{column}/{run_name('fedrt', seed)}" for seed in seeds}
    return {s: 100 * found[name].best_accuracy for s, name in names.items() if name in found}
