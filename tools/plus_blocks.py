"""The blocks of the pages that tell of `fedrt-plus`: its gains, its losses, the bound, training."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from figure_sources import ROOT, Trained, cell, is_there, measured, read_json

from fedrt.errors import InputError, reason
from fedrt.experiments.cells import BEYOND, SEEDS, TABLE, Column

sys.path.insert(0, str(ROOT / "benchmarks"))

import beyond
from held_out import BUDGETS_J, PRESETS

PLUS = "fedrt-plus"
NEAR_POINTS = 0.3
"""How far below that of `fedrt` an accuracy may be: our aim."""
BOUND_SETTINGS = ("cifar10-iid-1.5j", "cifar10-iid-2j", "femnist-1.5j", "femnist-2j", "fmnist-iid")
"""The columns that are trained in the settings of the bound."""
HELD_OUT = [f"{title} {joules:g}" for title in PRESETS for joules in BUDGETS_J]
HELD_OUT_AIM = 0.08
"""By how much `fedrt-plus` was to be quicker than `fedrt` in the mean of each setting."""


def bound_by_seed() -> str:
    """The bound in seconds and how far above it both policies stay, each seed."""
    settings = measured("bound").settings
    lines = ["| | bound, s | `fedrt` | `fedrt-plus` |", "|---|---|---|---|"]
    for name in settings:
        own = settings[name]
        bound = ", ".join(f"{value:.0f}" for value in own.bound.time_s.per_seed)
        above = [_percents(own.policies[policy].above_bound.per_seed) for policy in ("fedrt", PLUS)]
        lines.append(f"| {name} | {bound} | {above[0]} | {above[1]} |")
    return _text(lines)


def _percents(values: Sequence[float]) -> str:
    return ", ".join(f"{100 * value:.1f}" for value in values) + " %"


def bound_notes() -> str:
    """On whom the bound rests where budgets cannot be kept, and who is over the limits."""
    lines = []
    settings = measured("bound").settings
    for name in settings:
        own = settings[name]
        raised, plus = own.bound.raised_devices, own.policies[PLUS]
        if any(raised):
            count = ", ".join(str(value) for value in raised)
            lines.append(
                f"- {name}: the limit of {count} devices (by seed) is what `fedrt` spends on them,"
                " as it cannot keep their budgets."
            )
        for what, counts in (
            ("devices spend more than the limit", plus.devices_over_limit),
            ("rounds leave more than rho", plus.rounds_over_rho),
        ):
            if any(counts):
                count = ", ".join(str(value) for value in counts)
                lines.append(f"- {name}: under `fedrt-plus` {count} {what} (by seed).")
    return _text(lines or ["In all of them both policies keep every budget, and `fedrt-plus` rho."])


def bound_table() -> str:
    """The settings of the bound, seed 0."""
    settings = measured("bound").settings
    lines = ["| setting | rho | bound | `fedrt` | `fedrt-plus` |", "|---|---|---|---|---|"]
    for name in settings:
        own = settings[name]
        cells = [f"{own.bound.rho[0]:.4f}", f"{own.bound.time_s.per_seed[0]:,.0f}"]
        for policy in ("fedrt", PLUS):
            each = own.policies[policy]
            above = 100 * each.above_bound.per_seed[0]
            cells.append(f"{each.total_time_s.per_seed[0]:,.0f}, {above:+.1f} %")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return _text(lines)


def _worlds() -> dict[str, Any]:
    return read_json(ROOT / "benchmarks" / "results" / "beyond.json")


def beyond_worlds() -> str:
    """Every world, the worst seed beside the mean."""
    return beyond.worlds_table(_worlds())


def beyond_parts() -> str:
    """Each part of the policy alone."""
    return beyond.parts_table(_worlds())


def beyond_slower() -> str:
    """Every world and seed in which `fedrt-plus` is slower than `fedrt` or overspends more."""
    data = _worlds()
    lines, count, seen = [], 0, set()
    for title, worlds in data["worlds"].items():
        for name, results in worlds.items():
            if isinstance(results, str) or str(results) in seen:
                continue
            seen.add(str(results))
            for k, seed in enumerate(data["seeds"]):
                count += 1
                slower = beyond.changes(results, PLUS, "total_time_s")[k]
                over, theirs = (results[p]["over_budget_j"][k] for p in (PLUS, "fedrt"))
                said = [f"{slower:+.1%} time"] if slower > 0 else []
                if over > theirs + 0.05:
                    said.append(f"{over:.1f} J over budget, `fedrt` {theirs:.1f}")
                if said:
                    lines.append(f"- {title}: {name}, seed {seed}: {'; '.join(said)}")
    head = (
        f"In {len(lines)} of {count} worlds `fedrt-plus` is slower than `fedrt` or overspends more"
    )
    return _text([f"{head}:", "", *lines] if lines else [f"{head}."])


def held_out() -> str:
    """The paper's settings on seeds that nothing was made with, and what of the aim is missed."""
    data = read_json(ROOT / "benchmarks" / "results" / "held_out.json")
    settings = {name: own for worlds in data["worlds"].values() for name, own in worlds.items()}
    missed = []
    for name, own in settings.items():
        each = beyond.changes(own, PLUS, "total_time_s")
        mean = sum(each) / len(each)
        if mean > -HELD_OUT_AIM:
            missed.append(f"- {name}: {-100 * mean:.1f} % in the mean")
        pairs = zip(data["seeds"], each, strict=True)
        slower = [f"seed {seed} {100 * part:+.1f} %" for seed, part in pairs if part >= 0]
        if slower:
            missed.append(f"- {name}: not quicker on {', '.join(slower)}")
    aim = (
        f"The aim: quicker than `fedrt` on every seed, and by {100 * HELD_OUT_AIM:.0f} % or more in"
    )
    held = f"the mean of {len(data['seeds'])} seeds. It holds in "
    held += f"all {len(settings)} settings." if not missed else "all settings but:"
    lines = [aim, held, *([""] if missed else []), *missed]
    to_come = [name for name in HELD_OUT if name not in settings]
    if to_come:
        lines += ["", f"Still to be run: {', '.join(to_come)}."]
    return beyond.worlds_table(data) + "\n" + _text(lines)


