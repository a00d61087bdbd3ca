"""The paper's figures from kept cells: a panel for each setting, one line a method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrt.experiments.cells import (
    BASE_GRAPHS,
    LABELS_PER_CLUSTER,
    LINK_PROBABILITIES,
    NON_IID,
    TABLE,
    Cell,
    Column,
)
from fedrt.experiments.kept import Kept
from fedrt.report.figures import (
    COLOURS,
    LINES,
    MARKERS,
    draw_seeds,
    legend_below,
    new_figure,
    plain,
    policy_style,
    tidy_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Found = Mapping[str, Kept]
HOUR_S = 3600.0
DATA = {"cifar10": "CIFAR-10", "fmnist": "FMNIST", "femnist": "FEMNIST"}


class _Curves:
    """The kept cells of one column and policy over the seeds that are there."""

    def __init__(self, column: Column, policy: str, seeds: Sequence[int], found: Found) -> None:
        names = [Cell(column, policy, seed).name for seed in seeds]
        self.kept = [found[name] for name in names if name in found]

    def __bool__(self) -> bool:
        return bool(self.kept)

    def stack(self, name: str) -> NDArray[np.float64]:
        """(seeds, rounds)"""
        return np.stack([each.rounds[name] for each in self.kept])

    @property
    def rounds(self) -> NDArray[np.float64]:
        """Numbers of the rounds from 1, as people count."""
        return np.arange(1.0, len(self.kept[0].distance) + 1)


def convergence_figures(
    policies: Sequence[str], seeds: Sequence[int], found: Found
) -> dict[str, Figure]:
    """Loss and accuracy against simulated time, one picture for each data set."""
    figures = {}
    for data in DATA:
        columns = [
            c for c in _there(TABLE, policies, seeds, found) if c.name.startswith(f"{data}-")
        ] or [c for c in _there(TABLE, policies, seeds, found) if c.name == data]
        if not columns:
            continue
        figure = new_figure(8.4, 0.7 + 3.1 * len(columns))
        grid = figure.subplots(len(columns), 2, squeeze=False)
        for (left, right), column in zip(grid, columns, strict=True):
            for policy in policies:
                curves = _Curves(column, policy, seeds, found)
                if curves:
                    style = _policy_line(policy, policies)
                    time = curves.stack("ends_at_s") / HOUR_S
                    draw_seeds(left, time, curves.stack("loss"), style)
                    draw_seeds(right, time, 100 * curves.stack("accuracy"), style)
            for axes, words in ((left, "training loss"), (right, "test accuracy (%)")):
                _label(axes, column.title, "simulated training time (h)", words)
            left.set_yscale("log")
            _plain_log(left)
        legend_below(figure, grid[0, 0])
        figures[f"fig-convergence-{data}"] = figure
    return figures


def energy_figure(policies: Sequence[str], seeds: Sequence[int], found: Found) -> Figure:
    """What a device has spent by each round, mean over devices."""

    def draw(axes: Axes, column: Column) -> None:
        for policy in policies:
            curves = _Curves(column, policy, seeds, found)
            if curves:
                style = _policy_line(policy, policies)
                draw_seeds(axes, curves.rounds, curves.stack("energy_j_mean"), style)

    columns = _there(TABLE, policies, seeds, found)
    return _panels(columns, draw, "energy of a device so far (J)")


def non_iid_figure(seeds: Sequence[int], found: Found) -> Figure:
    """Accuracy by round for clusters with few labels: FedRT, and the full graph of Static-T.

    CE-FedAvg trains exactly as Static-T does.
    """
    full = "static-t"
    words = {"fedrt": "FedRT", full: "Static-T"}
    columns = _there(NON_IID, list(words), seeds, found)
    data = {name: [c for c in columns if c.name.startswith(f"{name}-")] for name in DATA}
    shown = {name: own for name, own in data.items() if own}

    def draw(axes: Axes, name: str) -> None:
        for column in shown[name]:
            labels = next(n for n in LABELS_PER_CLUSTER if column.name.endswith(f"-{n}"))
            # A mean over seeds beside one seed would not compare like with like.
            names = {s: [Cell(column, policy, s).name for policy in words] for s in seeds}
            both = [s for s, own in names.items() if all(name in found for name in own)]
            for policy, who in words.items():
                curves = _Curves(column, policy, both or seeds, found)
                if curves:
                    style = _numbered_style(LABELS_PER_CLUSTER.index(labels))
                    style |= {"linestyle": "-" if policy == "fedrt" else (0, (2, 2))}
                    if policy == full:
                        style["mfc"] = "white"
                    style["label"] = f"{labels} labels, {who}"
                    draw_seeds(axes, curves.rounds, 100 * curves.stack("accuracy"), style)

    return _panels(list(shown), draw, "test accuracy (%)", DATA.get, inches=2.0)


def base_graph_figure(seeds: Sequence[int], found: Found) -> Figure:
    """Accuracy by round of FedRT on base graphs from sparse to complete."""
    probabilities = (*LINK_PROBABILITIES, 1.0)
    complete = {column.name: column for column in TABLE}
    sparse = {column.name: column for column in BASE_GRAPHS}

    def of(base: str, p: float) -> Column:
        return complete[base] if p == 1.0 else sparse[f"{base}-links-{p}"]

    def draw(axes: Axes, base: str) -> None:
        for place, p in enumerate(probabilities):
            curves = _Curves(of(base, p), "fedrt", seeds, found)
            if curves:
                style = _numbered_style(place) | {"label": f"p = {p:g}"}
                draw_seeds(axes, curves.rounds, 100 * curves.stack("accuracy"), style)

    titles = {"cifar10-iid": "CIFAR-10, IID", "femnist": "FEMNIST"}
    columns = [
        base
        for base in titles
        if any(_Curves(of(base, p), "fedrt", seeds, found) for p in probabilities)
    ]
    return _panels(columns, draw, "test accuracy (%)", titles.get)


def _policy_line(policy: str, policies: Sequence[str]) -> dict[str, Any]:
    """A policy's style; its markers stand beside the others', so that equal lines show both."""
    beside = (0.15 * policies.index(policy) / len(policies), 0.15)
    return policy_style(policy, policies) | {"label": plain(policy), "markevery": beside}


def _numbered_style(place: int) -> dict[str, Any]:
    return {
        "color": COLOURS[place],
        "marker": MARKERS[place],
        "linestyle": LINES[place],
        "markersize": 5.5,
        "linewidth": 1.3,
    }


def _there(
    columns: Sequence[Column], policies: Sequence[str], seeds: Sequence[int], found: Found
) -> list[Column]:
    """The columns of which there is a cell."""
    return [c for c in columns if any(_Curves(c, policy, seeds, found) for policy in policies)]


def _panels(
    items: Sequence[Any],
    draw: Callable[[Axes, Any], None],
    label: str,
    title: Callable[[Any], str | None] = lambda column: column.title,
    inches: float = 1.5,
) -> Figure:
    """A picture with one panel by round for each item."""
    columns = min(3, max(1, len(items)))
    rows = -(-len(items) // columns)
    figure = new_figure(max(4.6, 3.7 * columns, 8.4 if columns == 2 else 0), 1.0 + 3.0 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, item in zip(grid.flat, items, strict=False):
        draw(axes, item)
        _label(axes, title(item) or "", "global round", label)
    for axes in grid.flat[len(items) :]:
        axes.set_visible(False)
    legend_below(figure, grid[0, 0], inches)
    return figure


def _label(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(plain(title), fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    tidy_axes(axes)


def _plain_log(axes: Axes) -> None:
    """Plain numbers on a logarithmic axis of few decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
