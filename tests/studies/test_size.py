"""Sizing: the least value that makes the deadline, and what is said when none does."""

from __future__ import annotations

import contextlib
import csv
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.scenario import load_scenario
from fedrt.studies.estimates import estimate
from fedrt.studies.size_answer import size_sentence, unreachable, verdict
from fedrt.studies.sizing import Try, search, size
from fedrt.studies.span import GRID, Span, fit_span, read_span
from fedrt.units import read_duration

SHORT = ["rounds.global_rounds=3", "fleet.energy_j_per_edge_round=0.1"]
"""Few rounds, and budgets that are kept."""
SHORT_ARGS = [word for text in SHORT for word in ("--set", text)]


def outcomes(setting: str, seeds=(0,)) -> list[dict]:
    scenario = load_scenario("quickstart", [*SHORT, setting])
    return estimate(scenario, ["fedrt-plus"], seeds)["fedrt-plus"]


def worst_time_s(setting: str, seeds=(0,)) -> float:
    return max(run["total_time_s"] for run in outcomes(setting, seeds))


def will_do(setting: str, deadline_s: float, seeds=(0,)) -> bool:
    return all(
        run["total_time_s"] <= deadline_s and not run["over_budget_devices"]
        for run in outcomes(setting, seeds)
    )


def timed(function):
    return lambda value: Try(value, (function(value),))


@given(
    st.integers(0, 30), st.integers(0, 40), st.integers(0, 90), st.integers(0, 90), st.booleans()
)
def test_durations(d, h, m, s, long):
    parts = [(d, "d"), (h, "h"), (m, "min" if long else "m"), (s, "s")]
    text = "".join(f"{number}{unit}" for number, unit in parts if number)
    seconds = d * 86400 + h * 3600 + m * 60 + s
    if seconds:
        assert read_duration(text, "--deadline") == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("45m", 2700), ("45min", 2700), ("10h", 36000), ("1h30m", 5400), ("1.5 h", 5400)],
)
def test_duration_examples(text, seconds):
    assert read_duration(text, "--deadline") == seconds


@given(st.text(max_size=8))
def test_any_text_is_a_time_or_refused(text):
    with contextlib.suppress(InputError):
        assert 0 < read_duration(text, "--deadline") < math.inf


SPANS = [
    Span("x", 0.5, 8.0),
    Span("x", 1e-6, 1e6),
    Span("x", -10.0, 20.0),
    Span("x", 0.0, 1.0),
    Span("x", 1, 1000, whole=True),
    Span("x", 0, 500, whole=True),
    Span("x", 3, 7, whole=True),
    Span("x", 2.0, 2.0),
]


@pytest.mark.parametrize("span", SPANS, ids=str)
def test_grid_is_rising_and_has_both_ends(span):
    grid = span.grid()
    assert grid == sorted(set(grid))
    assert (grid[0], grid[-1]) == (span.low, span.high)
    assert len(grid) <= GRID
    if span.whole:
        assert all(value == int(value) for value in grid)


@pytest.mark.parametrize("span", SPANS, ids=str)
@given(part=st.floats(0, 1))
def test_search_finds_the_least_value_of_a_falling_time(span, part):
    needed = span.low + part * (span.high - span.low)
    found = search(span, 0.0, timed(lambda value: needed - value))
    assert found.note is None
    assert found.answer in found.tries
    assert found.answer.value >= needed
    smaller = [each.value for each in found.tries if each.value < found.answer.value]
    if span.whole:
        assert found.answer.value == math.ceil(needed)
    elif smaller:
        near = max(abs(needed), 1e-3 * (span.high - span.low) if span.low <= 0 else 0)
        assert found.answer.value - smaller[-1] <= 1.01e-3 * near + 1e-12
        assert smaller[-1] < needed


def test_search_says_when_the_time_falls_and_grows():
    found = search(Span("edges", 1, 100, whole=True), 5.0, timed(lambda n: abs(n - 30) / 4))
    assert found.answer.value == 10
    assert "the time is not monotone in edges: it grows from" in found.note
    assert search(Span("edges", 1, 100, whole=True), 5.0, timed(lambda n: n / 100)).note is None


def test_search_zooms_in_before_it_gives_up():
    """The dip lies between two values of the grid, 32 and 56."""
    found = search(Span("edges", 1, 100, whole=True), 5.0, timed(lambda n: 4 + abs(n - 41)))
    assert found.answer.value == 40
    assert found.note is not None
    lost = search(Span("edges", 1, 100, whole=True), 3.0, timed(lambda n: 4 + abs(n - 41)))
    assert lost.answer is None
    assert lost.best.value == 41
    assert "the best reachable is 4 s, at edges = 41" in str(unreachable(lost))


