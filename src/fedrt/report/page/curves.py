"""Curves of runs: the seeds of one policy on one config as a line with a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrt.measures import ACCURACY, FURTHER, MEASURES, ON_DEVICES, Measure, measure_in, measure_of
from fedrt.policies.spec import policy_labels
from fedrt.records.history import PARTS, parts_in
from fedrt.report.page.encode import counted, number, packed
from fedrt.report.page.saved import Columns, PageRun
from fedrt.report.page.thin import extremes
from fedrt.studies.estimates import over_seeds, savings
from fedrt.studies.labels import BASELINES, style_numbers
from fedrt.world.fleet import budget_range

MOST_POINTS = 500
MEASURE, MEASURE_ENDS = "accuracy", ("edge_accuracy_min", "edge_accuracy_max")
"""The names under which a page has the measure of its runs, whichever that is."""
QUANTITIES = (
    *(MEASURE, "loss", *MEASURE_ENDS, "consensus", "distance_error"),
    *("energy_j_mean", "energy_j_max", "ends_at_s", "time_s", "links_kept", "gossip_steps", "zeta"),
    *("over_budget_devices", "over_budget_j", "upload_bytes", "backhaul_bytes"),
)


@dataclass(frozen=True)
class Line:
    """One line of a chart: a policy on one config, with all its seeds."""

    label: str
    style: int
    runs: tuple[PageRun, ...]

    @property
    def policy(self) -> str:
        return self.runs[0].said.policy


def make_lines(runs: Sequence[PageRun]) -> list[Line]:
    """The runs grouped by config and policy; a repeated run gets a line of its own."""
    groups: dict[tuple[str, str, int], list[PageRun]] = {}
    for run in runs:
        copy = 0
        while any(
            other.said.seed == run.said.seed
            for other in groups.get((run.config, run.said.policy, copy), [])
        ):
            copy += 1
        groups.setdefault((run.config, run.said.policy, copy), []).append(run)
    labels = _labels(list(groups.values()))
    styles = _styles([policy for _, policy, _ in groups])
    return [
        Line(label, style, tuple(members))
        for label, style, members in zip(labels, styles, groups.values(), strict=True)
    ]


def _labels(groups: Sequence[Sequence[PageRun]]) -> list[str]:
    """The label of each line: the policy, with scenario or folder where needed."""
    firsts = [group[0] for group in groups]
    own: dict[str, str | None] = {run.said.policy: None for run in firsts}
    for run in firsts:
        name = (run.said.summary or {}).get("policy")
        own[run.said.policy] = name if isinstance(name, str) else None
    names = policy_labels(own)
    choices = (
        [names[run.said.policy] for run in firsts],
        [f"{names[run.said.policy]} · {run.said.scenario.name}" for run in firsts],
        [f"{names[run.said.policy]} · {_folder(run)}" for run in firsts],
        [f"{names[run.said.policy]} · {run.path}" for run in firsts],
    )
    return next((names for names in choices if len(set(names)) == len(names)), choices[-1])


def _folder(run: PageRun) -> str:
    """The folder of the comparison, or of a single run."""
    alone = not (run.path.parent / "config.toml").is_file()
    return run.path.name if alone else run.path.resolve().parent.name


def _styles(policies: Sequence[str]) -> list[int]:
    """The style of each line: its policy's, or a free one where a line before it has that."""
    own = style_numbers(policies)
    styles: list[int] = []
    for policy in policies:
        style, taken = own[policy], {*own.values(), *styles}
        if style in styles:
            style = next(i for i in range(len(taken) + 1) if i not in taken)
        styles.append(style)
    return styles


def line_data(line: Line, lines: Sequence[Line]) -> dict[str, Any]:
    """A line for the page: its curves and its row of the summary."""
    # Seeds that lag behind join the mean when they have caught up, so that it is over the same
    # seeds from end to end.
    most, row = max(run.done for run in line.runs), summary_row(line, lines)
    if line_measure(line).name != page_measure(lines).name:
        row = {key: value for key, value in row.items() if not key.endswith("_accuracy")}
    level = [run for run in line.runs if run.done == most] if most else []
    return {
        "label": line.label,
        "policy": line.policy,
        "style": line.style,
        "scenario": line.runs[0].said.scenario.name,
        "seeds": [run.said.seed for run in line.runs],
        "drawn": [run.said.seed for run in level],
        "trained": any(run.trained for run in line.runs),
        "done": most,
        "rounds": line.runs[0].planned,
        "budget_j": budget_range(line.runs[0].said.scenario),
        "curves": line_curves(line, level, page_measure(lines)),
        **_mean_parts(line),
        "row": row,
    }


def line_curves(line: Line, level: Sequence[PageRun], measure: Measure) -> dict[str, Any]:
    """The curves of a line: what every page has, and what else was measured of its models.

    Where the measure is not that of the page, it has no curve.
    """
    own = line_measure(line)
    names = {name: name for name in QUANTITIES if name not in (MEASURE, *MEASURE_ENDS)}
    if own.name == measure.name:
        names |= dict(zip((MEASURE, *MEASURE_ENDS), (own.name, *own.edge_names[1:]), strict=True))
    names |= {name: name for name in more_quantities(line)}
    seeds = [
        {key: run.rounds[name] for key, name in names.items() if name in run.rounds}
        | {"ends_at_s": run.rounds["ends_at_s"]}
        for run in level
    ]
    return seeds_curves(seeds, list(names))


