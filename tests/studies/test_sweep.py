"""Sweeps and fronts: every point checked first, each equal to a plain estimate."""

from __future__ import annotations

import csv
import json
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrt.cli import main
from fedrt.errors import InfeasibleError, InputError
from fedrt.scenario import load_scenario
from fedrt.studies.estimates import comparison, estimate
from fedrt.studies.front import BUDGET, efficient, varied_budgets
from fedrt.studies.sweep import plan_sweep, read_vary, run_sweep, split_words, sweep_data

SHORT = ["rounds.global_rounds=3"]
SHORT_ARGS = ["--set", SHORT[0]]
VARY = {BUDGET: ("0.05", "0.1"), "backhaul.scale": ("1", "2")}


def test_points_are_the_product_with_the_first_key_slowest():
    sweep = plan_sweep("quickstart", VARY, ["fedrt"], [0, 1], SHORT)
    assert [tuple(p.settings.values()) for p in sweep.points] == list(product(*VARY.values()))
    assert [p.scenario.backhaul.scale for p in sweep.points] == [1, 2, 1, 2]
    assert [p.scenario.fleet.energy_j_per_edge_round.low for p in sweep.points] == [
        *(0.05, 0.05),
        *(0.1, 0.1),
    ]
    assert sweep.rounds == 4 * 1 * 2 * 3


def test_a_point_equals_a_direct_estimate():
    policies, seeds = ["fedrt", "ce-fedavg"], [0, 3]
    sweep = plan_sweep("quickstart", VARY, policies, seeds, SHORT)
    point = sweep_data(sweep, run_sweep(sweep))["points"][1]
    assert point["settings"] == {BUDGET: 0.05, "backhaul.scale": 2}
    scenario = load_scenario("quickstart", [*SHORT, f"{BUDGET}=0.05", "backhaul.scale=2"])
    direct = comparison("", estimate(scenario, policies, seeds))
    assert point["policies"] == direct["policies"]


def test_words_and_lists_can_vary():
    vary = read_vary(["base_graph={kind='ring'},{kind='links', links=[[0,1],[1,2],[2,3],[3,4]]}"])
    sweep = plan_sweep("quickstart", vary, ["fedrt"], [0], SHORT)
    assert [p.scenario.base_graph.kind for p in sweep.points] == ["ring", "links"]
    vary = read_vary(["base_graph.kind=ring,star"])
    sweep = plan_sweep("quickstart", vary, ["fedrt"], [0], SHORT)
    assert sweep_data(sweep, run_sweep(sweep))["vary"] == {"base_graph.kind": ["ring", "star"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2", ("1", "2")),
        (" 1 , [2,3] ,4", ("1", "[2,3]", "4")),
        ('\'a,b\',"c,\\",d",e', ("'a,b'", '"c,\\",d"', "e")),
        ("it's,b", ("it's", "b")),
        ("[1,[2,3]],{a=[1,2],b=3}", ("[1,[2,3]]", "{a=[1,2],b=3}")),
        ("],1", ("]", "1")),
        ("", ("",)),
        ("1,", ("1", "")),
    ],
)
def test_split_words(text, words):
    assert split_words(text) == words


@given(st.lists(st.lists(st.integers(-5, 5), max_size=3).map(str) | st.sampled_from("abc")))
def test_joined_words_come_apart_again(words):
    assert split_words(",".join(words)) == (tuple(words) or ("",))


BAD = [
    (["--vary", "fleet.colour=1,2"], ["scenario.fleet.colour: unknown field"]),
    (["--vary", "flet.num_edges=1,2"], ["scenario.flet: unknown field; did you mean fleet?"]),
    (["--vary", "backhaul.scale=1,,2"], ['--vary "backhaul.scale=1,,2": must be KEY=v1,v2,...']),
    (["--vary", "backhaul.scale"], ['--vary "backhaul.scale": must be KEY=v1,v2,...']),
    (["--vary", "backhaul..scale=1"], ['--vary "backhaul..scale=1": must be KEY=v1,v2,...']),
    (["--vary", "backhaul.scale=1,1.0"], ['--vary "backhaul.scale=1,1.0": must name "1.0" only']),
    (
        ["--vary", "backhaul.scale=1", "--vary", "backhaul.scale=2"],
        ['--vary "backhaul.scale=2": must give backhaul.scale only once'],
    ),
    (
        ["--vary", "backhaul.scale=1,-1,x"],
        ["scenario.backhaul.scale = -1: must be", 'scenario.backhaul.scale = "x": must be'],
    ),
    (["--vary", "fleet.num_edges=5,50"], ["scenario.fleet.num_devices = 20: must be >= num_edges"]),
    (["--vary", "fleet.num_edges=5", "--policies", "best"], ['policy = "best": must be one of']),
    (["--vary", "channel={kind='trace',file='no.csv'},{kind='x'}"], ["no.csv", "channel.kind"]),
    ([], ["fedrt sweep: the following arguments are required: --vary"]),
]


