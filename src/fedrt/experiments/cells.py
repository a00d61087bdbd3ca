"""The cells of the paper's table and figures: a setting of the experiment, a policy and a seed.

A cell is the unit of work: it is trained by itself, saved, and shared by every table and figure
that shows it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fedrt.errors import InputError
from fedrt.experiments.paper import METHODS
from fedrt.records.directory import run_name
from fedrt.scenario import Scenario, load_scenario
from fedrt.scenario.tables.fields import PerDevice

T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """One setting of the experiment: a scenario with some of its settings changed."""

    name: str
    title: str
    scenario: str
    settings: tuple[str, ...] = ()

    def load(self) -> Scenario:
        return load_scenario(self.scenario, [*self.settings, f'name="{self.name}"'])


@dataclass(frozen=True)
class Cell:
    """A column's scenario under one policy and seed."""

    column: Column
    policy: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.column.name}/{run_name(self.policy, self.seed)}"


TABLE = tuple(
    Column(name, title, f"paper/{name}")
    for name, title in (
        ("cifar10-iid", "CIFAR-10, IID"),
        ("cifar10-dirichlet", "CIFAR-10, Dirichlet(1)"),
        ("fmnist-iid", "FMNIST, IID"),
        ("fmnist-dirichlet", "FMNIST, Dirichlet(1)"),
        ("femnist", "FEMNIST"),
    )
)
LABELS_PER_CLUSTER = (2, 4, 6, 8)
NON_IID = tuple(
    Column(
        f"{data}-labels-{labels}",
        f"{title}, {labels} labels a cluster",
        f"paper/{data}-dirichlet",
        (f'learning.partition={{kind="cluster-pathological",labels_per_cluster={labels}}}',),
    )
    for data, title in (("cifar10", "CIFAR-10"), ("fmnist", "FMNIST"))
    for labels in LABELS_PER_CLUSTER
)
LINK_PROBABILITIES = (0.2, 0.4, 0.6, 0.8)
"""Of the base graph; with probability 1 it is the complete graph, a column of the table."""
COMPLETE = tuple(column for column in TABLE if column.name in ("cifar10-iid", "femnist"))
BASE_GRAPHS = tuple(
    Column(
        f"{column.name}-links-{p}",
        f"{column.title}, links with probability {p}",
        column.scenario,
        (f'base_graph={{kind="erdos-renyi",probability={p}}}',),
    )
    for column in COMPLETE
    for p in LINK_PROBABILITIES
)
BY_CLASS = tuple(
    Column(
        f"{data}-dirichlet-by-class",
        f"{title}, each class split by Dirichlet(1)",
        f"paper/{data}-dirichlet",
        ('learning.partition={kind="dirichlet",concentration=1.0,form="class"}',),
    )
    for data, title in (("cifar10", "CIFAR-10"), ("fmnist", "FMNIST"))
)
"""The other reading of the Dirichlet partition."""
UNAUGMENTED = Column(
    "cifar10-iid-unaugmented",
    "CIFAR-10, IID, without crops and mirror images",
    "paper/cifar10-iid",
    ("learning.augment=false",),
)
OTHERWISE = {
    **{column: column.name.removesuffix("-by-class") for column in BY_CLASS},
    UNAUGMENTED: UNAUGMENTED.name.removesuffix("-unaugmented"),
}
"""Columns of the table trained in another way, each with the name of the usual one."""
BUDGETS_J = (1.5, 2.0)
"""Per edge round: more than the table's, so that a policy has something to pace."""
BUDGETS = tuple(
    Column(
        f"{column.name}-{joules:g}j",
        f"{column.title}, {joules:g} J",
        column.scenario,
        (f"fleet.energy_j_per_edge_round={joules}",),
    )
    for column in COMPLETE
    for joules in BUDGETS_J
)
FEW_LABELS = tuple(column for column in NON_IID if column.name.endswith(("-2", "-4")))
BEYOND = (*BUDGETS, *(column for column in TABLE if column.name == "fmnist-iid"), *FEW_LABELS)
"""The columns in which `fedrt-plus` is compared with `fedrt`, with training."""
JOINT = (*TABLE, *(column for column in FEW_LABELS if column.name != "fmnist-labels-4"))
"""The columns in which `fedrt-joint` is compared with `fedrt`, with training."""

