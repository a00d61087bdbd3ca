"""The tables of `fedrt bench`: policies, worlds, and what training says of the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from fedrt.bench.scores import BOUND
from fedrt.bench.view import (
    by_training,
    mean_over_j,
    mean_ratio,
    mean_time,
    scored_first,
    work_said,
)
from fedrt.policies.spec import policy_labels
from fedrt.report.folding import folded_policy
from fedrt.units import readable_time, signed_percent

OVER = "▲"
"""Marks a policy that spends more on some device than the bound's plans may."""
WIDTH = 7
"""Of a column of the table of worlds."""


def bench_tables(data: Mapping[str, Any]) -> Iterator[Table]:
    """The tables that the command prints."""
    labels = policy_labels(data["policies"])
    yield policies_table(data, labels)
    if any(each["worlds"] for each in data["summary"].values()):
        yield worlds_table(data, labels)
    if any(each["other_work"] for each in data["summary"].values()):
        yield other_table(data, labels)
    if data["learned"]:
        yield learned_table(data["learned"])


def policies_table(data: Mapping[str, Any], labels: Mapping[str, str]) -> Table:
    """One row for each policy that did the same work as the bound's plans on some world."""
    seeds, worlds = len(data["seeds"]), len(data["worlds"])
    table = Table(
        title=f"bench: the same work, {worlds} world{'s' if worlds > 1 else ''},"
        f" {seeds} seed{'s' if seeds > 1 else ''}",
        caption="percent above the bound, where there is one; energy against fedrt's",
    )
    table.add_column("", no_wrap=True)
    for name in ("above, mean", "most", "worlds", "first", "over budget", "energy"):
        table.add_column(name, justify="right")
    for policy in scored_first(data):
        each = data["summary"][policy]
        table.add_row(
            folded_policy(labels[policy]),
            _percent(each["above_bound_mean"]),
            _percent(each["above_bound_most"]),
            str(each["worlds"]),
            str(each["first"]),
            f"on {each['over_budget_worlds']}" if each["over_budget_worlds"] else "-",
            _percent(None if each["energy_ratio"] is None else each["energy_ratio"] - 1),
        )
    return table


def worlds_table(data: Mapping[str, Any], labels: Mapping[str, str]) -> Table:
    """The score of every policy on every world."""
    table = Table(
        title="percent above the bound; * above the quickest policy instead",
        caption=f"{OVER} spends more on some device than its budget, or than fedrt where that"
        " cannot keep it; - did other work",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("", no_wrap=True)
    policies = scored_first(data)
    for policy in policies:
        table.add_column(_narrow(labels[policy]), justify="right", no_wrap=True)
    for name, world in data["worlds"].items():
        mark = "" if world["against"] == BOUND else " *"
        cells = [score_text(world["policies"][policy]) for policy in policies]
        table.add_row(escape(name) + mark, *cells)
    return table


def score_text(each: Mapping[str, Any]) -> str:
    """The score of a policy on a world in percent, with its mark."""
    if each["above"] is None:
        return "-"
    percent = 100 * each["above"]["mean"]
    text = f"{percent:.1f}" if abs(percent) < 99.95 else f"{percent:.0f}"
    return text + (OVER if any(each["over_limit_devices"]) else "")


def _narrow(name: str) -> str:
    """A name on lines that fit a column of the table of worlds, cut at hyphens if it can be."""
    lines: list[str] = []
    for part in re.findall(r"[^-]+-?|-", name):
        for piece in (part[i : i + WIDTH] for i in range(0, len(part), WIDTH)):
            if lines and len(lines[-1] + piece) <= WIDTH:
                lines[-1] += piece
            else:
                lines.append(piece)
    return escape("\n".join(lines))


def other_table(data: Mapping[str, Any], labels: Mapping[str, str]) -> Table:
    """What policies did other than the bound's plans, and the trained time to an accuracy."""
    goals = {
        name: f"{name}, {100 * subset['accuracy']:g} %" for name, subset in data["trained"].items()
    }
    table = Table(
        title="other work on some world: ranked by training alone",
        caption="simulated time until the stated accuracy is reached, mean over trained seeds",
    )
    table.add_column("", no_wrap=True)
    table.add_column("what is different")
    for goal in goals.values():
        table.add_column(goal, justify="right")
    for policy in by_training(data):
        words = ", ".join(work_said(data, policy))
        cells = [trained_text(data["trained"][name]["policies"][policy]) for name in goals]
        table.add_row(folded_policy(labels[policy]), words or "-", *cells)
    return table


def trained_text(found: Mapping[str, Any] | None) -> str:
    """The trained time to an accuracy: a mean, or why there is none."""
    if found is None:
        return "not trained"
    mean, reached = mean_time(found), sum(each is not None for each in found["time_s"])
    if mean is None:
        return f"never, {len(found['time_s'])} seeds" if not reached else f"on {reached} seeds only"
    return readable_time(mean)


def learned_table(rows: list[dict[str, Any]]) -> Table:
    """Learned policies, each on a world and seeds of its own."""
    table = Table(title="learned policies, on worlds and seeds of their own")
    table.add_column("", no_wrap=True)
    table.add_column("world")
    for name in ("time", "against fedrt-plus", "over budget"):
        table.add_column(name, justify="right")
    for row in rows:
        beside = row["beside"].get("fedrt-plus")
        against = None if beside is None else mean_ratio(row["time_s"], beside["time_s"]) - 1
        over = mean_over_j(row)
        table.add_row(
            folded_policy(row["name"]),
            escape(f"{row['world']}, {len(row['seeds'])} unseen seeds"),
            readable_time(sum(row["time_s"]) / len(row["time_s"])),
            _percent(against),
            f"{over:.4g} J" if over else "-",
        )
    return table


def _percent(change: float | None) -> str:
    return "-" if change is None else signed_percent(change)


def bounds_table(made: Mapping[str, Mapping[str, Any]]) -> Table:
    """The bounds that were made, for each world and seed."""
    table = Table(title="bounds, now in the package")
    for name in ("world", "seed", "bound", "devices with a raised limit", "open rounds"):
        table.add_column(name, justify="left" if name == "world" else "right")
    for world, seeds in made.items():
        for seed, found in seeds.items():
            counts = (str(found["raised_devices"]), str(found["open_rounds"]))
            table.add_row(escape(world), seed, readable_time(found["time_s"]), *counts)
    return table