def test_search_counts_what_cannot_run_as_too_slow():
    def measure(value):
        return Try(value, problem="too many") if value > 30 else Try(value, (100 - value,))

    found = search(Span("edges", 1, 40, whole=True), 80.0, measure)
    assert found.answer.value == 20
    assert found.tries[-1].problem == "too many"
    nothing = search(Span("edges", 31, 40, whole=True), 80.0, measure)
    assert str(unreachable(nothing)) == "no edges from 31 to 40 can run: too many"


def test_whole_settings_are_searched_over_whole_numbers():
    for text, whole in [
        ("fleet.num_edges=1..8", True),
        ("rounds.local_steps=1..8", True),
        ("bandwidth.scale=1..8", False),
        ("fleet.energy_j_per_edge_round=1..8", False),
        ("fleet.num_edges=0..80", True),
    ]:
        assert fit_span(read_span([text]), "quickstart")[0].whole is whole
    erdos = ["base_graph.kind=erdos-renyi"]
    assert not fit_span(read_span(["base_graph.probability=0.1..1"]), "quickstart", erdos)[0].whole


@pytest.mark.parametrize("key", ["bandwidth.scale", "backhaul.scale"])
def test_size_finds_the_least_value(key):
    deadline_s = 0.98 * worst_time_s(f"{key}=1", (0, 1))
    span, _ = fit_span(read_span([f"{key}=0.5..8"]), "quickstart", SHORT)
    found = size("quickstart", span, deadline_s, "fedrt-plus", [0, 1], SHORT)
    value = found.answer.value
    assert found.answer.worst_s == worst_time_s(f"{key}={value!r}", (0, 1))
    assert will_do(f"{key}={value!r}", deadline_s, (0, 1))
    assert not will_do(f"{key}={value * 0.998!r}", deadline_s, (0, 1))


def test_size_of_the_number_of_edges(tmp_path, capsys):
    deadline_s = 1.001 * worst_time_s("fleet.num_edges=6")
    out = tmp_path / "out"
    args = ["--deadline", f"{deadline_s:.6f}s", "--vary", "fleet.num_edges=1..40", *SHORT_ARGS]
    assert main(["size", "quickstart", *args, "--json", "--out", str(out)]) == 0
    printed, err = capsys.readouterr()
    assert err == ""
    assert printed.count("\n") == 1
    data = json.loads(printed)
    assert data == json.loads((out / "size.json").read_text())
    assert data["value"] == 6
    assert data["policies"]["fedrt-plus"]["total_time_s"]["mean"] <= deadline_s
    tried = {each["value"]: each for each in data["tried"]}
    assert not tried[5]["makes_deadline"]
    assert "must be >= num_edges = 40" in tried[40]["problem"]
    rows = list(csv.DictReader((out / "size.csv").read_text().splitlines()))
    assert [int(row["fleet.num_edges"]) for row in rows] == list(tried)
    kinds = {".toml", ".json", ".jsonl", ".csv", ".png", ".svg"}
    assert {path.suffix for path in out.iterdir()} == kinds


def test_strict_budgets_that_cannot_be_met_count_as_failing(capsys, tmp_path):
    args = ["--deadline", "1h", "--vary", "fleet.energy_j_per_edge_round=1e-4..1", *SHORT_ARGS]
    args += ["--set", "control.budgets=strict", "--out", str(tmp_path / "out")]
    assert main(["size", "quickstart", *args]) == 0
    out = capsys.readouterr().out
    assert "cannot run" in out
    assert "yes, the least" in out
    assert "every device within its budget; " in out.splitlines()[-2]
    assert out.splitlines()[-2].endswith(" cannot run)")


