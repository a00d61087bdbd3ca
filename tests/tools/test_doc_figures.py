"""Every figure in the README and docs is in a results file, or marked as typed by hand."""

from __future__ import annotations

import re

import figure_sources
import figures
import plus_blocks
import pytest
import results_tables
from support.paths import ROOT

from fedrt.experiments.cells import BEYOND, TABLE

PAGES = figures.pages()


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_is_as_its_file_has_it(name):
    page = figures.check(name)
    assert page.problems == []
    assert page.moved == []
    assert page.text == (ROOT / name).read_text(), "python tools/figures.py writes it anew"


@pytest.mark.parametrize("name", ["README.md", "docs/beyond.md", "docs/reproduction.md"])
def test_another_digit_anywhere_in_a_block_is_noticed(name):
    text = (ROOT / name).read_text()
    for block in figures.MADE.finditer(text):
        place = re.search(r"\d(?=\D*$)", block[3])
        if place is not None:
            at = block.start(3) + place.start()
            assert figures.check(name, _other_digit(text, at)).text == text


@pytest.mark.parametrize("name", ["README.md", "docs/deviations.md", "docs/reproduction.md"])
def test_another_digit_in_a_sentence_is_noticed(name):
    text = (ROOT / name).read_text()
    tried = 0
    for part in figures.parts_of(text):
        noted = figures.entries_of(part.notes)
        for place, number in figures.figures_of(part.text):
            if number in noted:
                tried += 1
                changed = _other_digit(text, part.start + place + len(number) - 1)
                assert figures.check(name, changed).problems, number
    assert tried


def _other_digit(text: str, at: int) -> str:
    assert text[at].isdigit()
    return text[:at] + str((int(text[at]) + 5) % 10) + text[at + 1 :]


def problems(text: str) -> list[str]:
    return figures.check("page.md", text).problems


def test_a_figure_without_a_source_is_named_with_its_line():
    assert problems("# Page\n\nIt takes\n3.25 s.\n") == [
        "page.md:4: 3.25: is in no file and not marked as typed by hand"
    ]
    assert problems("It takes 3.25 s.\n<!-- by hand: a stopwatch -->\n") == []
    assert problems("It takes 3.25 s.\n<!-- by hand: -->\n") != []
    assert problems('It takes 3.25 s.\n<!-- figures: 3.25 = "a stopwatch; twice" -->\n') == []


def test_a_section_by_hand_ends_with_the_section():
    mark = "<!-- by hand, whole section: a stopwatch -->"
    text = f"## One\n\n{mark}\n\nIt takes 3.25 s.\n\nOr 4.5 s.\n\n## Two\n\nHere 5.5 s.\n"
    assert [line.split(": ")[1] for line in problems(text)] == ["5.5"]


def test_a_note_gives_the_figure_with_the_digits_shown():
    text = "Ten times the devices take 1.2 times, to be exact 8.870 times.\n"
    note = "<!-- figures: 1.2 = devices_cpu.time_ratio; 8.870 = devices_cpu.time_ratio -->\n"
    page = figures.check("page.md", text + note)
    assert page.problems == []
    assert page.moved == ["page.md:1: 1.2 is now 8.9"]
    assert page.text == (text + note).replace("1.2", "8.9")


def test_what_stands_in_a_note_only_or_cannot_be_found_is_a_problem():
    (line,) = problems("It is fast.\n<!-- figures: 1.2 = devices_cpu.time_ratio -->\n")
    assert line == "page.md:1: 1.2: is in the note, not in the text"
    (line,) = problems("It takes 1.2 s.\n<!-- figures: 1.2 = devices_cpu.nothing -->\n")
    assert line.startswith("page.md:1: 1.2 = devices_cpu.nothing: ")
    (line,) = problems("<!-- made: nothing -->\n<!-- /made -->\n")
    assert line == "page.md: no block is called nothing"
    (line,) = problems("<!-- made: peers -->\n")
    assert "opened and closed" in line


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("-15.6 % less, +2 %, 4,500 J and 13.02 h", ["-15.6", "+2", "4,500", "13.02"]),
        ("CIFAR-10 with 7 and 10 s, FMNIST 86 to 100 s", ["7", "10", "86", "100"]),
        ("29.1, 28.0, 19.8 % (31, 22 and 18 of 72 devices)", ["29.1", "28.0", "19.8"]),
        ("three seeds, 300 rounds, 72 devices, 8 edges x 9, section 3, 1e-9", []),
        ("torch 2.11, Python 3.11, pfl 0.6, LeNet-5, `--seed 1.5 s`, [0.5 s](0.7)", ["0.5"]),
        ("at 1.5 J per edge round, kappa = 0.25, 0.1 to 10 Mbit/s, a 2.8 GHz Xeon", []),
        ("0.23 J more", ["0.23"]),
    ],
)
def test_what_counts_as_a_figure(text, found):
    assert [number for _, number in figures.figures_of(text)] == found


@pytest.mark.parametrize(
    ("shown", "value", "text"),
    [
        ("1.5", 2.25, "2.2"),
        ("12", 7.6, "8"),
        ("34,184", 1234567.0, "1,234,567"),
        ("-1.9", 3.0, "+3.0"),
        ("+0.10", -0.123, "-0.12"),
    ],
)
def test_values_are_shown_alike(shown, value, text):
    assert figures.like(shown, value) == text


