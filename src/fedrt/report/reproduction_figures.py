"""The paper's figures from saved cells: a panel for each setting, a line for each method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedrt.experiments.cells import (
    BASE_GRAPHS,
    COMPLETE,
    LABELS_PER_CLUSTER,
    LINK_PROBABILITIES,
    NON_IID,
    TABLE,
    Column,
    to_compare,
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
    plain_log,
    policy_style,
    tidy_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FoundCells = Mapping[str, Kept]
T = TypeVar("T")
HOUR_S = 3600.0
DATA = {"cifar10": "CIFAR-10", "fmnist": "FMNIST", "femnist": "FEMNIST"}


class _Curves:
    """The saved cells of one line of a panel, one for each seed."""

    def __init__(self, kept: Mapping[int, Kept]) -> None:
        self.seeds, self.kept = list(kept), list(kept.values())

    def stack(self, name: str) -> NDArray[np.float64]:
        """The values of all seeds, of shape (seeds, rounds)."""
        return np.stack([each.rounds[name] for each in self.kept])

    @property
    def rounds(self) -> NDArray[np.float64]:
        """The numbers of the rounds, from 1."""
        return np.arange(1.0, len(self.kept[0].distance) + 1)


def _compared(
    lines: Mapping[T, tuple[Column, str]], seeds: Sequence[int], found: FoundCells
) -> dict[T, _Curves]:
    """The lines of a panel that are there."""
    cells = to_compare(lines, seeds, found)
    return {
        key: _Curves({cell.seed: found[cell.name] for cell in own}) for key, own in cells.items()
    }


def _titled(title: str, curves: Mapping[Any, _Curves]) -> str:
    """The title of a panel with the seeds it shows."""
    sets = {tuple(each.seeds) for each in curves.values()}
    if len(sets) != 1:
        return title
    (seeds,) = sets
    return f"{title}, seed {seeds[0]}" if len(seeds) == 1 else f"{title}, {len(seeds)} seeds"


def convergence_figures(
    policies: Sequence[str], seeds: Sequence[int], found: FoundCells
) -> dict[str, Figure]:
    """Loss and accuracy against simulated time, one picture for each data set."""
    figures = {}
    for data in DATA:
        own = [c for c in TABLE if c.name == data or c.name.startswith(f"{data}-")]
        shown = _by_policy(own, policies, seeds, found)
        if not shown:
            continue
        figure = new_figure(8.4, 0.7 + 3.1 * len(shown))
        grid = figure.subplots(len(shown), 2, squeeze=False)
        for (left, right), (column, curves) in zip(grid, shown.items(), strict=True):
            for policy, each in curves.items():
                style = _policy_line(policy, policies)
                time = each.stack("ends_at_s") / HOUR_S
                draw_seeds(left, time, each.stack("loss"), style)
                draw_seeds(right, time, 100 * each.stack("accuracy"), style)
            for axes, words in ((left, "training loss"), (right, "test accuracy (%)")):
                _label(axes, _titled(column.title, curves), "simulated training time (h)", words)
            left.set_yscale("log")
            plain_log(left.yaxis)
        legend_below(figure, *grid.flat)
        figures[f"fig-convergence-{data}"] = figure
    return figures


def energy_figure(
    policies: Sequence[str], seeds: Sequence[int], found: FoundCells
) -> Figure | None:
    """The energy that a device has spent by each round, mean over devices."""

    def draw(axes: Axes, curves: dict[str, _Curves]) -> None:
        for policy, each in curves.items():
            style = _policy_line(policy, policies)
            draw_seeds(axes, each.rounds, each.stack("energy_j_mean"), style)

    shown = _by_policy(TABLE, policies, seeds, found)
    panels = {_titled(column.title, curves): curves for column, curves in shown.items()}
    return _panels(panels, draw, "energy of a device so far (J)")


def non_iid_figure(seeds: Sequence[int], found: FoundCells) -> Figure | None:
    """Accuracy by round for clusters with few labels: FedRT, and the full graph of Static-T.

    CE-FedAvg trains exactly as Static-T does.
    """
    full = "static-t"
    words = {"fedrt": "FedRT", full: "Static-T"}
    shown = _by_policy(NON_IID, list(words), seeds, found)
    panels = {}
    for data, title in DATA.items():
        own = {c: curves for c, curves in shown.items() if c.name.startswith(f"{data}-")}
        if own:
            panels[title] = own

    def draw(axes: Axes, own: dict[Column, dict[str, _Curves]]) -> None:
        for column, curves in own.items():
            labels = next(n for n in LABELS_PER_CLUSTER if column.name.endswith(f"-{n}"))
            for policy, each in curves.items():
                style = _numbered_style(LABELS_PER_CLUSTER.index(labels))
                style |= {"linestyle": "-" if policy == "fedrt" else (0, (2, 2))}
                if policy == full:
                    style["mfc"] = "white"
                style["label"] = f"{labels} labels, {words[policy]}"
                draw_seeds(axes, each.rounds, 100 * each.stack("accuracy"), style)

    return _panels(panels, draw, "test accuracy (%)", inches=2.0)


def base_graph_figure(seeds: Sequence[int], found: FoundCells) -> Figure | None:
    """Accuracy by round of FedRT on base graphs from sparse to complete."""
    sparse = {column.name: column for column in BASE_GRAPHS}
    places = {p: place for place, p in enumerate((*LINK_PROBABILITIES, 1.0))}
    panels = {}
    for complete in COMPLETE:
        lines = {p: (sparse[f"{complete.name}-links-{p}"], "fedrt") for p in LINK_PROBABILITIES}
        curves = _compared(lines | {1.0: (complete, "fedrt")}, seeds, found)
        if curves:
            panels[_titled(complete.title, curves)] = curves

    def draw(axes: Axes, curves: dict[float, _Curves]) -> None:
        for p, each in curves.items():
            style = _numbered_style(places[p]) | {"label": f"p = {p:g}"}
            draw_seeds(axes, each.rounds, 100 * each.stack("accuracy"), style)

    return _panels(panels, draw, "test accuracy (%)")


def _by_policy(
    columns: Sequence[Column], policies: Sequence[str], seeds: Sequence[int], found: FoundCells
) -> dict[Column, dict[str, _Curves]]:
    """For every column of which there is a cell, a line for each policy."""
    shown = {}
    for column in columns:
        curves = _compared({policy: (column, policy) for policy in policies}, seeds, found)
        if curves:
            shown[column] = curves
    return shown


def _policy_line(policy: str, policies: Sequence[str]) -> dict[str, Any]:
    """The style of a policy's line, with markers placed so that equal lines are both visible."""
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


def _panels(
    panels: Mapping[str, T], draw: Callable[[Axes, T], None], label: str, inches: float = 1.5
) -> Figure | None:
    """A figure with one panel by round for each title; None if there are none."""
    if not panels:
        return None
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(max(4.6, 3.7 * columns, 8.4 if columns == 2 else 0), 1.0 + 3.0 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, (title, content) in zip(grid.flat, panels.items(), strict=False):
        draw(axes, content)
        _label(axes, title, "global round", label)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    legend_below(figure, *grid.flat, inches=inches)
    return figure


def _label(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(plain(title), fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    tidy_axes(axes)
