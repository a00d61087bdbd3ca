"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedrt.errors import printable
from fedrt.records.history import parts_in
from fedrt.records.summary import Summary
from fedrt.report.answers.comparisons import compared, comparison_answer
from fedrt.report.failures import failures_table
from fedrt.report.folding import folded, folded_policy
from fedrt.scenario import Scenario
from fedrt.studies.estimates import comparison, over_seeds, savings
from fedrt.studies.front import BUDGET, SCALE, FrontPoint, budget_at
from fedrt.studies.labels import BASELINES, labelled
from fedrt.studies.size_answer import verdict
from fedrt.studies.sizing import Sizing
from fedrt.studies.sweep import PointResults, Sweep
from fedrt.units import number_range, precise_time, readable_time, signed_percent

MOST_SEED_COLUMNS = 3


def comparison_table(scenario: Scenario, results: Mapping[str, Sequence[Summary]]) -> Table:
    """Time, energy, overspend and savings, one row per policy."""
    seeds = len(next(iter(results.values())))
    fleet, rounds = scenario.fleet, scenario.rounds
    against = [name for name in BASELINES if name in results and len(results) > 1]
    caption = "energy: a device's total, mean over devices"
    table = Table(
        title=f"{escape(scenario.name)}: {fleet.num_devices} devices, {fleet.num_edges} edges,"
        f" {rounds.global_rounds} rounds, {seeds} seed{'s' if seeds > 1 else ''}",
        caption=f"{caption}. vs: time, paired by seed." if against else caption,
    )
    table.add_column("policy", no_wrap=True)
    for name in ("time", "energy", "over budget"):
        table.add_column(name, justify="right")
    for name in against:
        # Wide enough for any percentage, so that a narrow terminal breaks none.
        table.add_column(f"vs {name}", justify="right", overflow="fold", min_width=6)
    for policy, runs in results.items():
        time = over_seeds([run["total_time_s"] for run in runs])
        energy = over_seeds([run["energy_j_mean"] for run in runs])
        devices = number_range([run["over_budget_devices"] for run in runs], "dev")
        joules = over_seeds([run["over_budget_j"] for run in runs])["mean"]
        table.add_row(
            folded_policy(policy),
            readable_time(time["mean"]) + _spread(time),
            f"{energy['mean']:.4g} J" + _spread(energy),
            f"{devices}, {joules:.3g} J" if joules else "-",
            *(_against(runs, results[name]) for name in against),
        )
    return table


def _against(runs: Sequence[Summary], baseline: Sequence[Summary]) -> str:
    """The time relative to a baseline's; empty for the baseline itself."""
    if runs is baseline:
        return ""
    saved = savings(runs, baseline)["mean"]
    return "" if saved is None else signed_percent(-saved)


def parts_table(results: Mapping[str, Sequence[Summary]]) -> Table:
    """The parts of the time (computing, upload, backhaul, waiting), one row per policy.

    Downloads and overheads are shown where the scenario has them.
    """
    caption = "mean over edges; compute and upload are of the last devices to finish"
    shown = parts_in(
        {part for runs in results.values() for run in runs for part in run["time_parts"]}
    )
    table = Table(title="where the time goes", caption=caption)
    table.add_column("policy", no_wrap=True)
    for name in shown:
        table.add_column(name.removesuffix("_s"), justify="right")
    for policy, runs in results.items():
        whole = sum(run["total_time_s"] for run in runs)
        parts = [sum(run["time_parts"].get(name, 0.0) for run in runs) for name in shown]
        shares = (f"{part / whole:.1%}" if whole else "" for part in parts)
        table.add_row(folded_policy(policy), *shares)
    return table


def classes_table(results: Mapping[str, Sequence[Summary]]) -> Table | None:
    """Energy, overspend and how often a device is the last to finish, by policy and class.

    None for fleets without classes.
    """
    if not all("classes" in run for runs in results.values() for run in runs):
        return None
    table = Table(
        title="device classes",
        caption="energy: a device's total, mean over devices; critical: the share of edge rounds"
        " in which none of its cluster finishes later",
    )
    table.add_column("policy", no_wrap=True)
    table.add_column("class", no_wrap=True)
    for name in ("devices", "energy", "over budget", "critical"):
        table.add_column(name, justify="right")
    for policy, numbers in comparison("", results)["policies"].items():
        head = folded_policy(policy)
        for name, each in numbers["classes"].items():
            energy, critical = each["energy_j_mean"], each["critical_share"]["mean"]
            over = number_range(each["over_budget_devices"]["per_seed"], "dev")
            joules = each["over_budget_j"]["mean"]
            table.add_row(
                head,
                escape(name),
                str(each["devices"]),
                "-" if energy["mean"] is None else f"{energy['mean']:.4g} J" + _spread(energy),
                f"{over}, {joules:.3g} J" if joules else "-",
                "-" if critical is None else f"{critical:.1%}",
            )
            head = ""
        table.add_section()
    return table


def _spread(value: Mapping[str, Any]) -> str:
    """The relative deviation over seeds, if there are several."""
    if len(value["per_seed"]) < 2 or not value["mean"]:
        return ""
    return f" ±{value['std'] / value['mean']:.1%}"


