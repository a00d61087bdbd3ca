"""The reproduced table as Markdown, LaTeX and for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedrt.experiments.beyond import LATE, Pair
from fedrt.experiments.choices import Otherwise, Planned
from fedrt.experiments.table import Figure, Row
from fedrt.report.folding import folded_policy

HEADS = (
    "method",
    "time, h: paper",
    "ours",
    "ratio",
    "energy, J: paper",
    "ours",
    "ratio",
    "accuracy, %: paper",
    "ours",
    "ours - paper",
    "FedRT saves: paper",
    "ours",
    "to the paper's accuracy",
)
CAPTION = (
    "Time: simulated hours of training. Energy: a device's total, mean over devices. Accuracy: best"
    " of the average model. FedRT saves: the part of the method's time. ±: deviation over seeds."
)


def row_cells(name: str, row: Row) -> list[str]:
    """The texts of one row, under HEADS."""
    time, energy, accuracy = row.time, row.energy, row.accuracy
    apart = "" if accuracy.paper is None else f"{accuracy.mean - accuracy.paper:+.2f}"
    return [
        name,
        _paper(time, ".2f"),
        _ours(time, ".2f"),
        _ratio(time),
        _paper(energy, ".1f"),
        _ours(energy, ".1f"),
        _ratio(energy),
        _paper(accuracy, ".2f"),
        _ours(accuracy, ".2f"),
        apart,
        *_saving(row.saving),
        _reached(row),
    ]


def _paper(figure: Figure, digits: str) -> str:
    return "" if figure.paper is None else format(figure.paper, digits)


def _ours(figure: Figure, digits: str) -> str:
    spread = f" ± {format(figure.std, digits)}" if len(figure.ours) > 1 else ""
    return format(figure.mean, digits) + spread


def _ratio(figure: Figure) -> str:
    return "" if figure.ratio is None else f"{figure.ratio:.2f}"


def _saving(saving: Figure | None) -> list[str]:
    if saving is None:
        return ["", ""]
    return ["" if saving.paper is None else f"{saving.paper:.1%}", f"{saving.mean:.1%}"]


def _reached(row: Row) -> str:
    """The mean time and energy to the paper's accuracy, over the seeds that reached it."""
    if row.accuracy.paper is None:
        return ""
    there = [each for each in row.reached if each is not None]
    if not there:
        return "never"
    hours = sum(each[0] for each in there) / len(there)
    joules = sum(each[1] for each in there) / len(there)
    some = "" if len(there) == len(row.reached) else f" ({len(there)} of {len(row.reached)} seeds)"
    return f"{hours:.2f} h, {joules:.1f} J{some}"


def by_column(rows: Iterable[Row]) -> list[tuple[str, list[tuple[str, Row]]]]:
    """The rows of each column under its title, each with the method's name.

    The title says how many seeds the rows have; one that has fewer says so itself.
    """
    groups = []
    for column, some in groupby(rows, key=lambda row: row.column):
        own = list(some)
        rounds = column.load().rounds.global_rounds
        most = max(len(row.seeds) for row in own)
        named = [
            (row.policy if len(row.seeds) == most else f"{row.policy} ({_seeds(row)})", row)
            for row in own
        ]
        title = f"{column.title}: {rounds} rounds, {most} seed{'s' if most > 1 else ''}"
        groups.append((title, named))
    return groups


def _seeds(row: Row) -> str:
    return f"seed{'s' if len(row.seeds) > 1 else ''} {' '.join(map(str, row.seeds))}"


def markdown_table(rows: Sequence[Row]) -> str:
    """A table for each column of the paper's."""
    lines = [CAPTION]
    for title, own in by_column(rows):
        lines += ["", f"### {title}", "", "| " + " | ".join(HEADS) + " |"]
        lines.append("|---" * len(HEADS) + "|")
        lines += ["| " + " | ".join(row_cells(name, row)) + " |" for name, row in own]
    return "\n".join(lines) + "\n"


def latex_table(rows: Sequence[Row]) -> str:
    """One LaTeX tabular: our values with the paper's in brackets, a block per column."""
    lines = [
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        r"Method & Time (h) & Energy (J) & Accuracy (\%) & FedRT saves (\%) \\",
    ]
    for title, own in by_column(rows):
        lines += [r"\midrule", rf"\multicolumn{{5}}{{l}}{{\emph{{{_tex(title)}}}}} \\"]
        lines += [_latex_row(name, row) for name, row in own]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _latex_row(name: str, row: Row) -> str:
    cells = [_tex(name)]
    for figure, digits in ((row.time, ".2f"), (row.energy, ".1f"), (row.accuracy, ".2f")):
        cells.append(_latex_figure(figure, digits))
    cells.append("" if row.saving is None else _latex_figure(_percent(row.saving), ".1f"))
    return " & ".join(cells) + r" \\"


def _percent(figure: Figure) -> Figure:
    paper = None if figure.paper is None else 100 * figure.paper
    return Figure(tuple(100 * value for value in figure.ours), paper)


def _latex_figure(figure: Figure, digits: str) -> str:
    ours = _ours(figure, digits).replace("±", r"$\pm$")
    return ours if figure.paper is None else f"{ours} ({_paper(figure, digits)})"


