"""A fleet of one's own, of two classes with bandwidths and a trace: every study answers on it."""

from __future__ import annotations

import json
import re

import pytest
from support.paths import EXAMPLES, ROOT
from support.tiny import tiny

from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.scenario import load_scenario
from fedrt.studies.front import BUDGET, SCALE, budget_at, varied_budgets
from fedrt.studies.span import Span, fit_span
from fedrt.studies.sweep import Point

OWN = str(EXAMPLES / "own_fleet.toml")
SHORT = ["--set", "rounds.global_rounds=1", "--json"]
CLASSES = 'fleet.classes=[{name="phone",share=0.5},{name="watch"}]'


def answer(capsys, *words: str) -> dict:
    assert main(list(words)) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_the_example_is_short_and_stands_in_the_docs():
    text = (EXAMPLES / "own_fleet.toml").read_text()
    assert len(text.splitlines()) <= 40
    assert f"```toml\n{text}```" in (ROOT / "docs" / "fleets.md").read_text()
    fleet = load_scenario(OWN).fleet
    assert (fleet.num_devices, fleet.num_edges, len(fleet.classes or ())) == (200, 12, 2)


def test_estimate_tells_the_classes_apart(tmp_path, capsys):
    out = ["--out", str(tmp_path / "out"), "--policies", "fedrt"]
    classes = answer(capsys, "estimate", OWN, *out, *SHORT)["policies"]["fedrt"]["classes"]
    assert {name: each["devices"] for name, each in classes.items()} == {"new": 60, "old": 140}
    new, old = (each["energy_j_mean"]["mean"] for each in classes.values())
    # They have 0.09 and 0.06 J per edge round.
    assert new > old > 0


def test_sweep_over_a_share(tmp_path, capsys):
    vary = ["--vary", "fleet.classes.new.share=0.2,0.8", "--policies", "fedrt"]
    found = answer(capsys, "sweep", OWN, *vary, *SHORT, "--out", str(tmp_path / "out"))
    few, many = (point["policies"]["fedrt"] for point in found["points"])
    assert [few["classes"]["new"]["devices"], many["classes"]["new"]["devices"]] == [40, 160]
    assert many["total_time_s"]["mean"] < few["total_time_s"]["mean"]


def test_size_keeps_the_shares_of_more_devices(tmp_path, capsys):
    vary = ["--vary", "fleet.num_devices=20..60", "--deadline", "1h", "--policy", "ce-fedavg"]
    more = ["--allow-overspend", "--find", "greatest", "--out", str(tmp_path / "out")]
    found = answer(capsys, "size", OWN, *vary, *more, *SHORT)
    assert found["value"] == 60
    classes = found["policies"]["ce-fedavg"]["classes"]
    assert {name: each["devices"] for name, each in classes.items()} == {"new": 18, "old": 42}


def test_front_scales_budgets_that_differ(tmp_path, capsys):
    out = ["--out", str(tmp_path / "out"), "--policies", "ce-fedavg"]
    found = answer(capsys, "front", OWN, *out, *SHORT)
    scales = [point["settings"][SCALE] for point in found["points"]]
    assert (len(scales), scales[0], scales[-1]) == (9, 0.5, 4.0)
    spent = [p["policies"]["ce-fedavg"]["energy_j_mean"]["mean"] for p in found["points"]]
    assert spent == sorted(spent)
    assert spent[0] < spent[-1]
    table = (tmp_path / "out" / "front.csv").read_text().splitlines()
    # 60 x 0.09 J and 140 x 0.06 J are 0.069 J on average, half of it at first.
    assert float(table[1].split(",")[0]) == pytest.approx(0.0345, rel=1e-12)
    assert main(["front", OWN, *out[2:], "--set", "rounds.global_rounds=1"]) == 0
    assert "x 0.5" in capsys.readouterr().out


