"""The blocks of docs/testbed.md: policies on real processes, and the errors of predictions."""

from __future__ import annotations

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
    heads = ("run", "first round", "rounds 6 on: mean", "95th percentile", "worst", "training")
    more = ("uploads", "gossip", "beyond these", "not in the plan", "plan in force, ms")
    lines = [_row(*heads, *more), "|---" * 11 + "|"]
    for name, run in (*measured("testbed").runs.values.items(), *_wrong().items()):
        found = run["predictions"]
        learned = found["learned"]
        cells = [found["first"]["mean"], *(learned[key] for key in ("mean", "p95", "most"))]
        cells += [found[part]["mean"] for part in ("training", "uploads", "gossip")]
        cells += [found["overhead"], found["unknown"]]
        median, most = found["applied_s"]
        shown = [f"{100 * value:.1f} %" for value in cells]
        label = name if " " in name else f"`{name}`"
        lines.append(_row(label, *shown, f"{1e3 * median:.0f} ({1e3 * most:.0f})"))
    return "\n".join(lines) + "\n"


def _wrong() -> dict[str, Any]:
    runs = measured("testbed").wrong.values
    return {f"`fedrt`, cycles {NAMES[factor]}": run for factor, run in runs.items()}


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