def random_worlds() -> str:
    """How often another policy is better than `fedrt-plus` in random worlds, and where."""
    data = read_json(ROOT / "benchmarks" / "results" / "random_worlds.json")
    summary, worlds = data["summary"], {str(w["number"]): w["world"] for w in data["worlds"]}
    beaten, more = summary["beaten_by_more_than_1_percent"], summary["overspends_more_than_fedrt"]
    saved = summary["time_saved_against_fedrt"]
    least, _, _, half, _, _, most = saved["quantiles_0_5_25_50_75_95_100"]
    lines = [
        f"In {summary['worlds']} random worlds a policy that does the same work and overspends",
        f"no more is faster than `fedrt-plus` by more than 1 % in {len(beaten)}, by"
        f" {100 * summary['worst_beaten']:.2f} % at most;",
        f"`fedrt-plus` overspends more than `fedrt` in {len(more)}. Against `fedrt` it saves"
        f" {100 * saved['mean']:.1f} %",
        f"of the time in the mean, {100 * half:.1f} % in the median world,"
        f" {100 * least:.1f} % in the worst and {100 * most:.1f} % in the best.",
    ]
    named = [f"- world {number}: {said}; {worlds[number]}" for number, said in beaten.items()]
    named += [f"- world {number}: overspends more; {worlds[str(number)]}" for number in more]
    return _text([*lines, *([""] if named else []), *named])


def plus_table() -> str:
    """Time and energy in five settings without training."""
    data = _worlds()
    lines = ["| | time, mean | worst seed | energy, mean |", "|---|---|---|---|"]
    for name, results in data["ablation"].items():
        time, energy = (
            f"{100 * beyond.change(results, PLUS, key):+.1f} %"
            for key in ("total_time_s", "energy_j_mean")
        )
        worst = 100 * max(beyond.changes(results, PLUS, "total_time_s"))
        lines.append(f"| {name} | {time} | {worst:+.1f} % | {energy} |")
    return _text(lines)


def beyond_trained() -> str:
    """The table of results/beyond.md."""
    path = ROOT / "results" / "beyond.md"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    return _text([line for line in lines if line.startswith("|")])


