"""`fedrt estimate`: the comparison in numbers, as JSON, and as a table."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.tiny import as_options, tiny

from fedrt.cli import main
from fedrt.policies import POLICIES
from fedrt.studies.compare import differences
from fedrt.studies.estimates import comparison, estimate, over_seeds, savings

SEEDS = [0, 1, 2]


@pytest.fixture(scope="module")
def results():
    return estimate(tiny(), list(POLICIES), SEEDS)


def call(*args: str) -> int:
    return main(["estimate", *as_options(), *args])


def test_json_is_one_object_and_nothing_else(results, tmp_path, capsys):
    policies = ",".join(POLICIES)
    out = ["--json", "--out", str(tmp_path / "out")]
    assert call("--policies", policies, "--seeds", "0,1,2", *out) == 0
    text, err = capsys.readouterr()
    assert err == ""
    assert text.count("\n") == 1
    said = json.loads(text)
    assert set(said) == {"scenario", "policies"}
    assert said["scenario"] == "tiny"
    assert list(said["policies"]) == list(POLICIES)
    for name, numbers in said["policies"].items():
        assert numbers["name"] == name
        assert {"total_time_s", "energy_j_mean", "over_budget_devices"} <= set(numbers)
        for value in (value for key, value in numbers.items() if key != "name"):
            assert set(value) == {"mean", "std", "per_seed"}
            assert len(value["per_seed"]) == 3
            assert value["mean"] == pytest.approx(np.mean(value["per_seed"]), rel=1e-12)
            assert value["std"] == pytest.approx(np.std(value["per_seed"], ddof=1), rel=1e-12)
    assert said == comparison("tiny", results)
    assert said == json.loads((tmp_path / "out" / "comparison.json").read_text())


def test_per_seed_follows_the_order_of_the_seeds(results):
    other = estimate(tiny(), ["fedrt"], [2, 0])
    times = [run["total_time_s"] for run in other["fedrt"]]
    assert times == [results["fedrt"][2]["total_time_s"], results["fedrt"][0]["total_time_s"]]
    assert [run["seed"] for run in other["fedrt"]] == [2, 0]
    assert len({run["total_time_s"] for run in results["fedrt"]}) == 3


def test_spread_over_seeds_by_hand():
    # 1, 2, 6: mean 3, squares of the differences 4 + 1 + 9 = 14, / 2 = 7.
    assert over_seeds([1, 2, 6]) == {
        "mean": 3.0,
        "std": pytest.approx(7**0.5),
        "per_seed": [1, 2, 6],
    }
    assert over_seeds([5.0]) == {"mean": 5.0, "std": 0.0, "per_seed": [5.0]}


def test_savings_are_paired_by_seed():
    def runs(*times):
        return [{"total_time_s": time} for time in times]

    # 1 - 5/10 = 0.5 and 1 - 90/100 = 0.1: mean 0.3, though 95 of 110 s would be 0.136.
    saved = savings(runs(5, 90), runs(10, 100))
    assert saved["per_seed"] == pytest.approx([0.5, 0.1])
    assert saved["mean"] == pytest.approx(0.3)
    assert saved["std"] == pytest.approx(0.4 / 2**0.5)
    with pytest.raises(ValueError, match="shorter"):
        savings(runs(5, 90), runs(10))


def test_the_table_has_every_policy_and_its_savings(results, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert call("--seeds", "0,1,2", "--out", str(tmp_path / "out")) == 0
    text, err = capsys.readouterr()
    assert err == ""
    assert "tiny: 7 devices, 3 edges, 4 rounds, 3 seeds" in text
    for name, runs in results.items():
        lines = [line for line in text.splitlines() if line.startswith(f"│ {name} ")]
        assert len(lines) == 2  # times and energies, and where the time goes
        for base in ("ce-fedavg", "mll-sgd"):
            if name != base:
                assert f"{-savings(runs, results[base])['mean']:+.1%}" in lines[0]
        energy = over_seeds([run["energy_j_mean"] for run in runs])
        assert f"{energy['mean']:.4g} J" in lines[0]
        whole = sum(run["total_time_s"] for run in runs)
        for part in ("compute_s", "upload_s", "backhaul_s", "waiting_s"):
            assert f"{sum(run['time_parts'][part] for run in runs) / whole:.1%}" in lines[1]
    assert f"saved in {tmp_path / 'out'}" in text


def test_the_table_without_baselines_and_seeds(tmp_path, capsys):
    assert call("--policies", "fedrt", "--out", str(tmp_path / "out")) == 0
    text, _ = capsys.readouterr()
    assert "1 seed" in text
    assert "fedrt" in text
    assert "±" not in text


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--policies", "best"], 'policy = "best": must be one of fedrt'),
        (["--policies", "fedrt,,static-t"], "without gaps"),
        (["--policies", ""], "without gaps"),
        (["--policies", "fedrt,fedrt"], "only once"),
        (["--policies", "fedrt;static-t"], "must be one of"),
        (["--policies", "static_t"], "did you mean static-t?"),
        (["--policies", "no_such_module:X"], "cannot be imported"),
        (["--policies", "json:nothing"], "has no nothing"),
        (["--seeds", ""], "without gaps"),
        (["--seeds", "a"], "must be a whole number >= 0"),
        (["--seeds", "-1"], "must be a whole number >= 0"),
        (["--seeds", "1.5"], "must be a whole number >= 0"),
        (["--seeds", "0,0"], "only once"),
        (["--seeds", "٣"], "must be a whole number >= 0"),
        (["--seeds", "1" * 30], "must be a whole number >= 0"),
        (["--set", "fleet.colour=3"], "unknown field"),
        (["--nonsense"], "unrecognized arguments"),
    ],
)
def test_bad_calls_are_one_line_and_write_nothing(args, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(*args) == 2
    text, err = capsys.readouterr()
    assert text == ""
    assert err.count("\n") == 1
    assert words in err
    assert list(tmp_path.iterdir()) == []


def test_infeasible_is_exit_3_with_a_line_per_device(tmp_path, capsys):
    strict = ["--set", 'control={budgets="strict"}', "--set", "fleet.energy_budget_j=0.5"]
    assert call("--policies", "fedrt", "--out", str(tmp_path / "out"), *strict) == 3
    text, err = capsys.readouterr()
    assert text == ""
    assert err.count("\n") == 7


def test_two_runs_in_one_process_are_the_same(results):
    assert estimate(tiny(), ["fedrt"], [1])["fedrt"][0] == results["fedrt"][1]


def test_runs_that_take_no_time_are_equally_fast():
    none, some = {"total_time_s": 0.0}, {"total_time_s": 4.0}
    assert savings([none, some], [none, some]) == {"mean": 0, "std": 0, "per_seed": [0, 0]}
    assert savings([none, some], [some, none]) == {"mean": None, "std": None, "per_seed": [1, None]}
    accuracy = {"best_accuracy": 0.5}
    apart = differences([none | accuracy], [none | accuracy])
    assert apart["total_time"]["per_seed"] == [0]


def test_servers_that_are_all_down_take_no_time(tmp_path, capsys):
    down = 'faults.server_down={kind="random",probability=1}'
    out = ["--out", str(tmp_path / "out"), "--json", "--set", down]
    assert call("--policies", "fedrt,ce-fedavg", *out) == 0
    assert json.loads(capsys.readouterr().out)["policies"]["fedrt"]["total_time_s"]["mean"] == 0
