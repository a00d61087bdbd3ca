"""A figure of any quantity over a run, for several policies and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError
from fedrt.report.figures import (
    draw_seeds,
    legend_below,
    new_figure,
    plain,
    policy_style,
    tidy_axes,
)
from fedrt.units import time_unit
from fedrt.validation import hint, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGAINST = {"time": "ends_at_s", "energy": "energy_j_mean", "round": "global_round"}
"""What a quantity is drawn against, and its column in the table of rounds."""
WORDS = {
    "accuracy": "test accuracy of the average model (%)",
    "loss": "training loss",
    "energy": "energy of a device, mean (J)",
    "round": "global round",
}

Columns = Mapping[str, NDArray[Any]]


def curve_figure(
    curves: Mapping[str, Sequence[Columns]],
    quantity: str,
    against: str = "time",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """A column of the table of rounds, for each policy the mean over seeds and their range.

    `curves` has the table of every seed's run, by policy; seeds that stopped earlier are drawn as
    far as the shortest of their policy goes.
    """
    if against not in AGAINST:
        raise InputError(f"against = {shown(against)}: must be one of {', '.join(AGAINST)}")
    known = [name for name, values in next(iter(curves.values()))[0].items() if _is_number(values)]
    if quantity not in known:
        rule = f"a column of the table of rounds{hint(quantity, known)}"
        raise InputError(f"quantity = {shown(quantity)}: must be {rule}")
    figure = new_figure(6.0, 4.2)
    axes = figure.subplots()
    x_column, size, unit = AGAINST[against], 1.0, ""
    if against == "time":
        size, unit = time_unit(max(float(t[x_column].max()) for ts in curves.values() for t in ts))
    scale = 100.0 if "accuracy" in quantity else 1.0
    for policy, tables in curves.items():
        rows = min(len(table[x_column]) for table in tables)
        x, y = (np.stack([t[name][:rows] for t in tables]) for name in (x_column, quantity))
        # Rounds are counted from 1, as in the terminal.
        x = x + 1 if against == "round" else x
        label = plain((labels or {}).get(policy, policy))
        style = policy_style(policy, list(curves)) | {"label": label}
        draw_seeds(axes, x / size, y * scale, style)
    words = f"simulated training time ({unit})" if against == "time" else WORDS[against]
    axes.set_xlabel(words)
    axes.set_ylabel(WORDS.get(quantity, quantity + (" (%)" if scale > 1 else "")))
    tidy_axes(axes)
    legend_below(figure, axes)
    return figure


def _is_number(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "fiub"