def test_bound_answers(tmp_path):
    # Without a limit on the mixing, which takes the longest.
    out = ["--out", str(tmp_path / "out"), "--policies", "fedrt", "--rho", "none"]
    assert main(["bound", OWN, *out, *SHORT[:2]]) == 0
    found = json.loads((tmp_path / "out" / "bound.json").read_text())
    time_s, bound_s = found["policies"]["fedrt"]["total_time_s"], found["bound"]["time_s"]
    assert 0 < bound_s["mean"] <= time_s["mean"]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ((), BUDGET),
        (('fleet.classes.watch.energy_budget_j="none"',), BUDGET),
        (("fleet.classes.watch.energy_budget_j=3",), SCALE),
        (("fleet.energy_j_per_edge_round={uniform=[1,2]}",), SCALE),
        (("fleet.energy_budget_j=5",), SCALE),
        (("fleet.budget_scale=2",), SCALE),
    ],
)
def test_which_budgets_a_front_varies(settings, key):
    source = tiny(CLASSES)
    assert list(varied_budgets(None, source, settings)) == [key]


def test_given_budgets_and_classes_that_have_their_own():
    some = ["fleet.classes.watch.energy_budget_j=3"]
    assert varied_budgets("1,2", tiny(CLASSES), some) == {BUDGET: ("1", "2")}
    both = [*some, 'fleet.classes.phone.energy_budget_j="none"']
    with pytest.raises(InputError) as caught:
        varied_budgets("1,2", tiny(CLASSES), both)
    assert caught.value.lines == [
        "`budgets`: the classes phone, watch have budgets of their own; leave it out, and all of"
        " them are scaled"
    ]


def test_the_budget_of_a_point_is_the_mean_of_those_there_are():
    # 4 phones with 8 J over 8 edge rounds; 3 watches with 4 J, and scaled by 3.
    settings = ("fleet.classes.watch.energy_budget_j=4", "fleet.budget_scale=3")
    found = budget_at(Point({}, tiny(CLASSES, *settings)))
    assert found == pytest.approx(3 * (4 * 8 + 3 * 4) / 7 / 8, rel=1e-12)


CSV = "{kind='trace',file='x.csv'}"


@pytest.mark.parametrize(
    ("key", "settings", "words"),
    [
        ("fleet.num_devices", (), "fleet.cluster_sizes (a list)"),
        ("fleet.num_edges", (), "fleet.cluster_sizes (a list)"),
        (
            "fleet.num_devices",
            ('fleet.classes=[{name="a",count=3},{name="b",count=4}]', "fleet.cluster_sizes=even"),
            "fleet.classes (counts alone; give one class a share, or neither)",
        ),
        (
            "fleet.num_devices",
            ("fleet.classes.watch.tx_power_w=[1,2,3]", "fleet.cluster_sizes=even"),
            "fleet.classes.watch.tx_power_w (a list)",
        ),
        (
            "fleet.num_devices",
            (f"channel={CSV}", "fleet.cluster_sizes=even"),
            "channel.file (a trace; reuse = true lets devices share it)",
        ),
        (
            "fleet.num_edges",
            ("bandwidth.hz=[1,2,3]", f"backhaul={CSV}", "fleet.cluster_sizes=even"),
            "bandwidth.hz (a list), backhaul.file (a trace)",
        ),
    ],
)
def test_a_number_that_something_fixes_is_not_searched(key, settings, words):
    source = tiny(CLASSES, *settings)
    with pytest.raises(InputError) as caught:
        fit_span(Span(key, 7, 9), source)
    assert caught.value.lines == [f"`vary` {key}: cannot change, as it is fixed by {words}"]


def test_spans_of_classes():
    source = tiny(CLASSES)
    assert fit_span(Span("fleet.classes.phone.share", 0, 1), source)[0].whole is False
    assert fit_span(Span("fleet.classes.phone.count", 0, 5), source)[0].whole is True
    assert fit_span(Span("fleet.classes.watch.cpu_max_hz", 2e9, 4e9), source)[0].high == 4e9
    for key, words in (
        ("fleet.classes.phnoe.share", "there is no such class; the fleet has phone, watch"),
        ("fleet.classes.phone.shape", "unknown field; did you mean share"),
        ("fleet.classes.phone.edges", "must be a setting that is a number"),
    ):
        with pytest.raises(InputError) as caught:
            fit_span(Span(key, 0, 1), source)
        (line,) = caught.value.lines
        assert re.search(re.escape(words), line), line