def test_pages_are_written_together_or_not_at_all(monkeypatch, capsys):
    monkeypatch.setattr(figures, "pages", lambda: ["README.md", "docs/bound.md"])
    monkeypatch.setattr(figures, "write_text", None)
    assert figures.main() == 0  # nothing has moved, so nothing is written
    assert "typed by hand" in capsys.readouterr().out
    monkeypatch.setattr(results_tables, "TABLE", ROOT / "nowhere.csv")
    assert figures.main() == 2
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    assert "nowhere.csv" in printed.err


def results_rows(name: str) -> dict[str, list[str]]:
    """The rows of a table of results/ by their first word, the first of each."""
    lines = (ROOT / "results" / name).read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    return {row[0]: row[1:] for row in reversed(rows)}


def test_choices_are_held_against_the_table():
    hours = [cell.partition(",")[0] for cell in results_rows("choices.md")["as in the table"]]
    table = [figure_sources.table_rows()[column.name, "fedrt"].time_h for column in TABLE]
    assert hours == [f"{value:.2f}" for value in table]


def test_trained_gains_are_those_of_the_cells():
    rows = results_rows("beyond.md")
    for column, pairs in plus_blocks.pairs_of(BEYOND).items():
        policy, seeds, time, worst, energy, _, final, late, best = rows[column.title]
        assert policy == "fedrt-plus"
        assert seeds == " ".join(ours.name.rpartition("-")[2] for ours, _ in pairs)
        changes = [ours.time_h / theirs.time_h - 1 for ours, theirs in pairs]
        assert time == f"{sum(changes) / len(changes):+.1%}"
        assert worst.startswith(f"{max(changes):+.1%}, seed ")
        spent = [ours.energy_j / theirs.energy_j - 1 for ours, theirs in pairs]
        assert energy == f"{sum(spent) / len(spent):+.1%}"
        for said, name in ((final, "final"), (late, "late"), (best, "best")):
            apart = [getattr(ours, name) - getattr(theirs, name) for ours, theirs in pairs]
            assert said.partition(" (")[0] == ", ".join(f"{value:+.2f}" for value in apart)


def test_worlds_that_go_badly_are_named(monkeypatch):
    summary = {
        "worlds": 2,
        "beaten_by_more_than_1_percent": {"1": "1.50% by static-r"},
        "worst_beaten": 0.015,
        "overspends_more_than_fedrt": [0],
        "time_saved_against_fedrt": {
            "mean": 0.1,
            "quantiles_0_5_25_50_75_95_100": [-0.02, 0, 0, 0.11, 0, 0, 0.3],
        },
    }
    worlds = [{"number": 0, "world": "a ring"}, {"number": 1, "world": "a star"}]
    monkeypatch.setattr(
        plus_blocks, "read_json", lambda path: {"summary": summary, "worlds": worlds}
    )
    text = plus_blocks.random_worlds()
    assert "faster than `fedrt-plus` by more than 1 % in 1, by 1.50 % at most;" in text
    assert "-2.0 % in the worst" in text
    assert text.splitlines()[-2:] == [
        "- world 1: 1.50% by static-r; a star",
        "- world 0: overspends more; a ring",
    ]


def test_held_out_settings_that_miss_the_aim_are_named(monkeypatch):
    def results(*plus: float) -> dict[str, object]:
        spent = {"energy_j_mean": [1.0, 1.0], "over_budget_j": [0.0, 0.0]}
        return {
            "fedrt": {"total_time_s": [10.0, 10.0], **spent},
            "fedrt-plus": {"total_time_s": list(plus), **spent},
        }

    def text_of(**settings: dict[str, object]) -> str:
        data = {"seeds": [100, 101], "worlds": {"budget": settings}}
        monkeypatch.setattr(plus_blocks, "read_json", lambda path: data)
        return plus_blocks.held_out()

    monkeypatch.setattr(plus_blocks, "HELD_OUT", ["a"])
    good, small, slower = results(9.0, 9.0), results(9.5, 9.0), results(6.0, 10.0)
    assert text_of(a=good).endswith("the mean of 2 seeds. It holds in all 1 settings.\n")
    assert text_of(a=good, b=small, c=slower).splitlines()[-4:] == [
        "the mean of 2 seeds. It holds in all settings but:",
        "",
        "- b: 7.5 % in the mean",
        "- c: not quicker on seed 101 +0.0 %",
    ]
    assert text_of(b=good).endswith("all 1 settings.\n\nStill to be run: a.\n")


def test_the_worst_seed_stands_beside_the_mean(monkeypatch):
    def results(fedrt: list[float], plus: list[float], over: list[float]) -> dict[str, object]:
        spent = {"energy_j_mean": [1.0, 1.0], "over_budget_j": [0.0, 0.0]}
        return {
            "fedrt": {"total_time_s": fedrt, **spent},
            "fedrt-plus": {"total_time_s": plus, **spent, "over_budget_j": over},
        }

    world = results([10.0, 10.0], [8.0, 11.0], [0.0, 3.0])
    data = {"seeds": [4, 7], "worlds": {"budget": {"tight": world}}}
    monkeypatch.setattr(plus_blocks, "read_json", lambda path: data)
    row = plus_blocks.beyond_worlds().splitlines()[-1]
    assert row == "| tight | -5.0% | +10.0%, seed 7 | +0.0% | 3 J (0) |"
    lines = plus_blocks.beyond_slower().splitlines()
    assert lines[0].startswith("In 1 of 2 worlds ")
    assert lines[-1] == "- budget: tight, seed 7: +10.0% time; 3.0 J over budget, `fedrt` 0.0"