def print_comparison(scenario: Scenario, results: Mapping[str, Sequence[Summary]]) -> None:
    """Print all tables of a comparison."""
    console, results = Console(), labelled(results)
    console.print(comparison_table(scenario, results))
    console.print(parts_table(results))
    classes = classes_table(results)
    if classes is not None:
        console.print(classes)
    failed = failures_table(results)
    if failed is not None:
        console.print(failed)
    print_answer(console, comparison_answer(compared(comparison("", results)["policies"])))


def print_answer(console: Console, words: str) -> None:
    """Print what a study found as plain sentences, at the width of the terminal."""
    if words:
        console.print(escape(printable(words)), highlight=False)


def sweep_table(sweep: Sweep, outcomes: Sequence[PointResults]) -> Table:
    """Time, energy and overspend, one row per point and policy; the fastest of a point in bold."""
    seeds = len(sweep.seeds)
    table = Table(
        title=f"{escape(sweep.points[0].scenario.name)}: {len(sweep.points)} points,"
        f" {seeds} seed{'s' if seeds > 1 else ''}",
        caption="energy: a device's total, mean over devices",
    )
    for key in sweep.vary:
        head = folded(key, 12 if len(sweep.vary) < 3 else 8)
        table.add_column(head, justify="right", overflow="fold")
    table.add_column("policy", no_wrap=True)
    for name in ("time", "energy", "over\nbudget"):
        table.add_column(name, justify="right", no_wrap=True)
    for outcome in outcomes:
        cells = [escape(word) for word in outcome.point.settings.values()]
        for row, style in point_rows(sweep, outcome):
            table.add_row(*cells, *row, style=style)
            cells = [""] * len(cells)
        table.add_section()
    return table


def point_rows(sweep: Sweep, outcome: PointResults) -> Iterator[tuple[list[str], str]]:
    """The cells and style of each policy at one point."""
    ran = {
        name: {
            key: over_seeds([run[key] for run in runs])
            for key in ("total_time_s", "energy_j_mean", "over_budget_devices")
        }
        for name, runs in outcome.results.items()
    }
    fastest = min((ran[name]["total_time_s"]["mean"] for name in ran), default=None)
    for name in sweep.policies:
        if name not in ran:
            yield [folded_policy(name), "infeasible", "", ""], ""
            continue
        time, energy, devices = ran[name].values()
        yield (
            [
                folded_policy(name),
                readable_time(time["mean"]) + _spread(time),
                f"{energy['mean']:.4g} J",
                number_range(devices["per_seed"], "dev") if devices["mean"] else "-",
            ],
            "bold" if time["mean"] == fastest and len(ran) > 1 else "",
        )


def size_table(found: Sizing, seeds: Sequence[int], policy: str) -> Table:
    """All values tried, their times on each seed, and whether they will do."""
    keeps = "in time" if found.overspend else "in time with every device within its budget"
    table = Table(
        title=f"{escape(policy)}, deadline {readable_time(found.deadline_s)}",
        caption=f"the {found.wanted} value {keeps}, by a grid and by halving the gap beside it;"
        " between two values tried the time is taken to be monotone",
    )
    table.add_column(folded(found.span.key), justify="right")
    each_seed = len(seeds) <= MOST_SEED_COLUMNS
    heads = [f"seed {seed}" for seed in seeds] if each_seed else ["fastest seed", "slowest seed"]
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("makes it")
    for tried in found.tries:
        times_s = tried.times_s
        if times_s and not each_seed:
            times_s = (min(times_s), max(times_s))
        cells = [precise_time(time) for time in times_s] or [""] * len(heads)
        style = "bold" if tried is found.answer else ""
        table.add_row(f"{tried.value:.6g}", *cells, escape(verdict(found, tried)), style=style)
    return table


def front_table(sweep: Sweep, points: Sequence[FrontPoint]) -> Table:
    """Time, energy and overspend under every budget; efficient points are marked and in bold."""
    caption = (
        "* efficient: every device within its budget, and no other such point is as good in time"
        " and energy and better in one"
    )
    if not any(point.efficient for point in points):
        caption = "no point is efficient: under each some device is over its budget"
    table = Table(
        title=f"{escape(sweep.points[0].scenario.name)}: time and energy over budgets",
        caption=caption,
    )
    scaled = SCALE in sweep.vary
    table.add_column("budgets" if scaled else "J per edge\nround", justify="right")
    table.add_column("policy", no_wrap=True)
    for name in ("time", "energy", "over\nbudget"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    found = {(point.budget_j, point.policy): point for point in points}
    for each in sweep.points:
        word = f"x {each.settings[SCALE]}" if scaled else each.settings[BUDGET]
        budget_j = budget_at(each)
        for policy in sweep.policies:
            point = found.get((budget_j, policy))
            style = "bold" if point is not None and point.efficient else ""
            table.add_row(word, folded_policy(policy), *front_cells(point), style=style)
            word = ""
        table.add_section()
    return table


def front_cells(point: FrontPoint | None) -> list[str]:
    """The numbers of a point of the front; None is a point that strict budgets stopped."""
    if point is None:
        return ["infeasible", "", "", ""]
    over = number_range(point.over_by_seed, "dev") if point.over_budget_devices else "-"
    time, energy = readable_time(point.time_s), f"{point.energy_j:.4g} J"
    return [time, energy, over, "*" if point.efficient else ""]
