"""The hindsight bound: never above exhaustive search or any policy within its limits, and near."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.whole_run import least_total_time_s
from support.bound_worlds import limits, small
from support.tiny import as_options, tiny

from fedrt.bound.distances import stand_in_distances
from fedrt.bound.whole_run import hindsight_bound
from fedrt.cli import main
from fedrt.control.allocation.allocate import allocate
from fedrt.control.topology.consensus import see_backhaul
from fedrt.control.topology.links import best_links, finish_time_s
from fedrt.cost.backhaul import link_time_s
from fedrt.cost.round import price
from fedrt.policies import POLICIES
from fedrt.studies.bound import (
    beyond_limits,
    bound_world,
    compare_to_bound,
    run_policy,
)
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

# What the search for prices may leave between two bounds that should be in order.
SEARCH = 1e-4


@pytest.mark.parametrize(
    ("edges", "seed", "rounds", "rho", "factor"),
    [
        (2, 0, 3, None, 1.0),
        (2, 1, 2, 0.1, 1.05),
        (3, 0, 2, None, 1.0),
        (3, 1, 2, 0.05, 1.0),
        (3, 2, 2, 0.3, 1.1),
        (3, 3, 2, 0.2, 5.0),
        pytest.param(4, 0, 2, 0.3, 1.0, marks=pytest.mark.slow),
        pytest.param(4, 1, 2, None, 1.02, marks=pytest.mark.slow),
    ],
)
def test_never_above_exhaustive_search(edges, seed, rounds, rho, factor, record_property):
    world = small(edges, seed, rounds)
    distances, limit_j = limits(world, factor)
    least_s = least_total_time_s(world, distances, limit_j, rho)
    bound_s, _ = hindsight_bound(world, distances, limit_j, rho)
    assert bound_s <= least_s * (1 + 1e-7)
    gap = 1 - bound_s / least_s
    assert gap < 0.01
    record_property("oracle", {"worst gap of the bound to exhaustive search": float(gap)})


def test_some_devices_without_limit_or_power():
    world = small(3, 5, 2, 3, "fleet.tx_power_w=[0.01,0,0.01,0,0.02]")
    distances, limit_j = limits(world, 1.02)
    limit_j[2:] = np.inf
    least_s = least_total_time_s(world, distances, limit_j, 0.3)
    bound_s, _ = hindsight_bound(world, distances, limit_j, 0.3)
    assert 0.99 * least_s < bound_s <= least_s * (1 + 1e-7)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Folders of results go where they are removed again."""
    monkeypatch.chdir(tmp_path)


def test_lone_devices_without_power(capsys):
    """One device to a server and radios for free: computing alone costs energy."""
    settings = ["fleet.num_edges=5", "fleet.num_devices=5", "fleet.tx_power_w=0"]
    settings += ["rounds.global_rounds=4", "fleet.energy_j_per_edge_round=0.8"]
    words = [word for text in (*settings, "base_graph.kind=ring") for word in ("--set", text)]
    words += ["--policies", "fedrt", "--seeds", "2,4,6,7,10", "--json"]
    assert main(["bound", "paper/femnist", *words]) == 0
    above = json.loads(capsys.readouterr().out)["policies"]["fedrt"]["above_bound"]["per_seed"]
    assert all(-1e-9 < each < 1 for each in above)


def test_without_energy_limits_it_is_what_the_quickest_rounds_take():
    """Then every device runs at its top, and each round's best links are known exactly."""
    world = SimulatedWorld(tiny(), 1)
    distances, infinite = stand_in_distances(world), np.full(7, np.inf)
    total_s = 0.0
    for t, distance in enumerate(distances):
        finish_s = np.zeros(3)
        for r in range(2):
            seen = world.observe(t, r)
            hz = allocate(seen, infinite)
            finish_s += price(_plan(hz, seen), seen).edge_time_s
        backhaul = see_backhaul(world.scenario, world.backhaul_bps(t), distance)
        link_s = link_time_s(world.model_bits, 1, backhaul.bps)
        kept = best_links(finish_s, link_s, distance, backhaul.consensus_limit)
        total_s += finish_time_s(kept, finish_s, link_s)
    bound_s, open_rounds = hindsight_bound(world, distances, infinite, None)
    assert bound_s == pytest.approx(total_s, rel=1e-6)
    assert open_rounds == 0


def _plan(allocation, seen):
    from fedrt.plan import Plan

    steps = np.full(seen.num_devices, seen.local_steps, dtype=np.int64)
    return Plan("optimal", allocation.bandwidth_hz, allocation.cpu_hz, steps, 1)


def test_larger_budgets_never_raise_it():
    world = small(3, 7, 3)
    distances, limit_j = limits(world, 1.0)
    bounds = [hindsight_bound(world, distances, limit_j * x, 0.2)[0] for x in (1, 1.03, 1.2, 9)]
    assert (np.diff(bounds) <= SEARCH * bounds[0]).all()
    assert bounds[-1] < bounds[0]


