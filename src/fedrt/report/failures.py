"""Failures in runs and their cost, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from fedrt.records.columns.failures import COUNTS
from fedrt.records.summary import Summary
from fedrt.report.folding import folded_policy
from fedrt.units import readable_time, signed_percent

MOST_SHOWN = 5


def failure_rows(faults: Mapping[str, Any]) -> dict[str, str]:
    """The lines about failures in one run: heading and text."""
    updates = faults["updates"]
    failed = ", ".join(f"{updates[name]} {name}" for name in COUNTS[2:] if updates[name])
    rows = {"updates counted": f"{updates['delivered']} of {updates['expected']}"}
    if failed:
        rows["updates lost"] = failed
    down = {
        "server rounds down": faults["server_rounds_down"],
        "link rounds down": faults["link_rounds_down"],
        "rounds in several parts": faults["rounds_in_parts"],
        "device rounds slowed": faults["straggling"],
    }
    rows |= {name: str(count) for name, count in down.items() if count}
    rows["energy for nothing"] = f"{faults['wasted_j']:.4g} J"
    beyond = faults["beyond_plan_s"]
    # By the plans of what was up; a deadline may end a round before its plan does.
    if beyond < 0:
        rows["time short of the plans"] = f"{readable_time(-beyond)}, where deadlines ended rounds"
    else:
        rows["time beyond the plans"] = readable_time(beyond)
    for number, each in enumerate(faults["refused"][:MOST_SHOWN]):
        where = f"edge {each['edge']}, round {each['global_round'] + 1}.{each['edge_round'] + 1}"
        words = f"device {each['device']}, {where}: {each['reason']}"
        rows["refused" if number == 0 else " " * number] = words
    if updates["refused"] > MOST_SHOWN:
        rows["and"] = f"{updates['refused'] - MOST_SHOWN} more, in devices.parquet"
    return rows


def failures_table(results: Mapping[str, Sequence[Summary]]) -> Table | None:
    """The failures of each policy, mean over seeds; None if nothing can fail."""
    if not all("faults" in run for runs in results.values() for run in runs):
        return None
    table = Table(
        title="what failed",
        caption="updates counted and lost, energy spent on lost ones, time against the plans'"
        " (less where deadlines ended rounds before); mean over seeds",
    )
    sums = {
        policy: {name: _mean([run["faults"]["updates"][name] for run in runs]) for name in COUNTS}
        for policy, runs in results.items()
    }
    shown = [name for name in COUNTS[2:] if any(sums[policy][name] for policy in sums)]
    table.add_column("policy", no_wrap=True)
    for name in ("counted", *shown, "wasted", "time"):
        table.add_column(name, justify="right")
    for policy, runs in results.items():
        every = sums[policy]
        beyond = _mean([run["faults"]["beyond_plan_s"] for run in runs])
        whole = _mean([run["total_time_s"] for run in runs])
        table.add_row(
            folded_policy(policy),
            f"{every['delivered'] / every['expected']:.1%}" if every["expected"] else "-",
            *(f"{every[name]:,.0f}" for name in shown),
            f"{_mean([run['faults']['wasted_j'] for run in runs]):.3g} J",
            signed_percent(beyond / (whole - beyond)) if whole > beyond else "-",
        )
    return table


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
