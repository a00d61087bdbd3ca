"""Tables and figures of trained runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedrt.measures import FURTHER, MEASURES, ON_DEVICES, Measure, measure_in, measure_of
from fedrt.records.directory import run_name
from fedrt.records.summary import Summary
from fedrt.report.answers.comparisons import compared, comparison_answer
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
from fedrt.report.tables import classes_table, comparison_table, print_answer
from fedrt.scenario import Scenario
from fedrt.studies.compare import differences
from fedrt.studies.estimates import comparison, over_seeds
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
    over, measure = summary["over_budget_devices"], measure_of(summary)
    rows = {
        "simulated time": readable_time(summary["total_time_s"]),
        "energy of a device, mean": f"{summary['energy_j_mean']:.4g} J",
        "energy of a device, most": f"{summary['energy_j_max']:.4g} J",
        "devices over budget": f"{over}, {summary['over_budget_j']:.3g} J" if over else "none",
        f"best {measure.name}": measure.say(summary[f"best_{measure.name}"]),
        f"final {measure.name}": measure.say(summary[f"final_{measure.name}"]),
        "real time": _real_time(summary["wall_s"], whole_s, resumed),
    }
    for name, value in summary.get(FURTHER, {}).items():
        rows[f"final {name}"] = "-" if value is None else _further(measure, name, value)
    for target, reached in summary["targets"].items():
        text = "never"
        if reached["time_s"] is not None:
            text = f"{readable_time(reached['time_s'])}, {reached['energy_j_mean']:.4g} J"
        rows[f"{measure.name} {target} reached"] = text
    if "stopped" in summary:
        after, why = summary["global_rounds"], summary["stopped"]["why"]
        rows["stopped early"] = f"after {after} global rounds: {why}"
    for name, each in summary.get("classes", {}).items():
        rows[f"class {name}"] = class_words(each)
    if "faults" in summary:
        rows |= failure_rows(summary["faults"])
    if "stepped_up" in summary:
        rows["codecs stepped up"] = step_up_words(summary["stepped_up"])
    for name, value in rows.items():
        table.add_row(escape(name), escape(value))
    console.print(table)


def class_words(found: Mapping[str, Any]) -> str:
    """The line about the devices of a class: energy, overspend, how often they finish last."""
    words = [f"{found['devices']} devices"]
    if found["energy_j_mean"] is not None:
        words.append(f"{found['energy_j_mean']:.4g} J each on average")
    if found["over_budget_devices"]:
        words.append(
            f"{found['over_budget_devices']} over budget by {found['over_budget_j']:.3g} J"
        )
    if found["critical_share"] is not None:
        words.append(f"last to finish in {found['critical_share']:.1%} of edge rounds")
    return ", ".join(words)


def _further(measure: Measure, name: str, value: float) -> str:
    """A further measure in words; what is about devices is shown as the run's own measure is."""
    same = name.startswith(ON_DEVICES) and measure.name in name
    known = {each.name: each for of_task in MEASURES.values() for each in of_task}
    return (measure if same else known.get(name, Measure(name))).say(value)


def step_up_words(found: Mapping[str, Any]) -> str:
    """The line about devices whose messages left too much out: how many, and the first of them."""
    first = found["named"][0]
    where = f"round {first['global_round'] + 1}.{first['edge_round'] + 1}"
    words = f"device {first['device']} in {where}, {first['from']} to {first['to']}"
    return words if found["count"] == 1 else f"{found['count']} times; first {words}"


def _real_time(rounds_s: float, whole_s: float, resumed: bool) -> str:
    """The real time of the command, and the part that training and evaluation took."""
    whole, rounds = readable_time(whole_s), readable_time(rounds_s)
    if resumed:
        return f"{whole} since resumed; all rounds took {rounds}"
    return f"{whole}, {rounds} of it for the rounds"