@pytest.mark.parametrize(
    ("deadline", "vary", "start"),
    [
        ("1ms", "bandwidth.scale=1..2", '--deadline "1ms": must be a time > 0 with units'),
        ("10", "bandwidth.scale=1..2", '--deadline "10": must be'),
        ("30m1h", "bandwidth.scale=1..2", '--deadline "30m1h": must be'),
        ("0s", "bandwidth.scale=1..2", '--deadline "0s": must be'),
        ("9" * 400 + "h", "bandwidth.scale=1..2", '--deadline "999'),
        ("1h", "bandwidth.scale=2..1", '--vary "bandwidth.scale=2..1": must have lo <= hi'),
        ("1h", "bandwidth.scale=1,2", "--vary"),
        ("1h", "bandwidth.scale=a..b", "--vary"),
        ("1h", "bandwidth.scale=1..inf", "--vary"),
        ("1h", "bandwidth.scale=1..nan", "--vary"),
        ("1h", "bandwidth.scale", "--vary"),
        ("1h", "bandwidth..scale=1..2", "--vary"),
        ("1h", "bandwidth.sale=1..2", "scenario.bandwidth.sale: unknown field; did you mean scale"),
        ("1h", "nothing=1..2", "scenario.nothing: unknown field"),
        ("1h", "fleet.num_edges.deep=1..2", "scenario.fleet.num_edges.deep: unknown field"),
        ("1h", "fleet=1..2", "--vary fleet: must be a setting that is a number"),
        ("1h", "control.mixing=1..2", "--vary control.mixing: must be a setting that is a number"),
        ("1h", "fleet.num_edges=1.5..3", "--vary fleet.num_edges=1.5..3: must be two whole"),
        ("1h", "fleet.num_edges=31..40", "no fleet.num_edges from 31 to 40 can run: "),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    deadline, vary, start, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    args = ["size", "quickstart", "--deadline", deadline, "--vary", vary, *SHORT_ARGS]
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(start)
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.rglob("*")] in ([], ["runs"])


def test_an_unreachable_deadline_names_the_best_reachable(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    args = ["size", "quickstart", "--deadline", "1s", "--vary", "backhaul.scale=0.5..2"]
    assert main([*args, *SHORT_ARGS]) == 2
    best = worst_time_s("backhaul.scale=2.0")
    line = f"the best reachable is {best:.3g} s, at backhaul.scale = 2\n"
    assert capsys.readouterr().err.endswith(line)


def test_vary_twice_is_refused(capsys):
    args = ["--deadline", "1h", "--vary", "bandwidth.scale=1..2", "--vary", "backhaul.scale=1..2"]
    assert main(["size", "quickstart", *args]) == 2
    assert capsys.readouterr().err == "--vary: must be given once, not 2 times\n"


def test_no_smaller_value_is_hinted_at_where_all_were_tried():
    """All of 1 to 8 are tried: only the growth above the answer is worth a word."""
    found = search(Span("edges", 1, 8, whole=True), 3.0, timed(lambda n: abs(n - 5)))
    assert found.answer.value == 2
    assert found.note.startswith("the time is not monotone in edges: it grows from")
    assert "smaller value" not in found.note
    wide = search(Span("edges", 1, 100, whole=True), 5.0, timed(lambda n: abs(n - 30) / 4))
    assert "a smaller value that makes the deadline may lie between" in wide.note


@pytest.mark.parametrize("key", ["learning.model_bits", "fleet.cycles_per_sample"])
def test_a_number_that_may_be_a_word_can_be_sized(key):
    span, _ = fit_span(Span(key, 100_000, 1_000_000), "quickstart")
    assert span == Span(key, 1e5, 1e6)
    assert not span.whole
    with pytest.raises(InputError, match="must be a setting that is a number"):
        fit_span(Span("fleet.cluster_sizes", 1, 2), "quickstart")


def spent(time_s, over_j):
    """A try of one seed with one device over budget by so many joules."""
    run = {"total_time_s": time_s, "over_budget_devices": int(over_j > 0), "over_budget_j": over_j}
    return (time_s,), (run,)


def priced(time, over_j):
    def measure(value):
        times, runs = spent(time(value), max(over_j(value), 0.0))
        return Try(value, times, runs=runs)

    return measure


@pytest.mark.parametrize("span", SPANS, ids=str)
@given(part=st.floats(0, 1))
def test_where_more_is_worse_the_greatest_is_found(span, part):
    most = span.low + part * (span.high - span.low)
    found = search(span, 0.0, timed(lambda value: value - most))
    assert found.note is None
    if span.low == span.high:
        return
    assert found.wanted == "greatest"
    assert found.answer.value <= most
    greater = [each.value for each in found.tries if each.value > found.answer.value]
    if span.whole:
        assert found.answer.value == math.floor(most)
    elif greater:
        near = max(abs(greater[0]), 1e-3 * (span.high - span.low) if span.low <= 0 else 0)
        assert greater[0] - found.answer.value <= 1.01e-3 * near + 1e-12
        assert greater[0] > most


def test_the_direction_can_be_given():
    span = Span("edges", 1, 100, whole=True)
    for wanted, value in [("least", 10), ("greatest", 50), (None, 10)]:
        found = search(span, 5.0, timed(lambda n: abs(n - 30) / 4), wanted)
        assert (found.answer.value, found.wanted) == (value, wanted or "least")
    falls = search(span, 5.0, timed(lambda n: abs(n - 30) / 4), "greatest")
    assert "it falls from 7.25 s at 1 to" in falls.note
    assert "a greater value that makes the deadline may lie" in falls.note


def test_what_overspends_more_is_worse_where_the_time_stays_the_same():
    found = search(Span("w", 1, 100, whole=True), 5.0, priced(lambda n: 4.0, lambda n: n - 60.0))
    assert (found.answer.value, found.wanted) == (60, "greatest")


def test_an_answer_keeps_every_budget():
    """In time from 20 on, within budgets from 40 on."""
    span = Span("x", 1, 100, whole=True)
    measure = priced(lambda n: 100.0 - n, lambda n: 40.0 - n)
    kept = search(span, 80.0, measure)
    assert kept.answer.value == 40
    assert size_sentence(kept, "mine") == (
        "least x for 80 s under mine: 40 (60.000 s, every device within its budget;"
        " 39 takes 61.000 s, 1 device over budget by 1 J in all)"
    )
    words = {each.value: verdict(kept, each) for each in kept.tries}
    assert words[39] == "no: in time, but 1 device over budget by 1 J in all"
    assert words[40] == "yes, the least"
    assert words[1] == "no, +23.8 %; 1 device over budget by 39 J in all"
    taken = search(span, 80.0, measure, overspend=True)
    assert taken.answer.value == 20
    assert verdict(taken, taken.answer) == "yes, the least, but 1 device over budget by 20 J in all"
    assert "20 (80.000 s, 1 device over budget by 20 J in all;" in size_sentence(taken, "mine")


def test_the_values_between_late_and_over_budget_are_searched():
    """In time from 52 on and within budgets up to 54, which lies between two values of the grid."""
    found = search(
        Span("x", 1, 100, whole=True), 48.0, priced(lambda n: 100.0 - n, lambda n: n - 54.0)
    )
    assert found.answer.value == 52
    nothing = search(
        Span("x", 1, 100, whole=True), 40.0, priced(lambda n: 100.0 - n, lambda n: n - 54.0)
    )
    cheapest = min(each.value for each in nothing.tries if each.worst_s <= 40)
    assert str(unreachable(nothing)) == (
        f"no x from 1 to 100 makes the deadline of 40 s within every device's budget: {cheapest}"
        f" takes {100 - cheapest} s with 1 device over budget by {cheapest - 54} J in all; within"
        " budgets the best reachable is 46 s, at x = 54; `allow_overspend` takes such answers"
    )


def test_a_deadline_made_by_overspending_alone_is_refused_with_its_price(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    vary = ["--vary", "fleet.energy_j_per_edge_round=0.001..0.03", *SHORT_ARGS]
    args = ["size", "quickstart", "--deadline", "1h", *vary]
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert "no: in time, but " in out
    assert err.startswith(
        "no fleet.energy_j_per_edge_round from 0.001 to 0.03 makes the deadline of 60.00 min within"
        " every device's budget: 0.03 takes "
    )
    assert " devices over budget by " in err
    assert main([*args, "--allow-overspend", "--out", "out"]) == 0
    data = json.loads((tmp_path / "out" / "size.json").read_text())
    devices = data["policies"]["fedrt-plus"]["over_budget_devices"]["mean"]
    assert devices > 0
    assert not data["within_budgets"]
    assert f"; {devices:.0f} devices over budget by" in data["sentence"].replace(", ", "; ")
    assert data["sentence"] in capsys.readouterr().out


def test_the_greatest_model_is_found(tmp_path, capsys):
    out = tmp_path / "out"
    args = ["--deadline", "3s", "--vary", "learning.model_bits=1e4..1e6", *SHORT_ARGS]
    assert main(["size", "quickstart", *args, "--out", str(out)]) == 0
    data = json.loads((out / "size.json").read_text())
    value = data["value"]
    assert data["wanted"] == "greatest"
    assert data["sentence"].startswith(
        f"greatest learning.model_bits for 3 s under fedrt-plus: {value:.10g}"
    )
    assert will_do(f"learning.model_bits={value!r}", 3.0)
    assert not will_do(f"learning.model_bits={value * 1.002!r}", 3.0)
    printed = capsys.readouterr().out
    assert "yes, the greatest" in printed
    assert data["sentence"] in printed