def markdown_choices(
    planned: Mapping[str, Mapping[str, Planned]], trained: Sequence[Otherwise]
) -> str:
    """The effect of each open choice on FedRT: time, links and accuracy."""
    lines = _choice_lines(planned) if planned else []
    if trained:
        lines += [
            *([""] if lines else []),
            "Best accuracy of FedRT trained otherwise, in brackets the table's on the same seeds:",
            "",
        ]
        lines += [f"- {each.column.title}: {_otherwise(each)}" for each in trained]
    return "\n".join(lines) + "\n"


def _otherwise(each: Otherwise) -> str:
    """The accuracy of every seed, beside the table's if it is there."""
    said = []
    for seed, value in each.accuracy.items():
        usual = f" ({each.usual[seed]:.2f})" if seed in each.usual else ""
        said.append(f"seed {seed}: {value:.2f}{usual} %")
    return ", ".join(said)


def _choice_lines(planned: Mapping[str, Mapping[str, Planned]]) -> list[str]:
    """The lines about runs planned again, a column for each title."""
    titles = list(planned)
    usual = {title: next(iter(own.values())) for title, own in planned.items()}
    lines = [
        "Time in hours (change) and links kept, FedRT planned again on the distances of the table's"
        " cells: means over their seeds.",
        "",
        "| choice | " + " | ".join(titles) + " |",
        "|---" * (len(titles) + 1) + "|",
    ]
    for choice in planned[titles[0]]:
        cells = []
        for title in titles:
            other, time_h = planned[title][choice], usual[title].time_h
            apart = "" if other is usual[title] else f" ({other.time_h / time_h - 1:+.1%})"
            cells.append(f"{other.time_h:.2f}{apart}, {other.links:.1f}")
        lines.append("| " + " | ".join([choice, *cells]) + " |")
    lines += [
        "",
        "What the gossip of a round leaves of the distance to the average, median over rounds:",
        "",
    ]
    lines += ["| weights | " + " | ".join(titles) + " |", "|---" * (len(titles) + 1) + "|"]
    for rule in usual[titles[0]].left:
        cells = [f"{usual[title].left[rule]:.2g}" for title in titles]
        lines.append("| " + " | ".join([rule, *cells]) + " |")
    return lines


BEYOND_HEADS = (
    "setting",
    "policy",
    "seeds",
    "time, mean",
    "worst seed",
    "energy, mean",
    "over budget, J (fedrt's)",
    "final accuracy, points",
    f"mean of the last {LATE}",
    "best",
)
BEYOND_CAPTION = (
    "Against `fedrt` on the same worlds, trained. Time and energy: change, mean over seeds; the"
    " seed with the least gain in time beside it."
    " Accuracies in points above `fedrt`, each seed: at the last evaluation, in the mean of the"
    f" last {LATE} evaluations, and the best; in brackets `fedrt`'s own, mean over seeds."
)


def markdown_beyond(held: Sequence[Pair]) -> str:
    """Trained policies compared with FedRT, a row for each setting."""
    lines = [BEYOND_CAPTION, "", "| " + " | ".join(BEYOND_HEADS) + " |"]
    lines.append("|---" * len(BEYOND_HEADS) + "|")
    lines += ["| " + " | ".join(_beyond_cells(pair)) + " |" for pair in held]
    return "\n".join(lines) + "\n"


def _beyond_cells(pair: Pair) -> list[str]:
    over, theirs = (
        sum(each.over_j for each in side) / len(side) for side in (pair.other, pair.fedrt)
    )
    changes = pair.changes("time_s")
    points = []
    for quantity in ("final", "late", "best"):
        apart = ", ".join(f"{value:+.2f}" for value in pair.points(quantity))
        own = sum(getattr(each, quantity) for each in pair.fedrt) / len(pair.fedrt)
        points.append(f"{apart} ({own:.2f})")
    return [
        pair.column.title,
        pair.policy,
        " ".join(map(str, pair.seeds)),
        f"{pair.change('time_s'):+.1%}",
        f"{max(changes):+.1%}, seed {pair.seeds[changes.index(max(changes))]}",
        f"{pair.change('energy_j'):+.1%}",
        f"{over:.0f} ({theirs:.0f})",
        *points,
    ]


def _tex(text: str) -> str:
    for letter in "&%$#_{}":
        text = text.replace(letter, rf"\{letter}")
    return text


def print_table(rows: Sequence[Row]) -> None:
    """Print the table, a part for each column."""
    console = Console()
    for title, own in by_column(rows):
        table = Table(title=escape(title))
        for head in SHORT_HEADS:
            table.add_column(head, justify="left" if head == "method" else "right", no_wrap=True)
        for name, row in own:
            table.add_row(*_short_cells(name, row))
        console.print(table)
    console.print("paper's in brackets. " + CAPTION, highlight=False, soft_wrap=False)


SHORT_HEADS = ("method", "time (h)", "energy (J)", "accuracy (%)", "FedRT saves")


def _short_cells(name: str, row: Row) -> list[str]:
    policy, *seeds = name.split(" (")
    cells = ["\n(".join([folded_policy(policy), *seeds])]
    for figure, digits in ((row.time, ".2f"), (row.energy, ".1f"), (row.accuracy, ".2f")):
        paper = "" if figure.paper is None else f"\n({_paper(figure, digits)})"
        cells.append(_ours(figure, digits) + paper)
    paper, ours = _saving(row.saving)
    return [*cells, f"{ours}\n({paper})" if paper else ours]