def accuracy_table(results: Mapping[str, Sequence[Summary]]) -> Table:
    """Best and final value, targets, and differences to the first policy paired by seed."""
    first = next(iter(results))
    measure = measure_of(results[first][0])
    lower = "" if measure.higher_is_better else ", lower is better"
    table = Table(
        title=f"{measure.name} of the average model{lower}",
        caption=f"differences to {first} are paired by seed: mean and deviation over seeds",
    )
    table.add_column("policy", no_wrap=True)
    targets = list(results[first][0]["targets"])
    names = ["best", "final", *(f"{what} - {folded_policy(first)}" for what in ("best", "time"))]
    for name in [*names, *(f"to {target}" for target in targets)]:
        table.add_column(name, justify="right", overflow="fold")
    for policy, runs in results.items():
        ends = [over_seeds([run[f"{k}_{measure.name}"] for run in runs]) for k in ("best", "final")]
        cells = [*(_spread(measure, end) for end in ends), *_paired(measure, runs, results[first])]
        for target in targets:
            times = [run["targets"][target]["time_s"] for run in runs]
            known = [value for value in times if value is not None]
            if len(known) == len(times):
                cells.append(readable_time(float(np.mean(known))))
            else:
                cells.append(f"{len(known)} of {len(times)} seeds" if known else "never")
        table.add_row(folded_policy(policy), *cells)
    return table


def _spread(measure: Measure, value: Mapping[str, Any]) -> str:
    deviation = value["std"]
    return measure.say(value["mean"]) + (f" ±{measure.say(deviation)}" if deviation else "")


def _paired(measure: Measure, runs: Sequence[Summary], first: Sequence[Summary]) -> list[str]:
    """Differences to the first policy in the best value and in time."""
    if runs is first:
        return ["", ""]
    apart = differences(runs, first)
    points, time = apart[f"best_{measure.name}"], apart["total_time"]
    said = measure.say_difference(points["mean"])
    several = len(runs) > 1 and points["std"] is not None
    said += f" ±{measure.say_difference(points['std']).removeprefix('+')}" if several else ""
    if time["mean"] is None:
        return [said, ""]
    spread = f" ±{time['std']:.1%}" if len(runs) > 1 else ""
    return [said, signed_percent(time["mean"]) + spread]


def print_training_comparison(scenario: Scenario, results: Mapping[str, Sequence[Summary]]) -> None:
    """Print time, energy and accuracy of all policies."""
    console, results = Console(), labelled(results)
    console.print(comparison_table(scenario, results))
    console.print(accuracy_table(results))
    classes = classes_table(results)
    if classes is not None:
        console.print(classes)
    failed = failures_table(results)
    if failed is not None:
        console.print(failed)
    print_answer(console, comparison_answer(compared(comparison("", results)["policies"])))


def accuracy_figure(
    out: Path,
    policies: Sequence[str],
    seeds: Sequence[int],
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """The runs' measure and loss against simulated time, mean over seeds, their range shaded."""
    from pyarrow import parquet

    first = out / run_name(policies[0], seeds[0]) / "rounds.parquet"
    measure = measure_in(parquet.read_schema(first).names)
    scale, unit = (100.0, " (%)") if measure.is_share else (1.0, "")
    figure = new_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    columns = ["ends_at_s", measure.name, "loss"]
    curves = {}
    for policy in policies:
        folders = [out / run_name(policy, seed) for seed in seeds]
        tables = [parquet.read_table(f / "rounds.parquet", columns=columns) for f in folders]
        # Seeds that stopped early are drawn as far as the shortest goes.
        rows = min(len(table) for table in tables)
        stacks = {c: np.stack([table[c].to_numpy()[:rows] for table in tables]) for c in columns}
        curves[policy] = stacks
    size, clock = time_unit(max(float(curve["ends_at_s"].max()) for curve in curves.values()))
    for policy, curve in curves.items():
        style = policy_style(policy, policies) | {
            "label": plain((labels or {}).get(policy, policy))
        }
        for axes, name, times in ((left, measure.name, scale), (right, "loss", 1.0)):
            draw_seeds(axes, curve["ends_at_s"] / size, curve[name] * times, style)
    words = f"test {measure.name} of the average model{unit}"
    for axes, label in ((left, words), (right, "training loss")):
        axes.set_xlabel(f"simulated training time ({clock})")
        axes.set_ylabel(label)
        tidy_axes(axes)
    if any((np.asarray(line.get_ydata()) > 0).any() for line in right.get_lines()):
        # Not where nobody has trained.
        right.set_yscale("log")
        plain_log(right.yaxis)
    legend_below(figure, left)
    return figure
