"""The committed results of the bench are those of this code, of these worlds and of results/."""

from __future__ import annotations

import json

import bench_data
import pytest
from support.paths import ROOT

from fedrt.bench.outcomes import other_work, run_task
from fedrt.bench.scores import NEAR, OURS, standing, summary
from fedrt.bench.trained import read_trained
from fedrt.bench.worlds import SEEDS, WORLDS, load_world, world_digest
from fedrt.policies import SHIPPED

COMMITTED = json.loads((ROOT / "results" / "bench" / "bench.json").read_text())
# Of each kind one: our own, the paper's, a share of the devices, fewer bits, links that are drawn.
PART = [
    ("digits", "fedrt-plus", 0),
    ("digits", "static-r", 1),
    ("ring", "fedrt", 2),
    ("uneven", "tifl", 0),
    ("faults", "even-int4", 1),
    ("traced", "matcha", 0),
    ("noise-density", "hfel", 2),
    ("participation", "lroa", 0),
]


def test_everything_is_there():
    assert list(COMMITTED["worlds"]) == list(WORLDS)
    assert COMMITTED["seeds"] == list(SEEDS)
    assert list(COMMITTED["policies"]) == list(SHIPPED)
    assert all(list(w["policies"]) == list(SHIPPED) for w in COMMITTED["worlds"].values())


def test_the_worlds_are_those_of_the_package():
    for name, world in COMMITTED["worlds"].items():
        scenario = load_world(name)
        assert world["digest"] == {str(seed): world_digest(scenario, seed) for seed in SEEDS}


@pytest.mark.parametrize(("world", "policy", "seed"), PART)
def test_a_part_is_made_again_as_it_was(world, policy, seed):
    found, kept = run_task(world, policy, seed), COMMITTED["worlds"][world]["policies"][policy]
    for name in ("time_s", "energy_j_mean", "over_budget_j"):
        # As cells are planned again (experiments/kept.py): another processor rounds otherwise.
        assert found[name] == pytest.approx(kept[name]["per_seed"][seed], rel=1e-9, abs=1e-9)
    assert found["over_limit_devices"] == kept["over_limit_devices"][seed]
    assert {name: found[name] for name in kept["counts"]} == {
        name: counts[seed] for name, counts in kept["counts"].items()
    }
    assert set(other_work(found)) <= set(kept["other_work"])


def test_scores_follow_from_times_and_bounds_and_stand_only_where_they_may():
    for world in COMMITTED["worlds"].values():
        for each in world["policies"].values():
            assert (each["above"] is None) == bool(each["other_work"])
            if each["above"] is None:
                continue
            pairs = zip(each["time_s"]["per_seed"], world["reference_s"], strict=True)
            assert each["above"]["per_seed"] == pytest.approx([t / b - 1 for t, b in pairs])
            if world["against"] == "bound" and not any(each["over_limit_devices"]):
                # Within all limits of the bound nothing is quicker than it.
                assert min(each["above"]["per_seed"]) >= -1e-9


def test_summaries_and_standings_follow_from_the_worlds():
    worlds = COMMITTED["worlds"]
    assert COMMITTED["standing"] == standing(worlds)
    assert COMMITTED["summary"] == {policy: summary(policy, worlds) for policy in SHIPPED}


def test_ours_is_first_or_near_it_where_nobody_overspends():
    for name, world in COMMITTED["worlds"].items():
        if not world["overspends"]:
            found = COMMITTED["standing"][name]
            assert found["behind"] <= NEAR, f"{OURS} on {name}"


def test_trained_numbers_in_the_package_are_those_of_the_results():
    packed = bench_data.packed()
    assert json.loads(bench_data.FILE.read_text()) == packed
    assert {name: COMMITTED[name] for name in ("trained", "learned")} == read_trained(list(SHIPPED))


def test_a_row_of_a_learned_policy_that_lacks_something_is_named(tmp_path):
    file = tmp_path / "learned.json"
    row = {"name": "x", "source": "y", "world": "quickstart", "seeds": [1, 2], "beside": {}}
    numbers = {name: [1.0, 2.0] for name in bench_data.LISTS}
    file.write_text(json.dumps({"rows": [{**row, **numbers, "time_s": [1.0]}]}))
    with pytest.raises(bench_data.InputError) as caught:
        bench_data.learned(file)
    assert caught.value.lines == [
        "learned.json: rows[0].acts_on: must be a text",
        "learned.json: rows[0].time_s: must have 2 numbers, one for each seed",
    ]
    file.write_text(json.dumps({"rows": [{**row, **numbers, "acts_on": "ce-fedavg"}]}))
    assert bench_data.learned(file)[0]["name"] == "x"
