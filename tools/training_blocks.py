"""The blocks of the pages that tell of ways to train: FEMNIST's methods, and few labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from figure_sources import Trained, cell, measured

from fedrt.experiments.cells import JOINT, SEEDS, TABLE, Column

POINTS = 100
JOINT_POINTS = 1.0
"""How far below `fedrt` the mean of the last ten may be where clusters have few labels: our aim."""


def femnist_methods() -> str:
    """The mean of the last ten evaluations by method, beside that of plain SGD."""
    plain = {str(seed): cell(f"femnist/fedrt-{seed}").late for seed in SEEDS}
    seeds = list(plain)
    heads = " | ".join(f"seed {seed}" for seed in seeds)
    lines = [f"| | {heads} | mean change, points |", "|---" * (len(seeds) + 2) + "|"]
    lines.append(f"| plain SGD, the table's | {_row(plain, {})} | |")
    methods = measured("femnist_methods").methods
    for name in methods:
        runs = methods[name]
        late = {seed: POINTS * runs[seed].last_mean for seed in runs}
        change = float(np.mean([late[seed] - plain[seed] for seed in late]))
        said = "plain SGD, once more" if name == "plain SGD" else name
        few = "" if len(late) == len(seeds) else f" ({len(late)} of {len(seeds)} seeds)"
        longer = {s for s in late if "learning.dtype=float32" in runs[s].settings}
        lines.append(f"| {said} | {_row(late, plain, longer)} | {change:+.2f}{few} |")
    return _text(lines)


def _row(late: Mapping[str, float], plain: Mapping[str, float], longer: Any = ()) -> str:
    """Each seed's percents, with the change from plain SGD; * for float32."""
    said = []
    for seed in map(str, SEEDS):
        if seed not in late:
            said.append("")
            continue
        change = f" ({late[seed] - plain[seed]:+.2f})" if plain else ""
        said.append(f"{late[seed]:.2f}{change}{'*' if seed in longer else ''}")
    return " | ".join(said)


def few_labels() -> str:
    """`fedrt-joint` against `fedrt` where clusters have few labels, each seed."""
    lines = [
        "| | hours, `fedrt` | `fedrt-joint` | mean of the last ten, `fedrt`, by seed |"
        " `fedrt-joint` | change, points, by seed | mean |",
        "|---|---|---|---|---|---|---|",
    ]
    for column in JOINT[len(TABLE) :]:
        fedrt, joint = (_cells(column, policy) for policy in ("fedrt", "fedrt-joint"))
        lines.append(_against(column.title, fedrt, joint))
    cures = measured("few_labels").columns
    titles = {column.name: column for column in JOINT}
    for name in cures:
        for cure in cures[name]:
            runs = cures[name][cure]
            theirs = [cell(f"{name}/fedrt-{seed}") for seed in runs]
            late = [POINTS * runs[seed].last_mean for seed in runs]
            hours = float(np.mean([runs[seed].ends_at_s for seed in runs])) / 3600
            named = ", ".join(runs)
            title = f"{titles[name].title}, {cure}, seed {named}"
            lines.append(_line(title, theirs, hours, late))
    return _text(lines)


def _cells(column: Column, policy: str) -> list[Trained]:
    return [cell(f"{column.name}/{policy}-{seed}") for seed in SEEDS]


def _against(title: str, fedrt: Sequence[Trained], joint: Sequence[Trained]) -> str:
    hours = float(np.mean([each.time_h for each in joint]))
    return _line(title, fedrt, hours, [each.late for each in joint])


def _line(title: str, fedrt: Sequence[Trained], hours: float, late: Sequence[float]) -> str:
    """A row: both sides' hours and percents, and the change in points."""
    theirs = float(np.mean([each.time_h for each in fedrt]))
    change = [own - each.late for own, each in zip(late, fedrt, strict=True)]
    mean = float(np.mean(change))
    shown = f"**{mean:+.2f}**" if mean < -JOINT_POINTS else f"{mean:+.2f}"
    percents = (", ".join(f"{each.late:.2f}" for each in fedrt), _listed(late, ".2f"))
    return (
        f"| {title} | {theirs:.2f} | {hours:.2f} | {percents[0]} | {percents[1]} |"
        f" {_listed(change, '+.2f')} | {shown} |"
    )


def _listed(values: Sequence[float], form: str) -> str:
    return ", ".join(format(value, form) for value in values)


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