@pytest.mark.parametrize(("args", "lines"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_a_line_each_and_nothing_is_written(
    args, lines, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "quickstart", *args, *SHORT_ARGS]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == len(lines)
    for line, start in zip(err.splitlines(), lines, strict=True):
        assert start in line
    assert list(tmp_path.iterdir()) == []


def test_too_many_points_are_refused():
    many = tuple(map(str, range(1, 102)))
    with pytest.raises(InputError, match="10201 combinations"):
        plan_sweep("quickstart", {"a.b": many, "a.c": many}, ["fedrt"], [0])


def test_json_is_the_only_output_and_is_saved_too(tmp_path, capsys):
    out = tmp_path / "out"
    args = ["--vary", "backhaul.scale=1,2", "--policies", "fedrt,static-t", "--seeds", "0,1"]
    assert main(["sweep", "quickstart", *args, *SHORT_ARGS, "--json", "--out", str(out)]) == 0
    printed, err = capsys.readouterr()
    assert err == ""
    assert printed.count("\n") == 1
    data = json.loads(printed)
    assert data == json.loads((out / "sweep.json").read_text())
    assert data["scenario"] == "quickstart"
    assert data["vary"] == {"backhaul.scale": [1, 2]}
    assert [point["settings"] for point in data["points"]] == [
        {"backhaul.scale": 1},
        {"backhaul.scale": 2},
    ]
    for point in data["points"]:
        assert list(point["policies"]) == ["fedrt", "static-t"]
        assert set(point["policies"]["fedrt"]["total_time_s"]) == {"mean", "std", "per_seed"}
    rows = list(csv.DictReader((out / "sweep.csv").read_text().splitlines()))
    assert len(rows) == 2 * 2 * 2
    fastest = float(rows[0]["total_time_s"])
    assert fastest == data["points"][0]["policies"]["fedrt"]["total_time_s"]["per_seed"][0]
    assert {path.name for path in out.iterdir()} == {
        *("config.toml", "base.toml", "run.json", "environment.json", "points.jsonl"),
        *("sweep.csv", "sweep.json", "sweep.png", "sweep.svg"),
    }


def test_the_table_fits_eighty_columns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    args = ["--vary", f"{BUDGET}=0.05,0.1", "--vary", "backhaul.scale=1,2", "--seeds", "0,1"]
    assert main(["sweep", "quickstart", *args, *SHORT_ARGS]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "fedrt-plus" in out
    assert out.endswith("saved in runs/sweep-quickstart-1\n")


def test_a_taken_folder_is_refused_before_anything_runs(tmp_path, capsys):
    args = ["sweep", "quickstart", "--vary", "backhaul.scale=1", "--out", str(tmp_path)]
    assert main(args) == 2
    assert "exists already" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_point_that_strict_budgets_stop_does_not_stop_the_others():
    strict = [*SHORT, "control.budgets=strict"]
    sweep = plan_sweep("quickstart", {BUDGET: ("1e-6", "1")}, ["fedrt"], [0], strict)
    seen = []
    poor, rich = run_sweep(sweep, seen.append)
    assert "device 0: its budget" in poor.infeasible["fedrt"]
    assert rich.results["fedrt"][0]["over_budget_devices"] == 0
    assert seen == [[poor, rich]]
    sweep = plan_sweep("quickstart", {BUDGET: ("1e-6",)}, ["fedrt"], [0], strict)
    with pytest.raises(InfeasibleError, match="its budget"):
        run_sweep(sweep)


PAIRS = st.tuples(st.integers(0, 4).map(float), st.integers(0, 4).map(float))


@given(st.lists(PAIRS, max_size=12))
def test_efficient_points_are_those_that_none_beats(costs):
    def beats(a, b):
        return a[0] <= b[0] and a[1] <= b[1] and a != b

    assert efficient(costs) == [not any(beats(a, b) for a in costs) for b in costs]


def test_front_marks_efficient_points_of_all_policies(tmp_path, capsys):
    out = tmp_path / "front"
    args = ["--budgets", "0.1,0.05", "--policies", "fedrt-plus,ce-fedavg", "--json"]
    assert main(["front", "quickstart", *args, *SHORT_ARGS, "--out", str(out)]) == 0
    printed, err = capsys.readouterr()
    assert err == ""
    data = json.loads(printed)
    assert [point["settings"][BUDGET] for point in data["points"]] == [0.05, 0.1]
    spots = [numbers for point in data["points"] for numbers in point["policies"].values()]
    costs = [(s["total_time_s"]["mean"], s["energy_j_mean"]["mean"]) for s in spots]
    assert [spot["efficient"] for spot in spots] == efficient(costs)
    rows = list(csv.DictReader((out / "front.csv").read_text().splitlines()))
    assert [row["efficient"] for row in rows] == [str(spot["efficient"]) for spot in spots]
    assert (out / "front.png").stat().st_size > 10_000


@pytest.mark.parametrize("budgets", ["0.001,0.002", "0.001,0.1"])
def test_a_point_with_devices_over_budget_is_never_efficient(budgets, tmp_path, capsys):
    out = tmp_path / "front"
    args = ["--budgets", budgets, "--policies", "fedrt-plus,ce-fedavg"]
    assert main(["front", "quickstart", *args, *SHORT_ARGS, "--out", str(out)]) == 0
    points = json.loads((out / "front.json").read_text())["points"]
    spots = [numbers for point in points for numbers in point["policies"].values()]
    over = [spot["over_budget_devices"]["mean"] > 0 for spot in spots]
    assert over[:2] == [True, True]
    assert not any(spot["efficient"] for spot, bad in zip(spots, over, strict=True) if bad)
    # A point that overspends does not take the star from one that does not.
    kept = [spot for spot, bad in zip(spots, over, strict=True) if not bad]
    costs = [(s["total_time_s"]["mean"], s["energy_j_mean"]["mean"]) for s in kept]
    assert [spot["efficient"] for spot in kept] == efficient(costs)
    printed = " ".join(capsys.readouterr().out.split())
    none = "no point is efficient: under each some device is over its budget"
    assert (none in printed) == (not kept)
    assert ("* efficient: every device within its budget" in printed) == bool(kept)


def test_default_budgets_are_nine_steps_around_the_scenarios_own():
    ((key, words),) = varied_budgets(None, "quickstart", [f"{BUDGET}=2"]).items()
    assert key == BUDGET
    budgets = [float(word) for word in words]
    assert len(budgets) == 9
    assert budgets[0] == 1
    assert budgets[-1] == 8
    ratios = [b / a for a, b in pairwise(budgets)]
    assert ratios == pytest.approx([8 ** (1 / 8)] * 8, rel=1e-3)


@pytest.mark.parametrize(
    ("args", "start"),
    [
        (["--budgets", "1,x"], '--budgets "x": must be a number'),
        (["--budgets", "1,-1"], '--budgets "-1": must be a number of joules > 0'),
        (["--budgets", "1,true"], '--budgets "true": must be a number'),
        (["--budgets", "1,"], '--budgets "": must be a number'),
        (["--budgets", "1,nan"], '--budgets "nan": must be a number'),
        (["--budgets", "1,1e99"], '--budgets "1e99": must be a number of joules > 0 and <= 1e+15'),
        (["--budgets", f"0x{'f' * 5000}"], '--budgets "0xffff'),
        (["--budgets", "1,1.0"], '--budgets "1,1.0": must name each budget only once'),
        (["--set", f"{BUDGET}=none"], f"scenario.{BUDGET}: no device has a budget > 0 to start"),
        (["--set", "fleet.energy_budget_j=0"], f"scenario.{BUDGET}: no device has a budget > 0"),
    ],
)
def test_front_refuses_bad_budgets(args, start, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["front", "quickstart", *args, *SHORT_ARGS]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(start)
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [("sweep", "--vary", "bandwidth.scale=1,2"), ("front", "--budgets", "0.1,0.2")],
)
def test_what_is_measured_can_be_varied_around(command, tmp_path, capsys):
    name, *options = command
    measured = [
        "--set",
        "learning.model_bits=measured",
        "--set",
        "fleet.cycles_per_sample=measured",
    ]
    call = [name, "quickstart", *SHORT_ARGS, *measured, *options, "--policies", "ce-fedavg"]
    assert main([*call, "--json", "--out", str(tmp_path / "out")]) == 0
    first, second = json.loads(capsys.readouterr().out)["points"]
    assert first["policies"] != second["policies"]


@pytest.mark.parametrize(
    "command",
    [
        ("estimate",),
        ("sweep", "--vary", "bandwidth.scale=1,2"),
        ("front", "--budgets", "1e-9,2e-9"),
        ("size", "--deadline", "1h", "--vary", "bandwidth.scale=1..2"),
    ],
)
@pytest.mark.parametrize("policy", ["fedrt", "own_failing_policy:Late"])
def test_what_cannot_be_shown_leaves_no_folder(command, policy, tmp_path, monkeypatch, capsys):
    (tmp_path / "own_failing_policy.py").write_text(FAILING)
    monkeypatch.syspath_prepend(tmp_path)
    name, *options = command
    strict = ["--set", "control.budgets=strict", "--set", f"{BUDGET}=1e-9"]
    call = [name, "quickstart", *SHORT_ARGS, *options, *(strict if policy == "fedrt" else [])]
    call += ["--policy" if name == "size" else "--policies", policy]
    assert main([*call, "--out", str(tmp_path / "out")]) in (2, 3)
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


FAILING = """
class Late:
    name, energy_horizon = "late", "exact"
    def plan(self, seen, books):
        raise RuntimeError("not today")
"""
