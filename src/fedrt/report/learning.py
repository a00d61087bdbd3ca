"""Tables and figures of trained runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedrt.records.directory import run_name
from fedrt.records.summary import Summary
from fedrt.report.failures import failure_rows, failures_table
from fedrt.report.figures import (
    draw_seeds,
    legend_below,
    new_figure,
    plain,
    plain_log,
    policy_style,
    tidy_axes,
)
from fedrt.report.folding import folded_policy
from fedrt.report.tables import comparison_table
from fedrt.scenario import Scenario
from fedrt.studies.compare import differences
from fedrt.studies.estimates import over_seeds
from fedrt.studies.labels import labelled
from fedrt.units import readable_time, signed_percent, time_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def print_run(summary: Summary, whole_s: float, *, resumed: bool = False) -> None:
    """Print the outcome of one trained run; `whole_s` are the real seconds of the command."""
    console = Console()
    table = Table(
        title=escape(f"{summary['scenario']}, {summary['policy']}, seed {summary['seed']}"),
        show_header=False,
    )
    over = summary["over_budget_devices"]
    rows = {
        "simulated time": readable_time(summary["total_time_s"]),
        "energy of a device, mean": f"{summary['energy_j_mean']:.4g} J",
        "energy of a device, most": f"{summary['energy_j_max']:.4g} J",
        "devices over budget": f"{over}, {summary['over_budget_j']:.3g} J" if over else "none",
        "best accuracy": f"{summary['best_accuracy']:.2%}",
        "final accuracy": f"{summary['final_accuracy']:.2%}",
        "real time": _real_time(summary["wall_s"], whole_s, resumed),
    }
    for target, reached in summary["targets"].items():
        text = "never"
        if reached["time_s"] is not None:
            text = f"{readable_time(reached['time_s'])}, {reached['energy_j_mean']:.4g} J"
        rows[f"accuracy {target} reached"] = text
    if "faults" in summary:
        rows |= failure_rows(summary["faults"])
    for name, value in rows.items():
        table.add_row(escape(name), escape(value))
    console.print(table)


def _real_time(rounds_s: float, whole_s: float, resumed: bool) -> str:
    """The real time of the command, and the part that training and evaluation took."""
    whole, rounds = readable_time(whole_s), readable_time(rounds_s)
    if resumed:
        return f"{whole} since resumed; all rounds took {rounds}"
    return f"{whole}, {rounds} of it for the rounds"


def accuracy_table(results: Mapping[str, Sequence[Summary]]) -> Table:
    """Best and final accuracy, targets, and differences to the first policy paired by seed."""
    first = next(iter(results))
    table = Table(
        title="accuracy of the average model",
        caption=f"differences to {first} are paired by seed: mean and deviation over seeds",
    )
    table.add_column("policy", no_wrap=True)
    targets = list(results[first][0]["targets"])
    names = ["best", "final", *(f"{what} - {folded_policy(first)}" for what in ("best", "time"))]
    for name in [*names, *(f"to {target}" for target in targets)]:
        table.add_column(name, justify="right", overflow="fold")
    for policy, runs in results.items():
        best = over_seeds([run["best_accuracy"] for run in runs])
        final = over_seeds([run["final_accuracy"] for run in runs])
        cells = [_percent(best), _percent(final), *_paired(runs, results[first])]
        for target in targets:
            times = [run["targets"][target]["time_s"] for run in runs]
            known = [value for value in times if value is not None]
            if len(known) == len(times):
                cells.append(readable_time(float(np.mean(known))))
            else:
                cells.append(f"{len(known)} of {len(times)} seeds" if known else "never")
        table.add_row(folded_policy(policy), *cells)
    return table


def _percent(value: Mapping[str, float | list[float]]) -> str:
    mean, deviation = float(value["mean"]), float(value["std"])  # type: ignore[arg-type]
    return f"{mean:.2%}" + (f" ±{deviation:.2%}" if deviation else "")


def _paired(runs: Sequence[Summary], first: Sequence[Summary]) -> list[str]:
    """Differences to the first policy in best accuracy and in time."""
    if runs is first:
        return ["", ""]
    apart = differences(runs, first)
    points, time, several = apart["best_accuracy"], apart["total_time"], len(runs) > 1
    said = signed_percent(points["mean"], 2).removesuffix("%")
    said += f" ±{100 * points['std']:.2f}" if several else ""
    if time["mean"] is None:
        return [said, ""]
    return [said, signed_percent(time["mean"]) + (f" ±{time['std']:.1%}" if several else "")]


def print_training_comparison(scenario: Scenario, results: Mapping[str, Sequence[Summary]]) -> None:
    """Print time, energy and accuracy of all policies."""
    console, results = Console(), labelled(results)
    console.print(comparison_table(scenario, results))
    console.print(accuracy_table(results))
    failed = failures_table(results)
    if failed is not None:
        console.print(failed)


def accuracy_figure(
    out: Path,
    policies: Sequence[str],
    seeds: Sequence[int],
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Accuracy and loss against simulated time, mean over seeds, with their range shaded."""
    from pyarrow import parquet

    figure = new_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    columns = ["ends_at_s", "accuracy", "loss"]
    curves = {}
    for policy in policies:
        folders = [out / run_name(policy, seed) for seed in seeds]
        tables = [parquet.read_table(f / "rounds.parquet", columns=columns) for f in folders]
        curves[policy] = {c: np.stack([table[c].to_numpy() for table in tables]) for c in columns}
    size, unit = time_unit(max(float(curve["ends_at_s"].max()) for curve in curves.values()))
    for policy, curve in curves.items():
        style = policy_style(policy, policies) | {
            "label": plain((labels or {}).get(policy, policy))
        }
        for axes, name, scale in ((left, "accuracy", 100.0), (right, "loss", 1.0)):
            draw_seeds(axes, curve["ends_at_s"] / size, curve[name] * scale, style)
    for axes, label in ((left, "test accuracy of the average model (%)"), (right, "training loss")):
        axes.set_xlabel(f"simulated training time ({unit})")
        axes.set_ylabel(label)
        tidy_axes(axes)
    if any((np.asarray(line.get_ydata()) > 0).any() for line in right.get_lines()):
        # Not where nobody has trained.
        right.set_yscale("log")
        plain_log(right.yaxis)
    legend_below(figure, left)
    return figure