def test_more_links_and_a_looser_rho_never_raise_it():
    """With kappa = 1 the consensus limit asks for nothing, whatever the base graph."""
    bounds = []
    for graph in ('"ring"', '"complete"'):
        world = SimulatedWorld(
            tiny(
                "fleet.num_edges=4",
                "fleet.cluster_sizes=[2,2,2,1]",
                f"base_graph={{kind={graph}}}",
                "control.kappa=1.0",
            ),
            3,
        )
        # Energy does not depend on the links: the same limits on both graphs.
        distances, limit_j = limits(world, 1.0)
        bounds += [hindsight_bound(world, distances, limit_j, rho)[0] for rho in (0.2, 0.6)]
    ring, loose_ring, complete, loose = bounds
    assert complete <= ring * (1 + SEARCH)
    assert loose <= complete * (1 + SEARCH)
    assert loose_ring <= ring * (1 + SEARCH)
    assert loose <= loose_ring * (1 + SEARCH)


@settings(max_examples=6)
@given(
    seed=st.integers(0, 10**6),
    budget=st.sampled_from([0.5, 1.0, 1.5, 3.0]),
    share=st.sampled_from([0.5, 1.0]),
    steps=st.sampled_from([1, 4, 10]),
    rho=st.sampled_from([None, "fedrt", 0.5]),
)
def test_no_policy_within_the_limits_is_quicker(seed, budget, share, steps, rho):
    world = SimulatedWorld(
        tiny(
            f"fleet.energy_j_per_edge_round={budget}",
            f"learning.participation={share}",
            f"rounds={{global_rounds=3,edge_rounds=2,local_steps=10,gossip_steps={steps}}}",
        ),
        seed,
    )
    result = compare_to_bound(world, stand_in_distances(world), list(POLICIES), rho)
    assert result.bound.time_s > 0
    within = 0
    for run in result.runs:
        if not any(beyond_limits(result.bound, run).values()):
            within += 1
            assert result.above(run) >= -1e-9
    assert within or rho is not None


def test_limits_that_cannot_be_met_rise_to_what_can():
    world = SimulatedWorld(tiny("fleet.energy_j_per_edge_round=0.1", 'base_graph={kind="ring"}'), 0)
    distances = stand_in_distances(world)
    fedrt = run_policy(world, "fedrt", distances)
    bound = bound_world(world, distances, fedrt, 0.0)
    assert bound.raised_devices == 7
    assert (bound.limit_j == fedrt.spent_j).all()
    assert 0 < bound.time_s <= fedrt.time_s
    line = SimulatedWorld(tiny('base_graph={kind="links",links=[[0,1],[1,2]]}'), 0)
    fedrt = run_policy(line, "fedrt", distances)
    stretched = bound_world(line, distances, fedrt, 0.0)
    # Best on a path of three is M = I - L / 2, with eigenvalues 1, 1/2 and -1/2.
    assert (stretched.rho_asked == 0.0).all()
    assert stretched.rho == pytest.approx(np.full(4, 0.5**10), rel=0.05)


def call(*args: str) -> int:
    return main(["bound", *args])


def test_the_command_prints_a_table_and_json(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    options = ["quickstart", *as_options()]
    assert call(*options, "--seeds", "0,1", "--json") == 0
    text, err = capsys.readouterr()
    assert err == ""
    said = json.loads(text)
    assert said["seeds"] == [0, 1]
    assert list(said["policies"]) == list(POLICIES)
    for name, numbers in said["policies"].items():
        kind = "bound_over_codecs" if name == "fedrt-joint" else "bound"
        bound_s = said[kind]["time_s"]["per_seed"]
        times = numbers["total_time_s"]["per_seed"]
        above = [time / least - 1 for time, least in zip(times, bound_s, strict=True)]
        assert numbers["above_bound"]["per_seed"] == pytest.approx(above)
    assert said["policies"]["mll-sgd"]["own_local_steps"] == [1, 1]
    coded, plain = (said[kind]["time_s"]["mean"] for kind in ("bound_over_codecs", "bound"))
    assert coded < plain
    assert call(*options, "--policies", "static-t", "--rho", "none") == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "no contraction limit" in words
    assert "static-t" in words
    assert "│ fedrt" not in words


def test_a_recorded_run_brings_its_distances(tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["estimate", *as_options(), "--policies", "fedrt", "--out", str(out)]) == 0
    capsys.readouterr()
    assert call("--run", str(out / "fedrt-0"), "--policies", "fedrt", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    summary = json.loads((out / "fedrt-0" / "summary.json").read_text())
    assert said["policies"]["fedrt"]["total_time_s"]["per_seed"] == [summary["total_time_s"]]
    (out / "fedrt-0" / "links.parquet").unlink()
    assert call("--run", str(out / "fedrt-0")) == 2
    assert "has no links.parquet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "give a scenario or --run DIR"),
        (["quickstart", "--rho", "2"], "must be a number from 0 to 1, or none"),
        (["quickstart", "--rho", "nan"], "must be a number from 0 to 1, or none"),
        (["quickstart", "--run", "here"], "brings its own scenario and seed"),
        (["--run", "nowhere"], "is not a run directory"),
        (["quickstart", "--policies", "best"], "must be one of fedrt"),
        (["nothing"], "the scenario"),
    ],
)
def test_bad_calls_are_one_line(args, words, capsys):
    assert call(*args) == 2
    text, err = capsys.readouterr()
    assert text == ""
    assert err.count("\n") == 1
    assert words in err
