"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from fedrt.runs.estimate import PARTS, Summary, over_seeds, savings
from fedrt.scenario import Scenario

BASELINES = ("ce-fedavg", "mll-sgd")


def readable_time(seconds: float) -> str:
    """Seconds as a person would say them."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds:.3g} s"


def comparison_table(scenario: Scenario, results: Mapping[str, Sequence[Summary]]) -> Table:
    """Time, energy, overspend and savings, one row per policy."""
    seeds = len(next(iter(results.values())))
    fleet, rounds = scenario.fleet, scenario.rounds
    table = Table(
        title=f"{scenario.name}: {fleet.num_devices} devices, {fleet.num_edges} edges,"
        f" {rounds.global_rounds} rounds, {seeds} seed{'s' if seeds > 1 else ''}",
        caption="energy: a device's total, mean over devices. vs: time, paired by seed.",
    )
    table.add_column("policy", no_wrap=True)
    for name in ("time", "energy", "over budget", *(f"vs {name}" for name in BASELINES)):
        table.add_column(name, justify="right")
    for policy, runs in results.items():
        time = over_seeds([run["total_time_s"] for run in runs])
        energy = over_seeds([run["energy_j_mean"] for run in runs])
        devices = over_seeds([run["over_budget_devices"] for run in runs])["mean"]
        joules = over_seeds([run["over_budget_j"] for run in runs])["mean"]
        table.add_row(
            policy,
            readable_time(time["mean"]) + _spread(time),
            f"{energy['mean']:.4g} J" + _spread(energy),
            f"{devices:.3g} dev, {joules:.3g} J" if joules else "-",
            *(_against(runs, results.get(name)) for name in BASELINES),
        )
    return table


def _against(runs: Sequence[Summary], baseline: Sequence[Summary] | None) -> str:
    """The saving against a baseline; nothing against itself or one that did not run."""
    if baseline is None or runs is baseline:
        return ""
    return f"{-savings(runs, baseline)['mean']:+.1%}"


def parts_table(results: Mapping[str, Sequence[Summary]]) -> Table:
    """Where the time goes, one row per policy."""
    caption = "mean over edges; compute and upload are those of the slowest device"
    table = Table(title="where the time goes", caption=caption)
    table.add_column("policy", no_wrap=True)
    for name in PARTS:
        table.add_column(name.removesuffix("_s"), justify="right")
    for policy, runs in results.items():
        whole = sum(run["total_time_s"] for run in runs)
        parts = [sum(run["time_parts"][name] for run in runs) for name in PARTS]
        table.add_row(policy, *(f"{part / whole:.1%}" for part in parts))
    return table


def _spread(value: Mapping[str, Any]) -> str:
    """The relative deviation over seeds, where there are several."""
    if len(value["per_seed"]) < 2 or not value["mean"]:
        return ""
    return f" ±{value['std'] / value['mean']:.1%}"


def print_comparison(scenario: Scenario, results: Mapping[str, Sequence[Summary]]) -> None:
    """Both tables on stdout."""
    console = Console()
    console.print(comparison_table(scenario, results))
    console.print(parts_table(results))
