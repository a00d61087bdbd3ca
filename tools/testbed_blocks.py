"""The blocks of docs/testbed.md: policies on real processes, and the errors of predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from figure_sources import measured

NAMES = {"0.5": "half of what was measured", "2.0": "twice what was measured"}


def policies() -> str:
    """Each policy's time, predicted before its first round and by the clock, and what it saves."""
    heads = ("policy", "predicted before, s", "by the clock, s", "saves, predicted")
    lines = [_row(*heads, "saves, measured", "accuracy"), "|---" * 6 + "|"]
    for policy, run in measured("testbed").runs.values.items():
        saved = [f"{100 * run[name]:.1f} %" for name in ("predicted_saved", "saved")]
        seconds = [f"{run['before_s']:.1f}", f"{sum(run['clock_s']):.1f}"]
        lines.append(_row(f"`{policy}`", *seconds, *saved, f"{100 * run['accuracy']:.1f} %"))
    return "\n".join(lines) + "\n"


def errors() -> str:
    """How far predictions were off, and what else the rounds took."""
    return _errors({**measured("testbed").runs.values, **_others()})


def second() -> str:
    """The same on a second machine."""
    return _errors(measured("testbed_second").runs.values)


def _errors(runs: Mapping[str, Any]) -> str:
    beyond = {"overhead": "beyond these", "unknown": "not in the plan"}
    if all("unpredicted" in run["predictions"] for run in runs.values()):
        beyond["unpredicted"] = "not predicted"
    heads = ("run", "first round", "rounds 6 on: mean", "95th percentile", "worst", "training")
    heads = (*heads, "uploads", "gossip", *beyond.values(), "plan in force, ms")
    lines = [_row(*heads), "|---" * len(heads) + "|"]
    for name, run in runs.items():
        found = run["predictions"]
        learned = found["learned"]
        cells = [found["first"]["mean"], *(learned[key] for key in ("mean", "p95", "most"))]
        cells += [found[part]["mean"] for part in ("training", "uploads", "gossip")]
        cells += [found[part] for part in beyond]
        median, most = found["applied_s"]
        shown = [f"{100 * value:.1f} %" for value in cells]
        label = name if " " in name else f"`{name}`"
        lines.append(_row(label, *shown, f"{1e3 * median:.1f} ({1e3 * most:.1f})"))
    return "\n".join(lines) + "\n"


def _others() -> dict[str, Any]:
    found = measured("testbed")
    wrong = found.wrong.values.items()
    runs = {f"`fedrt`, cycles {NAMES[factor]}": run for factor, run in wrong}
    return runs | {"`fedrt`, shares of CPU time and no pace": found.unpaced.values}


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
