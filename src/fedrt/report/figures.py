"""Figures of sweeps, sizings and fronts, with matplotlib, which is optional.

Readable without colours: every policy has its own marker and line style, the same in every picture.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrt.report.folding import name_lines
from fedrt.scenario.load import setting_value
from fedrt.studies.estimates import over_seeds
from fedrt.studies.front import SCALE, FrontPoint
from fedrt.studies.labels import FIRST_OWN, key_label, style_numbers
from fedrt.studies.sizing import Sizing
from fedrt.studies.sweep import PointResults, Sweep
from fedrt.system.extras import MissingLibraryError
from fedrt.system.files import write_whole
from fedrt.units import readable_time, time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

# Okabe and Ito's colours, which people with any colour vision can tell apart; grey, not yellow.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#000000", "#56B4E9", "#777777")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
POLICY_COLOURS = COLOURS[:7]
OWN_COLOURS = ("#8e0b25", "#1313ec", "#4d085e", "#ec1313", "#0b8e8e", "#ad33cc")
"""Of users' own policies: apart from the others and from each other, for any colour vision."""
OWN_MARKERS = ("*", "p", "<", ">", "H", "d")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (7, 2)), (0, (1, 3)), (0, (3, 1, 1, 1)))
GREY = "#666666"
FRONT: dict[str, Any] = {"color": "#cccccc", "linewidth": 4}
OVER: dict[str, Any] = {"ls": "none", "marker": "o", "ms": 14, "mfc": "none", "mec": GREY}
UNDATED: dict[str, dict[str, Any]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
MOST_PANELS = 9
MOST_TICKS = 6
LEGEND_LETTERS = 28
LOG_FROM = 5.0
"""Ratio of the ends of an axis from which it is logarithmic."""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches, outside pyplot's global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingLibraryError("a picture", "matplotlib") from None
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(
    figure: Figure, folder: Path, stem: str, kinds: Sequence[str] = ("png", "svg")
) -> None:
    """Write the figure as PNG, SVG or PDF, reproducibly to the byte."""
    import matplotlib

    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": "fedrt"}):
        # A letter that the font lacks is no reason to complain in a terminal.
        warnings.simplefilter("ignore")
        for kind in kinds:

            def write(path: Path, kind: str = kind) -> None:
                figure.savefig(path, format=kind, dpi=150, metadata=UNDATED[kind])

            write_whole(folder / f"{stem}.{kind}", write)


def policy_style(policy: str, policies: Sequence[str]) -> dict[str, Any]:
    """The colour, marker and line style of a policy: one of the shipped, or one of users' own."""
    number = style_numbers(policies)[policy]
    i = number - FIRST_OWN if number >= FIRST_OWN else number
    colours: Sequence[str] = POLICY_COLOURS if i == number else OWN_COLOURS
    markers: Sequence[str] = MARKERS[: len(colours)] if i == number else OWN_MARKERS
    # Where the colours begin again, the markers are one place on.
    turn = i // len(colours)
    return {
        "color": colours[i % len(colours)],
        "marker": markers[(i + turn) % len(markers)],
        "linestyle": LINES[(i + 3 * turn) % len(LINES)],
        "markersize": 6.5,
        "markeredgewidth": 1.0,
        "linewidth": 1.4,
    }


def plain(text: str) -> str:
    """The text with characters escaped that matplotlib would read as mathematics."""
    return text.replace("$", r"\$")


def set_log(axes: Axes, axis: str, values: Sequence[float]) -> None:
    """Make an axis logarithmic, with plain numbers, if its values span a wide range."""
    if min(values) <= 0 or max(values) < LOG_FROM * min(values):
        return
    (axes.set_xscale if axis == "x" else axes.set_yscale)("log")
    line = axes.xaxis if axis == "x" else axes.yaxis
    if max(values) < 1e3 * min(values):
        plain_log(line)


def plain_log(line: Axis) -> None:
    """Show plain numbers on a logarithmic axis of few decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    line.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    line.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    line.set_minor_formatter(NullFormatter())


def tidy_axes(axes: Axes) -> None:
    """Draw a light grid behind the data and no box around it."""
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def draw_seeds(axes: Axes, x: FloatArray, values: FloatArray, style: Mapping[str, Any]) -> None:
    """Draw the mean over seeds as a line and their range as a band, leaving out NaN.

    Where x differs between seeds its mean is taken.
    """
    there = ~np.isnan(values[0])
    x = np.atleast_2d(x).mean(0)[there]
    every = {"markevery": 1} if len(x) == 1 else {}  # a fraction of no length has no place
    axes.plot(x, values.mean(0)[there], **{"markevery": 0.15, **style, **every})
    if len(values) > 1:
        low, high = values.min(0)[there], values.max(0)[there]
        axes.fill_between(x, low, high, color=style["color"], alpha=0.12, lw=0)


def legend_below(figure: Figure, *panels: Axes, inches: float = 1.5) -> None:
    """Draw one legend of all lines below the panels.

    In more where its words are too long for that.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    labels = ["\n".join(name_lines(label, LEGEND_LETTERS)) for label in found]
    room = max(1, int(figure.get_figwidth() / inches))
    rows = max(1, -(-len(labels) // room))
    measure = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    for columns in range(max(1, -(-len(labels) // rows)), 0, -1):
        legend = figure.legend(
            list(found.values()),
            labels,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            handlelength=3.2,
            fontsize=9,
        )
        if columns == 1 or legend.get_window_extent(measure).width <= figure.bbox.width:
            break
        legend.remove()


def sweep_figure(sweep: Sweep, outcomes: Sequence[PointResults]) -> Figure:
    """Time against one varied setting, with a panel for every combination of the others."""
    x_key = x_axis_key(sweep)
    others = {key: words for key, words in sweep.vary.items() if key != x_key}
    panels = [dict(zip(others, words, strict=True)) for words in product(*others.values())]
    shown, names = panels[:MOST_PANELS], short_names(others)
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    figure = new_figure(max(6.4, 3.1 * columns), 1.4 + max(2.6 * rows, 2.9))
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    size, unit = time_unit(max((max(times(o)) for o in outcomes if o.results), default=0.0))
    for axes, panel in zip(grid.flat, shown, strict=False):
        draw_panel(axes, sweep, x_key, panel_outcomes(outcomes, panel), size)
        title = ", ".join(f"{names[key]} = {word}" for key, word in panel.items())
        axes.set_title(plain(title), fontsize=9)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    grid.flat[0].set_ylim(bottom=0)
    for row in grid:
        row[0].set_ylabel(f"total time ({unit})")
    for axes in grid.flat[max(0, len(shown) - columns) : len(shown)]:
        axes.set_xlabel(plain(key_label(x_key)))
        axes.tick_params(labelbottom=True)
    cut = f" (the first {MOST_PANELS} of {len(panels)} panels)" if shown != panels else ""
    seeds = f", {len(sweep.seeds)} seeds ± deviation" if len(sweep.seeds) > 1 else ""
    figure.suptitle(plain(sweep.points[0].scenario.name) + seeds + cut, fontsize=11)
    legend_below(figure, grid.flat[0])
    return figure


def x_axis_key(sweep: Sweep) -> str:
    """The varied number with the most values, or the first setting if none is a number."""
    numeric = [key for key, words in sweep.vary.items() if all(map(is_number, words))]
    return max(numeric or [next(iter(sweep.vary))], key=lambda key: len(sweep.vary[key]))


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """The names of settings without their sections, where they stay distinct."""
    last = {key: key.rpartition(".")[2] for key in keys}
    names = list(last.values())
    return {key: name if names.count(name) == 1 else key for key, name in last.items()}


def is_number(word: str) -> bool:
    """Whether a typed value is a number."""
    value = setting_value(word)
    return isinstance(value, int | float) and not isinstance(value, bool)


def times(outcome: PointResults) -> Iterator[float]:
    """All total times of a point in seconds."""
    return (run["total_time_s"] for runs in outcome.results.values() for run in runs)


def panel_outcomes(
    outcomes: Sequence[PointResults], panel: Mapping[str, str]
) -> list[PointResults]:
    """The points of a panel."""
    return [o for o in outcomes if panel.items() <= o.point.settings.items()]


def draw_panel(
    axes: Axes, sweep: Sweep, key: str, outcomes: Sequence[PointResults], size: float
) -> None:
    """Draw one line per policy; values that are words are not joined by lines."""
    words = sweep.vary[key]
    numeric = all(map(is_number, words))
    place = {word: float(setting_value(word)) if numeric else i for i, word in enumerate(words)}
    for policy in sweep.policies:
        ran = [o for o in outcomes if policy in o.results]
        ran.sort(key=lambda o: place[o.point.settings[key]])
        spread = [over_seeds([r["total_time_s"] for r in o.results[policy]]) for o in ran]
        style = policy_style(policy, sweep.policies)
        axes.errorbar(
            [place[o.point.settings[key]] for o in ran],
            [s["mean"] / size for s in spread],
            [s["std"] / size for s in spread] if len(sweep.seeds) > 1 else None,
            label=plain(policy),
            capsize=3,
            **(style if numeric else style | {"linestyle": "none"}),
        )
    if numeric:
        set_log(axes, "x", list(place.values()))
    if numeric and len(words) <= MOST_TICKS:
        axes.set_xticks(sorted(place.values()), [f"{x:g}" for x in sorted(place.values())])
        axes.minorticks_off()
    elif not numeric:
        axes.set_xticks(list(place.values()), [plain(word) for word in words])
        axes.margins(x=0.3)
    tidy_axes(axes)


def size_figure(found: Sizing, policy: str, scenario: str) -> Figure:
    """All values tried, their times on each seed, the deadline and the answer."""
    figure = new_figure(6.4, 4.4)
    axes = figure.subplots()
    ran = [each for each in found.tries if each.problem is None]
    size, unit = time_unit(found.deadline_s)
    axes.plot([t.value for t in ran], [t.worst_s / size for t in ran], color=GREY, linewidth=0.8)
    looks: list[tuple[bool, dict[str, Any]]] = [
        (True, {"marker": "o", "color": COLOURS[0], "label": "makes the deadline"}),
        (False, {"marker": "X", "color": COLOURS[3], "label": "too slow"}),
    ]
    for good, style in looks:
        some = [t for t in ran if found.in_time(t) == good]
        axes.plot([t.value for t in some], [t.worst_s / size for t in some], ls="none", **style)
    over = [(t.value, t.worst_s / size) for t in ran if t.over_devices]
    if over:
        axes.plot(*zip(*over, strict=True), **OVER, label="some device over budget")
    several = [(t.value, s / size) for t in ran if len(t.times_s) > 1 for s in t.times_s]
    if several:
        axes.plot(*zip(*several, strict=True), "_", color=GREY, label="each seed", zorder=1)
    broken = [each.value for each in found.tries if each.problem is not None]
    if broken:
        top = axes.get_xaxis_transform()
        axes.plot(broken, [0.98] * len(broken), "kv", mfc="none", transform=top, label="cannot run")
    deadline = f"deadline, {readable_time(found.deadline_s)}"
    axes.axhline(
        found.deadline_s / size, color="black", linestyle="--", linewidth=1, label=deadline
    )
    mark_answer(axes, found, size)
    set_log(axes, "x", [each.value for each in found.tries])
    set_log(axes, "y", [each.worst_s / size for each in ran])
    tidy_axes(axes)
    slowest = ", slowest seed" if several else ""
    axes.set_ylabel(f"total time{slowest} ({unit})")
    axes.set_xlabel(plain(key_label(found.span.key)))
    figure.suptitle(plain(f"{scenario}, {policy}"), fontsize=11)
    legend_below(figure, axes, inches=2.1)
    return figure


def mark_answer(axes: Axes, found: Sizing, size: float) -> None:
    """Draw a ring around the answer, with its value."""
    if found.answer is None:
        return
    value, time = found.answer.value, found.answer.worst_s / size
    ring = {"marker": "o", "mfc": "none", "mec": "black", "ms": 13, "ls": "none"}
    axes.plot([value], [time], label=f"{found.wanted} value, {value:.6g}", **ring)  # type: ignore[arg-type]


def front_figure(sweep: Sweep, points: Sequence[FrontPoint]) -> Figure:
    """Time against energy, a line per policy over its budgets, the efficient points filled."""
    figure = new_figure(7.0, 5.2)
    axes = figure.subplots()
    size, unit = time_unit(max(point.time_s for point in points))
    best = sorted((p.energy_j, p.time_s / size) for p in points if p.efficient)
    if best:
        axes.step(*zip(*best, strict=True), where="post", **FRONT, zorder=0)
    for policy in sweep.policies:
        own = [p for p in points if p.policy == policy]
        style = policy_style(policy, sweep.policies)
        line = [p.energy_j for p in own], [p.time_s / size for p in own]
        axes.plot(*line, **(style | {"mfc": "white", "linewidth": 1.0}), label=plain(policy))
        filled = [p for p in own if p.efficient]
        spots = [p.energy_j for p in filled], [p.time_s / size for p in filled]
        axes.plot(*spots, **(style | {"linestyle": "none"}))
    over = [(p.energy_j, p.time_s / size) for p in points if p.over_budget_devices]
    if over:
        axes.plot(*zip(*over, strict=True), **OVER)
    set_log(axes, "x", [p.energy_j for p in points])
    set_log(axes, "y", [p.time_s / size for p in points])
    explain_front(axes, bool(over))
    tidy_axes(axes)
    axes.set_xlabel("energy of a device over the run, mean over devices (J)")
    axes.set_ylabel(f"total time ({unit})")
    budgets = [p.budget_j for p in points]
    mean = "mean " if SCALE in sweep.vary else ""
    ends = f"{mean}budgets {min(budgets):.4g} to {max(budgets):.4g} J per edge round"
    figure.suptitle(plain(f"{sweep.points[0].scenario.name}: {ends}"), fontsize=11)
    legend_below(figure, axes, inches=1.75)
    return figure


def explain_front(axes: Axes, over: bool) -> None:
    """Legend entries that explain fill, ring and band."""
    grey: dict[str, Any] = {"color": GREY, "marker": "o", "linestyle": "none"}
    axes.plot([], [], **grey, label="efficient")
    axes.plot([], [], **grey, mfc="white", label="not efficient")
    axes.plot([], [], **FRONT, label="front")
    if over:
        axes.plot([], [], **OVER, label="some device over budget")
