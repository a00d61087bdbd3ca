"""A figure of a partition: samples of every class on every device, by edge server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrt.system.extras import MissingLibraryError
from fedrt.system.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IntArray = NDArray[np.int64]

MOST_COLUMNS = 300
"""With more devices than this a column is a whole edge."""
MOST_LABELS = 20


def partition_figure(class_counts: IntArray, edge_of_device: IntArray, title: str) -> Figure:
    """Classes against devices grouped by edge server, darker for more samples; sizes on top.

    `class_counts` is devices x classes. Columns are ordered by edge whatever the order given.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingLibraryError("a picture", "matplotlib") from None
    order = np.argsort(edge_of_device, kind="stable")
    counts, edge = class_counts[order], edge_of_device[order]
    by_edge = len(counts) > MOST_COLUMNS
    if by_edge:
        starts = np.flatnonzero(np.diff(edge, prepend=-1))
        counts, edge = np.add.reduceat(counts, starts), edge[starts]
    columns, classes = counts.shape
    width = float(np.clip(3 + 0.13 * columns, 7, 15))
    height = float(np.clip(2.6 + 0.25 * classes, 4, 9.5))
    figure = Figure(figsize=(width, height), layout="constrained")
    bars, matrix = figure.subplots(
        2, 1, sharex=True, height_ratios=[1, max(2.0, (height - 2.2) / 1.2)]
    )
    figure.suptitle(title.replace("$", r"\$"), fontsize=12)
    what = "edge" if by_edge else "device"
    image = _draw_matrix(matrix, counts)
    _draw_sizes(bars, counts.sum(1), what)
    _mark_edges((bars, matrix), edge, by_edge)
    figure.colorbar(image, ax=matrix, label=f"samples on the {what} (white: none)", pad=0.01)
    return figure


def _draw_matrix(axes: Axes, counts: IntArray) -> Any:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    # One hue, and not its palest part: a single sample must differ from none, which stays white.
    colours = ListedColormap(colormaps["Blues"](np.linspace(0.2, 1, 256)))
    image = axes.imshow(
        np.ma.masked_equal(counts.T, 0),
        aspect="auto",
        cmap=colours,
        vmin=0,
        vmax=max(int(counts.max()), 1),
        interpolation="nearest",
    )
    classes = counts.shape[1]
    step = -(-classes // MOST_LABELS)
    axes.set_yticks(range(0, classes, step))
    axes.set_ylabel("class")
    return image


def _draw_sizes(axes: Axes, sizes: IntArray, what: str) -> None:
    axes.bar(range(len(sizes)), sizes, width=0.8, color="#666666")
    axes.set_ylim(0, float(sizes.max()) * 1.1)
    axes.set_ylabel(f"samples\nper {what}")
    axes.tick_params(bottom=False, labelbottom=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _mark_edges(both: tuple[Axes, Axes], edge: IntArray, by_edge: bool) -> None:
    """Draw lines between edge servers and their numbers under each group."""
    bars, matrix = both
    starts = np.flatnonzero(np.diff(edge, prepend=-1))
    ends = np.append(starts[1:], len(edge))
    middle = (starts + ends - 1) / 2
    if not by_edge:
        for start in starts[1:]:
            matrix.axvline(start - 0.5, color="black", linewidth=1.2)
            bars.axvline(start - 0.5, color="#bbbbbb", linewidth=0.8)
    step = -(-len(starts) // 30)
    matrix.set_xticks(middle[::step], [str(edge[start]) for start in starts[::step]])
    matrix.tick_params(axis="x", length=0)
    matrix.set_xlim(-0.5, len(edge) - 0.5)
    matrix.set_xlabel("edge" if by_edge else "edge server, its devices side by side")


def save_picture(figure: Figure, path: Path) -> None:
    """Write the figure atomically, in the format of its name."""
    kind = path.suffix.lower().removeprefix(".")
    write_whole(path, lambda temporary: figure.savefig(temporary, format=kind, dpi=150))
