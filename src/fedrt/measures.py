"""What is measured of models on test samples: the names, and whether more is better.

Every task has one measure or several; the first is the one that summaries, targets and charts are
about. Those of shipped tasks are in the registry: tables and pages know them without loading torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedrt.errors import InputError
from fedrt.registry import ACCURACY as ACCURACY
from fedrt.registry import TASKS
from fedrt.registry import Measure as Measure
from fedrt.scenario.entries import make_own
from fedrt.scenario.model import Custom, Learning
from fedrt.validation import Real

BETTER = ("higher", "lower")
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
TAKEN = ("loss", "consensus", "wall_s", "time_s", "ends_at_s", "distance_error", "status", "zeta")
"""Columns of the tables that no measure may be called by."""
KEY = "measure"
"""Where a summary names its measure, if that is not accuracy."""
FURTHER = "further_measures"
"""Where it has the last values of those besides, by name."""
TASK_METHODS = ("losses", "output_shape")
"""What every task of a user's own must have."""
ON_DEVICES = ("device_", "tuned_")
"""How columns begin that are about devices' own samples."""


MEASURES = {name: entry.measures for name, entry in TASKS.items()}
"""Of every shipped task, the first one being what a run is judged by."""


def measures_of(learning: Learning) -> tuple[Measure, ...]:
    """The measures of a scenario's task; a user's own is made for it, as training makes it."""
    chosen = learning.task or "classification"
    if isinstance(chosen, Custom):
        own = make_own(chosen, "task", TASK_METHODS)
        return own_measures(own.entry, own.name)
    return MEASURES[chosen if isinstance(chosen, str) else chosen.kind]


def target_rule(learning: Learning | None) -> Real:
    """What a target may be: of a share, as accuracy is, 0 to 1, of another measure any number.

    A user's own task is not loaded for it.
    """
    chosen = None if learning is None else learning.task
    if learning is None or chosen is None:
        return Real(least=0, most=1)
    own = isinstance(chosen, Custom)
    return Real() if own or not measures_of(learning)[0].is_share else Real(least=0, most=1)


def own_measures(task: Any, name: str) -> tuple[Measure, ...]:
    """The measures that a user's own task names in `measures`; without it, accuracy alone."""
    given = getattr(task, "measures", None)
    if given is None:
        return (ACCURACY,)
    good = isinstance(given, Mapping) and len(given) > 0
    if not good or not all(
        isinstance(key, str) and NAME.fullmatch(key) and key not in TAKEN and value in BETTER
        for key, value in given.items()
    ):
        rule = 'measures must be a dict of names to "higher" or "lower", which is better'
        raise InputError(f"{name}: {rule}; names are of a-z, 0-9 and _")
    return tuple(
        ACCURACY if key == "accuracy" else Measure(key, value == "higher")
        for key, value in given.items()
    )


def measure_of(summary: Mapping[str, Any]) -> Measure:
    """The measure that a run's summary is about."""
    given = summary.get(KEY)
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        return ACCURACY
    higher, share = (given.get(key) is True for key in ("higher_is_better", "is_share"))
    return Measure(given["name"], higher, share)


def measure_in(columns: Iterable[str], summary: Mapping[str, Any] | None = None) -> Measure:
    """The measure that a table of rounds is about, without loading a user's own task.

    As the summary says; before there is one, the column that has edge models' values beside it. Of
    a task of a user's own it is not known then whether more is better.
    """
    if summary is not None:
        return measure_of(summary)
    known = {measure.name: measure for each in MEASURES.values() for measure in each}
    there = set(columns)
    for column in columns:
        if Measure(column).edge_names[0] in there:
            return known.get(column, Measure(column))
    return ACCURACY


def summary_entry(measures: Sequence[Measure], last: Mapping[str, float]) -> dict[str, Any]:
    """What a summary says of a run's measures, given the last metrics; nothing of accuracy alone.

    A value that is not a number is None.
    """
    first, *others = measures
    said: dict[str, Any] = {}
    if first != ACCURACY:
        names = ("name", "higher_is_better", "is_share")
        said[KEY] = {name: getattr(first, name) for name in names}
    wanted = [measure.name for measure in others]
    wanted += [name for name in last if name.startswith(ON_DEVICES)]
    values = {name: last[name] for name in wanted if name in last}
    further = {name: value if math.isfinite(value) else None for name, value in values.items()}
    return said | ({FURTHER: further} if further else {})