def line_measure(line: Line) -> Measure:
    """What the runs of a line are judged by."""
    run = line.runs[0]
    return measure_in(run.rounds, run.said.summary)


def page_measure(lines: Sequence[Line]) -> Measure:
    """What the first line that trains is judged by."""
    trained = [line for line in lines if line.runs[0].trained]
    return line_measure(trained[0]) if trained else ACCURACY


def more_quantities(line: Line) -> list[str]:
    """What else was measured of a line's models, by the names of the columns.

    Further measures come after those of every run; those of devices begin with their name.
    """
    rounds, own = line.runs[0].rounds, line_measure(line)
    known = {measure.name for each in MEASURES.values() for measure in each} - {own.name}
    return [
        name
        for name in rounds
        if name in known or name.startswith(ON_DEVICES) or name in own_columns(line)
    ]


def own_columns(line: Line) -> list[str]:
    """The further measures of a user's own task, which its summary names."""
    said = (line.runs[0].said.summary or {}).get(FURTHER)
    return [name for name in said if isinstance(name, str)] if isinstance(said, dict) else []


def seeds_curves(seeds: Sequence[Columns], names: Sequence[str]) -> dict[str, Any]:
    """The curves over seeds, which have equally many rounds."""
    return {name: curve for name in names if (curve := _curve(seeds, name))}


def _curve(seeds: Sequence[Columns], name: str) -> dict[str, Any] | None:
    """The mean, least and greatest value over seeds, with round and simulated time."""
    if not seeds or any(name not in rounds for rounds in seeds):
        return None
    values = np.stack([np.asarray(rounds[name], dtype=np.float64) for rounds in seeds])
    there = np.flatnonzero(np.isfinite(values).all(0))
    if not len(there):
        return None
    values = values[:, there]
    kept = extremes(values.mean(0), MOST_POINTS)
    time_s = np.stack([rounds["ends_at_s"] for rounds in seeds])[:, there].mean(0)
    curve: dict[str, Any] = {
        "round": counted(there[kept]),
        "time_s": packed(time_s[kept], "f8"),
        "mean": packed(values.mean(0)[kept], "f8"),
    }
    if len(seeds) > 1:
        curve["low"] = packed(values.min(0)[kept], "f8")
        curve["high"] = packed(values.max(0)[kept], "f8")
    if len(kept) < len(there):
        curve["of"] = len(there)
    return curve


def _mean_parts(line: Line) -> dict[str, Any]:
    """The mean seconds of each part of the time in runs that have ended.

    Parts are named where they are other than those of every run.
    """
    ended = [run.said.summary for run in line.runs if run.said.summary is not None]
    parts = [s["time_parts"] for s in ended if isinstance(s.get("time_parts"), dict)]
    names = parts_in(parts[0] if parts else ())
    sums = [[number(each.get(name)) for name in names] for each in parts]
    whole = [[value for value in row if value is not None] for row in sums]
    whole = [row for row in whole if len(row) == len(names)]
    named = {} if names == PARTS else {"part_names": [n.removesuffix("_s") for n in names]}
    return {"parts": np.mean(whole, axis=0).tolist() if whole else None} | named


def summary_row(line: Line, lines: Sequence[Line]) -> dict[str, Any]:
    """The final numbers of a line, and its time against the baselines, paired by seed."""
    ended = {run.said.seed: run.said.summary for run in line.runs if run.said.summary is not None}
    keys = ("total_time_s", "energy_j_mean", "energy_j_max", "over_budget_devices", "over_budget_j")
    row: dict[str, Any] = {"ended": len(ended), "of": len(line.runs)}
    measure = measure_of(next(iter(ended.values()), {}))
    ends = {f"{end}_accuracy": f"{end}_{measure.name}" for end in ("best", "final")}
    for key in (*keys, *ends, "wall_s"):
        values = [number(summary.get(ends.get(key, key))) for summary in ended.values()]
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            spread = over_seeds(known)
            row[key] = {"mean": spread["mean"], "std": spread["std"], "n": len(known)}
            if key == "over_budget_devices":
                row[key] |= {"least": min(known), "most": max(known)}
    row["against"] = {
        name: saved
        for name in baselines(lines)
        if (saved := _saving(ended, _twin(line, name, lines))) is not None
    }
    return row


def baselines(lines: Sequence[Line]) -> list[str]:
    """The policies with which times are compared: the usual baselines, else the first line's."""
    there = {line.policy for line in lines}
    usual = [name for name in BASELINES if name in there]
    return usual or ([lines[0].policy] if len(there) > 1 else [])


def _twin(line: Line, policy: str, lines: Sequence[Line]) -> Line | None:
    """The line of the baseline on the same config."""
    config = line.runs[0].config
    same = [each for each in lines if each.policy == policy and each.runs[0].config == config]
    return same[0] if same and same[0] is not line else None


def _saving(ended: dict[int, dict[str, Any]], baseline: Line | None) -> float | None:
    """The share of the baseline's time that is saved, mean over seeds that both have ended."""
    if baseline is None:
        return None
    theirs = {run.said.seed: run.said.summary for run in baseline.runs}
    pairs = [
        (mine, other)
        for seed, mine in ended.items()
        if (other := theirs.get(seed)) is not None
        and number(mine.get("total_time_s")) is not None
        and number(other.get("total_time_s"))
    ]
    if not pairs:
        return None
    return float(savings([a for a, _ in pairs], [b for _, b in pairs])["mean"])
