"""The blocks of docs/bench.md: the committed scores of the bench (`figures.py`)."""

from __future__ import annotations

from functools import cache
from typing import Any

from figure_sources import RESULTS, read_json

from fedrt.bench.scores import BOUND
from fedrt.bench.view import (
    by_training,
    mean_over_j,
    mean_ratio,
    mean_time,
    scored_first,
    work_said,
)
from fedrt.report.bench.table import score_text
from fedrt.units import readable_time

FOLDER = RESULTS / "bench"
OURS = "fedrt-plus"


@cache
def bench() -> dict[str, Any]:
    """The committed scores."""
    found: dict[str, Any] = read_json(FOLDER / "bench.json")
    return found


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def policies() -> str:
    """Every policy that did the same work somewhere, over all worlds."""
    lines = [
        "| | above the bound, mean | most | on | worlds scored | first on | over budget on "
        "| energy against `fedrt` |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for policy in scored_first(bench()):
        each = bench()["summary"][policy]
        energy = f"{100 * (each['energy_ratio'] - 1):+.1f} %"
        lines.append(
            f"| `{policy}` | {_percent(each['above_bound_mean'])}"
            f" | {_percent(each['above_bound_most'])} | `{each['most_on']}`"
            f" | {each['worlds']} | {each['first']} | {each['over_budget_worlds']} | {energy} |"
        )
    return _text(lines)


def worlds() -> str:
    """Percent above the bound of every policy on every world."""
    names = scored_first(bench())
    lines = [f"| | {' | '.join(f'`{name}`' for name in names)} |", "|---" * (len(names) + 1) + "|"]
    for name, world in bench()["worlds"].items():
        mark = "" if world["against"] == BOUND else " \\*"
        cells = [score_text(world["policies"][policy]) for policy in names]
        lines.append(f"| `{name}`{mark} | {' | '.join(cells)} |")
    return _text(lines)


def standing() -> str:
    """Where `fedrt-plus` is first or near, and where it is not."""
    found = bench()["standing"]
    near = [name for name, each in found.items() if each["near"]]
    lines = [
        f"Among policies of the same work `{OURS}` is first or within 1 % of the first on"
        f" {len(near)} of {len(found)} worlds, also counting those that overspend."
    ]
    for name, each in found.items():
        if not each["near"]:
            behind = _percent(each["behind"])
            lines.append(f"- On `{name}` it is {behind} behind `{each['first']}`.")
    return _text(lines)


def others() -> str:
    """What policies of other work do, and the trained time to an accuracy."""
    subsets = bench()["trained"]
    heads = [f"{name}, {100 * subset['accuracy']:g} %" for name, subset in subsets.items()]
    lines = [f"| | what is different | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    for policy in by_training(bench()):
        words = ", ".join(work_said(bench(), policy)) or "nothing"
        cells = [_trained(subset["policies"][policy]) for subset in subsets.values()]
        lines.append(f"| `{policy}` | {words} | {' | '.join(cells)} |")
    return _text(lines)


def _trained(found: dict[str, Any] | None) -> str:
    """The mean time to an accuracy and the joules until then, or why there is none."""
    if found is None:
        return "not trained"
    mean, reached = mean_time(found), [t for t in found["time_s"] if t is not None]
    if mean is None:
        return f"reached on {len(reached)} of {len(found['time_s'])} seeds"
    energy = sum(found["energy_j_mean"]) / len(found["energy_j_mean"])
    return f"{readable_time(mean)}, {energy:.3g} J"


def learned() -> str:
    """Learned policies, each on a world and seeds of its own."""
    rows = bench()["learned"]
    if not rows:
        return "No learned policy has been scored yet.\n"
    lines = [
        f"| | world | time | over budget (`{OURS}`) | time against others |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        count = len(row["seeds"])
        against = ", ".join(
            f"{100 * (mean_ratio(row['time_s'], each['time_s']) - 1):+.1f} % against `{name}`"
            for name, each in row["beside"].items()
        )
        theirs = mean_over_j(row["beside"][OURS])
        lines.append(
            f"| {row['name']} | `{row['world']}`, {count} unseen seeds"
            f" | {readable_time(sum(row['time_s']) / count)}"
            f" | {mean_over_j(row):.4g} J ({theirs:.4g}) | {against} |"
        )
    return _text(lines)


def speed() -> str:
    """The processor seconds of the slowest run, and of all."""
    found = read_json(FOLDER / "speed.json")
    most = {(w, p): s for w, each in found["cpu_s_most"].items() for p, s in each.items()}
    (world, policy), slowest = max(most.items(), key=lambda item: item[1])
    runs = len(most) * len(bench()["seeds"])
    return (
        f"All {runs} runs together took {found['wall_s'] / 60:.1f} minutes with {found['jobs']}"
        f" processes on a machine with little else to do, and {found['cpu_s'] / 60:.1f} minutes of"
        f" processor time in the policies. The slowest, `{policy}` on `{world}`, took"
        f" {slowest:.1f} s.\n"
    )


BLOCKS = {
    "bench-policies": policies,
    "bench-worlds": worlds,
    "bench-standing": standing,
    "bench-others": others,
    "bench-learned": learned,
    "bench-speed": speed,
}