def pairs_of(columns: Sequence[Column]) -> dict[Column, list[tuple[Trained, Trained]]]:
    """By column, `fedrt-plus` and `fedrt` on the seeds that both are there for."""
    pairs = {}
    for column in columns:
        names = [(f"{column.name}/{PLUS}-{s}", f"{column.name}/fedrt-{s}") for s in SEEDS]
        there = [pair for pair in names if all(is_there(name) for name in pair)]
        if there:
            pairs[column] = [(cell(ours), cell(theirs)) for ours, theirs in there]
    return pairs


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def beyond_trained_said() -> str:
    """Which settings reach the aim for accuracy, and which do not."""
    lines = []
    for what, words in (
        ("late", "the mean of the last ten evaluations"),
        ("final", "the last one"),
    ):
        points = {
            column.title: _mean([getattr(a, what) - getattr(b, what) for a, b in pairs])
            for column, pairs in pairs_of(BEYOND).items()
        }
        missed = {title: value for title, value in points.items() if value < -NEAR_POINTS}
        named = ", ".join(f"{title} {value:+.2f}" for title, value in missed.items())
        lines.append(
            f"- By {words}, {len(points) - len(missed)} of {len(points)} settings are within"
            f" {NEAR_POINTS} points of `fedrt` or above, mean over their seeds"
            + (f"; not: {named}." if missed else ".")
        )
    return _text(lines)


def plus_said() -> str:
    """What the README says of `fedrt-plus`."""
    data, settings = _worlds(), measured("bound").settings
    every = {name: beyond.changes(r, PLUS, "total_time_s") for name, r in data["ablation"].items()}
    times = [-100 * _mean(values) for values in every.values()]
    joules = [-100 * beyond.change(r, PLUS, "energy_j_mean") for r in data["ablation"].values()]
    above = sorted(
        100 * value
        for name in settings
        for value in settings[name].policies[PLUS].above_bound.per_seed
    )
    columns = [column for column in BEYOND if column.name in BOUND_SETTINGS]
    trained = pairs_of(columns)
    late = [_mean([a.late - b.late for a, b in pairs]) for pairs in trained.values()]
    alone = sum(len(pairs) == 1 for pairs in trained.values())
    worst = 100 * max(max(values) for values in every.values())
    seeds, count = len(data["seeds"]), sum(len(values) for values in every.values())
    return _text(
        [
            f"Beyond the paper, in five settings without training: `fedrt-plus` takes"
            f" {_range(times, '.0f')} % less time",
            f"than `fedrt` (mean of {seeds} seeds; worst of {count} worlds {worst:+.1f} %)"
            f" at {_range(joules, '.0f')} % less energy, and stays {above[0]:.1f} to"
            f" {above[-1]:.1f} % above a lower bound",
            "on plans of the same work within `fedrt`'s contraction and energy, median"
            f" {above[len(above) // 2]:.1f} %. Trained in the same settings, the mean",
            f"accuracy of the last ten evaluations is {min(late):+.2f} to {max(late):+.2f} points"
            " from `fedrt`'s;",
            f"{alone} of the {len(trained)} settings rest on one seed"
            " ([docs/beyond.md](docs/beyond.md)).",
        ]
    )


def plus_in_table() -> str:
    """`fedrt-plus` against `fedrt` in the columns of the table, trained."""
    heads = ("time", "energy", "best accuracy, points, each seed", "mean of the last ten")
    lines = ["| | seeds | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for column, pairs in pairs_of(TABLE).items():
        time, energy = (
            f"{100 * _mean([getattr(a, q) / getattr(b, q) - 1 for a, b in pairs]):+.1f} %"
            for q in ("time_h", "energy_j")
        )
        best, late = (
            ", ".join(f"{getattr(a, q) - getattr(b, q):+.2f}" for a, b in pairs)
            for q in ("best", "late")
        )
        lines.append(f"| {column.title} | {len(pairs)} | {time} | {energy} | {best} | {late} |")
    return _text(lines)


def _range(values: Sequence[float], digits: str) -> str:
    return f"{min(values):{digits}} to {max(values):{digits}}"


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
