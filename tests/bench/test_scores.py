"""Scores, places and standings, worked by hand."""

from __future__ import annotations

import pytest

from fedrt.bench.outcomes import WORDS
from fedrt.bench.scores import bench_data, ranking
from fedrt.bench.worlds import load_world, world_digest

BOUNDS = {
    "digits": {
        str(seed): {"time_s": 100.0, "digest": world_digest(load_world("digits"), seed)}
        for seed in (0, 1)
    }
}


def outcome(time_s, *, over_j=0.0, over_limit=0, energy_j=1.0, **done):
    return {
        "name": "own",
        "time_s": time_s,
        "energy_j_mean": energy_j,
        "over_budget_devices": int(over_j > 0),
        "over_budget_j": over_j,
        "over_limit_devices": over_limit,
        **dict.fromkeys(WORDS, 0),
        **done,
    }


OUTCOMES = {
    "fedrt-plus": [outcome(110.0), outcome(120.0)],
    "fedrt": [outcome(130.0, energy_j=2.0), outcome(140.0, energy_j=2.0)],
    # Quicker than all others, but with energy that nobody else may spend.
    "greedy": [outcome(105.0, over_j=3.0, over_limit=2), outcome(107.0)],
    # Leaves a device out on one seed alone.
    "lazy": [outcome(50.0), outcome(60.0, left_out=1)],
}


def scored(outcomes=OUTCOMES, world="digits", bounds=BOUNDS):
    data = bench_data({world: outcomes}, (0, 1), bounds)
    return data, data["worlds"][world]


def test_the_same_work_is_scored_above_the_bound():
    data, world = scored()
    assert world["against"] == "bound"
    assert world["why_no_bound"] is None
    # (110 / 100 - 1 + 120 / 100 - 1) / 2
    assert world["policies"]["fedrt-plus"]["above"]["mean"] == pytest.approx(0.15)
    assert data["summary"]["fedrt-plus"]["above_bound_mean"] == pytest.approx(0.15)
    assert data["summary"]["fedrt-plus"]["energy_ratio"] == pytest.approx(0.5)


def test_other_work_on_one_seed_has_no_score():
    data, world = scored()
    lazy = world["policies"]["lazy"]
    assert not lazy["same_work"]
    assert lazy["above"] is None
    assert lazy["rank"] is None
    assert lazy["other_work"] == ["leaves devices out"]
    assert data["summary"]["lazy"] == {
        "worlds": 0,
        "above_bound_mean": None,
        "above_bound_most": None,
        "most_on": None,
        "first": 0,
        "over_budget_worlds": 0,
        "over_limit_worlds": 0,
        "energy_ratio": None,
        "other_work": {"leaves devices out": ["digits"]},
    }


def test_who_spends_over_a_limit_comes_after_all_others():
    data, world = scored()
    assert ranking(world["policies"]) == ["fedrt-plus", "fedrt", "greedy"]
    assert [world["policies"][name]["rank"] for name in OUTCOMES] == [1, 2, 3, None]
    assert world["overspends"]
    # The standing looks at time alone: 115 / 106 - 1 behind the one that overspends.
    found = data["standing"]["digits"]
    assert found["first"] == "greedy"
    assert found["behind"] == pytest.approx(115 / 106 - 1)
    assert not found["near"]


def test_without_a_bound_the_quickest_within_the_limits_is_the_measure():
    _, world = scored(world="city", bounds={})
    assert world["against"] == "best"
    assert world["why_no_bound"] == "beyond 12 edge servers the bound is loose"
    assert world["reference_s"] == [110.0, 120.0]
    assert world["policies"]["fedrt-plus"]["above"]["mean"] == 0.0
    assert world["policies"]["greedy"]["above"]["per_seed"] == [105 / 110 - 1, 107 / 120 - 1]


@pytest.mark.parametrize(
    ("world", "why"),
    [("faults", "the bound is for fleets that do not fail"), ("ring", "no bound was made for")],
)
def test_it_says_why_a_world_has_no_bound(world, why):
    _, found = scored(world=world, bounds={})
    assert found["why_no_bound"].startswith(why)


def test_a_single_percent_is_near():
    near = OUTCOMES | {"greedy": [outcome(109.0), outcome(119.0)]}
    assert scored(near)[0]["standing"]["digits"]["near"]
    far = OUTCOMES | {"greedy": [outcome(108.0), outcome(118.0)]}
    assert not scored(far)[0]["standing"]["digits"]["near"]


def test_a_summary_is_over_all_worlds_with_a_score():
    """Fedrt-plus is 15 % above the bound of `digits` and 30 % above that of `ring`.

    It spends a half of what fedrt does, and in `ring` a quarter; in `city`, without a bound, a half
    again, and it is first there as well. It overspends in `ring` alone, on one seed, within limits.
    """
    bounds = BOUNDS | {
        "ring": {
            str(seed): {"time_s": 200.0, "digest": world_digest(load_world("ring"), seed)}
            for seed in (0, 1)
        }
    }
    ring = {
        "fedrt-plus": [outcome(250.0, over_j=1.0, energy_j=0.5), outcome(270.0, energy_j=0.5)],
        "fedrt": [outcome(240.0, energy_j=2.0), outcome(260.0, energy_j=2.0)],
    }
    both = {name: OUTCOMES[name] for name in ring}
    data = bench_data({"digits": both, "ring": ring, "city": both}, (0, 1), bounds)
    own = data["summary"]["fedrt-plus"]
    assert own["worlds"] == 3
    assert own["above_bound_mean"] == pytest.approx((0.15 + 0.3) / 2)
    assert own["above_bound_most"] == pytest.approx(0.3)
    assert own["most_on"] == "ring"
    assert own["energy_ratio"] == pytest.approx((0.5 + 0.25 + 0.5) / 3)
    assert (own["first"], own["over_budget_worlds"], own["over_limit_worlds"]) == (2, 1, 0)
    # In `digits` 130 and 140 s, in `ring` 240 and 260: 35 % and 25 % above.
    fedrt = data["summary"]["fedrt"]
    assert fedrt["above_bound_mean"] == pytest.approx((0.35 + 0.25) / 2)
    assert (fedrt["above_bound_most"], fedrt["most_on"]) == (pytest.approx(0.35), "digits")
    assert fedrt["first"] == 1
    assert [data["worlds"][name]["overspends"] for name in data["worlds"]] == [False, True, False]
