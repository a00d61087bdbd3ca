"""The tasks of the bench and what comes of their results, without carrying any out."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from fedrt.bench import pool, study
from fedrt.bench.pool import BenchTask
from fedrt.bench.study import Bench, finished, make_bounds, run_bench
from fedrt.bench.view import mean_over_j, mean_ratio, mean_time
from fedrt.bench.worlds import WORLDS, load_world, why_no_bound
from fedrt.studies.study import Points

BENCH = Bench(("digits", "city"), ("fedrt", "hfel"), (0, 1))


@pytest.fixture
def points(tmp_path):
    file = os.open(tmp_path / "points", os.O_RDWR | os.O_CREAT)
    yield Points(file)
    os.close(file)


@pytest.fixture
def carried_out(monkeypatch) -> list[BenchTask]:
    """The tasks that were carried out; each takes a second more than the one before."""
    done: list[BenchTask] = []

    def carry_out_all(tasks, jobs):
        for task in tasks:
            done.append(task)
            yield task, {"time_s": float(len(done)), "cpu_s": 0.5 * len(done)}

    monkeypatch.setattr(study, "carry_out_all", carry_out_all)
    return done


def test_every_policy_on_every_world_and_seed_the_largest_world_first():
    """`city` has 5,000 devices, `digits` 20."""
    assert BENCH.tasks == [
        BenchTask(world, policy, seed)
        for world in ("city", "digits")
        for seed in (0, 1)
        for policy in ("fedrt", "hfel")
    ]


def test_bounds_are_made_of_the_worlds_that_have_one():
    """None of `city`, which has too many edge servers, nor of `faults`."""
    assert BENCH.bound_tasks == [BenchTask("digits", None, 0), BenchTask("digits", None, 1)]
    without = [world for world in WORLDS if why_no_bound(load_world(world)) is not None]
    assert without == ["faults", "city"]


def test_what_was_saved_is_not_carried_out_again(points, carried_out):
    tasks = BENCH.tasks
    heard: list[tuple[str, int]] = []
    first = finished(tasks[:3], 1, points)
    assert carried_out == tasks[:3]
    again = finished(tasks[:5], 1, points, lambda what, seed: heard.append((what, seed)))
    assert carried_out == tasks[:5]
    assert list(again) == tasks[:5]
    assert all(again[task] == first[task] for task in tasks[:3])
    assert [again[task]["time_s"] for task in tasks[:5]] == [1, 2, 3, 4, 5]
    assert heard[0] == ("city: fedrt", 0)
    assert [seed for _, seed in heard] == [0, 0, 1, 1, 0]


def test_results_go_to_their_world_policy_and_seed(points, carried_out, monkeypatch):
    """In the order above: city with seed 0 takes 1 and 2 s, with seed 1 3 and 4 s."""
    scored = {}

    def bench_data(outcomes, seeds, bounds):
        scored.update(outcomes)
        return {"seeds": list(seeds)}

    monkeypatch.setattr(study, "bench_data", bench_data)
    monkeypatch.setattr(study, "read_trained", lambda policies: {"trained": policies})
    data, seconds = run_bench(BENCH, 3, points)
    assert data == {"seeds": [0, 1], "trained": ("fedrt", "hfel")}
    times_s = {
        world: {policy: [run["time_s"] for run in runs] for policy, runs in of_world.items()}
        for world, of_world in scored.items()
    }
    assert times_s == {
        "city": {"fedrt": [1, 3], "hfel": [2, 4]},
        "digits": {"fedrt": [5, 7], "hfel": [6, 8]},
    }
    # Half as many CPU seconds: all 18, and the most of any seed.
    assert (seconds["jobs"], seconds["cpu_s"]) == (3, 18.0)
    assert seconds["cpu_s_most"] == {
        "city": {"fedrt": 1.5, "hfel": 2.0},
        "digits": {"fedrt": 3.5, "hfel": 4.0},
    }


def test_bounds_are_kept_by_world_and_seed(points, carried_out):
    bounds = make_bounds(BENCH, 1, points)
    assert {world: list(of_world) for world, of_world in bounds.items()} == {"digits": ["0", "1"]}
    assert [bounds["digits"][seed]["time_s"] for seed in ("0", "1")] == [1, 2]


def test_a_process_of_the_bench_ends_after_the_one_that_started_it_and_not_before(monkeypatch):
    events = []
    parent = SimpleNamespace(join=lambda: events.append("the parent has ended"))
    monkeypatch.setattr(pool, "parent_process", lambda: parent)
    monkeypatch.setattr(pool.os, "_exit", lambda code: events.append(code))
    pool._end_with_parent()
    assert events == ["the parent has ended", 1]


def test_means_over_seeds():
    assert mean_over_j({"over_budget_j": [1.0, 2.0, 6.0]}) == 3.0
    assert mean_time({"time_s": [2.0, 4.0]}) == 3.0
    assert mean_time({"time_s": [2.0, None]}) is None
    assert mean_time(None) is None
    # 2 / 4 and 6 / 4
    assert mean_ratio([2.0, 6.0], [4.0, 4.0]) == 1.0