SEEDS = (0, 1, 2)
"""The seeds, as many as the paper's."""

ROWS = (*METHODS, "fedrt-plus", "fedrt-joint")

WHAT: dict[str, tuple[tuple[Column, ...], tuple[str, ...]]] = {
    "table": (TABLE, ROWS),
    "fig-convergence": (TABLE, ROWS),
    "fig-energy": (TABLE, ROWS),
    "fig-noniid": (NON_IID, ("fedrt", "static-t")),
    "fig-basegraph": ((*BASE_GRAPHS, *COMPLETE), ("fedrt",)),
    "choices": ((*TABLE, *OTHERWISE), ("fedrt",)),
    "beyond": (BEYOND, ("fedrt", "fedrt-plus")),
    "joint": (JOINT, ("fedrt", "fedrt-joint")),
}
"""The tables and figures, with the columns and policies that each needs."""

DTYPES = ("bfloat16", "float32", "float64")
"""What a column may be trained in; the first unless another is asked for."""
QUICK_ROUNDS = 10
QUICK_BATCH = 4
"""A quick run draws an eighth of the samples and counts each eight times."""


def in_full(column: Column, dtype: str) -> Column:
    """The column with its full model, data and rounds."""
    return replace(column, settings=(*column.settings, f'learning.dtype="{dtype}"'))


def in_brief(column: Column) -> Column:
    """The column with a small model, an eighth of the samples and few rounds.

    What a round costs in seconds and joules stays the paper's; accuracies mean little.
    """
    full = column.load()
    cycles = full.fleet.cycles_per_sample
    assert isinstance(cycles, PerDevice)  # the paper's presets give one number for all
    few = (
        f"rounds.global_rounds={QUICK_ROUNDS}",
        f"learning.batch_size={QUICK_BATCH}",
        f"fleet.cycles_per_sample={cycles.low * full.learning.batch_size / QUICK_BATCH!r}",
        'learning.model="small-cnn"',
        "learning.learning_rate=0.05",
        f"learning.evaluate_every={QUICK_ROUNDS}",
    )
    return replace(column, settings=(*column.settings, *few))


def cells_of(
    columns: Iterable[Column], policies: Sequence[str], seeds: Sequence[int]
) -> list[Cell]:
    """All cells, ordered by seed and column, so that equal work comes together."""
    return [
        Cell(column, policy, seed) for seed in seeds for column in columns for policy in policies
    ]


def to_compare(
    lines: Mapping[T, tuple[Column, str]], seeds: Sequence[int], found: Container[str]
) -> dict[T, list[Cell]]:
    """The cells of each line (a policy in a column), over the seeds that all lines have.

    A mean over seeds beside one seed would not compare like with like. Where no seed is common,
    each line has its own.
    """
    every = {key: cells_of([column], [policy], seeds) for key, (column, policy) in lines.items()}
    there = {key: [cell for cell in own if cell.name in found] for key, own in every.items()}
    there = {key: own for key, own in there.items() if own}
    common = set(seeds).intersection(*({cell.seed for cell in own} for own in there.values()))
    return {
        key: [cell for cell in own if not common or cell.seed in common]
        for key, own in there.items()
    }


def choose_columns(columns: Sequence[Column], only: Sequence[str]) -> list[Column]:
    """The columns of the given names, or all if none is given."""
    known = [column.name for column in columns]
    unknown = [name for name in only if name not in known]
    if unknown:
        raise InputError(f"`only` {name!r}: must be one of {', '.join(known)}" for name in unknown)
    return [column for column in columns if not only or column.name in only]
