"""The loop: observe, plan, price, charge, recomputed by hand and at the ends of every setting."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.looped import run
from support.tiny import tiny

from fedrt.control.topology.consensus import see_backhaul, unlinked_distance
from fedrt.errors import InfeasibleError
from fedrt.graph import is_connected
from fedrt.policies import POLICIES, make_policy
from fedrt.runs.executor import StandIn, known_to_all
from fedrt.runs.loop import simulate_rounds
from fedrt.scenario.sizes import message_bits
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

FEW_EDGES = ("fleet.num_edges=6", "fleet.num_devices=12", "fleet.cluster_sizes=even")


def topologies(rounds) -> list[np.ndarray]:
    return [done.last.plan.gossip.links for done in rounds]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_recomputed_from_the_equations(policy):
    """Times and energies of the paper's cost model with loops and plain floats, from the plans."""
    scenario, spent, clock = tiny(), np.zeros(7), 0.0
    alpha = SimulatedWorld(scenario, 0).fleet.capacitance
    for t, done in enumerate(run(scenario, policy)):
        edge_s = np.zeros(3)
        for r, turn in enumerate(done.edge_rounds):
            assert (turn.t, turn.r) == (t, r)
            slowest = [0.0, 0.0, 0.0]
            for n, c in enumerate([0, 0, 1, 1, 1, 2, 2]):
                work = int(turn.plan.local_steps[n]) * 32 * 94.2e6
                f, b = float(turn.plan.cpu_hz[n]), float(turn.plan.bandwidth_hz[n])
                bits = 8e6
                if turn.plan.codec is not None:
                    bits = turn.seen.menu.bits[turn.plan.codec[n]]
                upload_s = bits / np.log2(1 + float(turn.seen.snr[n])) / b
                slowest[c] = max(slowest[c], work / f + upload_s)
                spent[n] += 0.01 * upload_s + alpha[n] / 2 * work * f**2
            edge_s += slowest
            assert_allclose(turn.after.spent_j, spent, rtol=1e-12)
        bps, topology = turn.seen.backhaul.bps, turn.plan.gossip.links
        steps, codec = turn.plan.gossip.steps, turn.plan.gossip.codec
        assert steps == 10 or policy in ("fedrt-plus", "fedrt-joint")
        message = 8e6 if codec is None else message_bits(codec, 8e6)
        for c in range(3):
            edge_s[c] += max(steps * message / bps[c, d] for d in range(3) if topology[c, d])
        clock += max(edge_s)
        assert_allclose(done.time_s, max(edge_s), rtol=1e-12)
        assert_allclose(done.ends_at_s, clock, rtol=1e-12)
        assert_allclose(turn.after.time_s, clock, rtol=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_one_edge_round_and_one_server(policy):
    for settings in (
        ["rounds.edge_rounds=1"],
        ["fleet.num_edges=1", "fleet.cluster_sizes=[7]"],
        ["fleet.num_edges=1", "fleet.cluster_sizes=[7]", "rounds.edge_rounds=1"],
        ["fleet.num_edges=1", "fleet.num_devices=1", "fleet.cluster_sizes=[1]"],
    ):
        rounds = run(tiny(*settings), policy)
        assert len(rounds) == 4
        for done in rounds:
            assert np.isfinite(done.time_s)
            assert done.time_s > 0
            if done.last.seen.num_edges == 1:
                assert_array_equal(done.last.cost.backhaul_s, [0.0])
                assert_allclose(done.time_s, sum(x.cost.edge_time_s[0] for x in done.edge_rounds))


def test_only_the_last_edge_round_sees_links():
    for done in run(tiny("rounds.edge_rounds=3")):
        assert [turn.seen.backhaul is None for turn in done.edge_rounds] == [True, True, False]
        assert [turn.plan.gossip is None for turn in done.edge_rounds] == [True, True, False]


@pytest.mark.parametrize("policy", ["fedrt", "static-r", "fedrt-plus"])
def test_distances_of_zero_keep_the_base_graph(policy):
    world = SimulatedWorld(tiny(*FEW_EDGES), 0)
    models = StandIn(world)
    models.distances = lambda t: known_to_all(np.zeros((6, 6)))
    rounds = list(simulate_rounds(world, make_policy(policy), models))
    for topology in topologies(rounds):
        assert_array_equal(topology, ~np.eye(6, dtype=bool))


@pytest.mark.parametrize("policy", ["fedrt", "static-r", "fedrt-plus"])
@pytest.mark.parametrize("graph", ['{kind="complete"}', '{kind="ring"}'])
def test_kappa_from_no_pruning_to_connectivity_alone(policy, graph):
    counts = []
    for kappa in (0, 0.5, 1):
        scenario = tiny(*FEW_EDGES, f"control.kappa={kappa}", f"base_graph={graph}")
        world, rounds = SimulatedWorld(scenario, 0), run(scenario, policy)
        for done, topology in zip(rounds, topologies(rounds), strict=True):
            assert is_connected(topology)
            assert not (topology & ~world.base_graph).any()
            distance = world.stand_in_distance(done.last.t)
            base = unlinked_distance(world.base_graph, distance)
            full = distance.sum() / 36
            left = unlinked_distance(topology, distance)
            assert left <= (base + kappa * (full - base)) * (1 + 1e-12)
        counts.append(sum(int(topology.sum()) // 2 for topology in topologies(rounds)))
    links = int(world.base_graph.sum()) // 2
    assert counts[0] == 4 * links
    assert counts[0] > counts[1] >= counts[2] >= 4 * 5


def test_connectivity_alone_is_what_kappa_1_means():
    world = SimulatedWorld(tiny(*FEW_EDGES, "control.kappa=1"), 0)
    seen = see_backhaul(world.scenario, world.backhaul_bps(0), world.stand_in_distance(0))
    assert_allclose(seen.consensus_limit, world.stand_in_distance(0).sum() / 36, rtol=1e-15)


@pytest.mark.parametrize("policy", ["static-t", "ce-fedavg", "mll-sgd"])
def test_policies_that_do_not_choose_keep_every_link_all_along(policy):
    scenario = tiny(*FEW_EDGES, 'base_graph={kind="erdos-renyi",probability=0.5}')
    for topology in topologies(run(scenario, policy)):
        assert_array_equal(topology, SimulatedWorld(scenario, 0).base_graph)


@pytest.mark.parametrize("policy", ["static-r", "ce-fedavg", "mll-sgd"])
def test_policies_that_split_evenly_do_so_all_along(policy):
    scenario = tiny('bandwidth={kind="uniform",low_hz=1e6,high_hz=3e6}')
    for done in run(scenario, policy):
        for turn in done.edge_rounds:
            share = np.repeat(turn.seen.edge_bandwidth_hz / [2, 3, 2], [2, 3, 2])
            assert_allclose(turn.plan.bandwidth_hz, share, rtol=1e-15)


def test_choosing_pays():
    scenario = tiny(*FEW_EDGES, "rounds.global_rounds=10")
    end = {name: run(scenario, name)[-1].ends_at_s for name in POLICIES}
    assert end["fedrt-plus"] <= end["fedrt"] <= min(end["static-r"], end["static-t"])
    assert max(end["static-r"], end["static-t"]) <= end["ce-fedavg"]


class Spy:
    """Plans as another policy does, and remembers what it was shown."""

    def __init__(self, policy):
        self.policy, self.name = policy, policy.name
        self.energy_horizon = policy.energy_horizon
        self.shown = []

    def plan(self, seen, books):
        self.shown.append(seen)
        return self.policy.plan(seen, books)


def test_all_policies_see_the_same_world():
    scenario = tiny(*FEW_EDGES)
    spies = [Spy(make_policy(name)) for name in POLICIES]
    for spy in spies:
        run(scenario, spy)
        assert len(spy.shown) == 8
        for seen, first in zip(spy.shown, spies[0].shown, strict=True):
            for f in fields(seen):
                mine, other = getattr(seen, f.name), getattr(first, f.name)
                if f.name != "backhaul":
                    assert_array_equal(mine, other)
                elif mine is not None:
                    assert_array_equal(mine.bps, other.bps)
                    assert_array_equal(mine.consensus_distance, other.consensus_distance)
                    assert mine.consensus_limit == other.consensus_limit


@pytest.mark.parametrize("policy", ["fedrt", "fedrt-plus"])
def test_the_scenario_overrules_the_horizon(policy):
    spent = {}
    for horizon in ("policy", "paper", "exact"):
        last = run(tiny(f"control.energy_horizon={horizon}"), policy)[-1].last
        spent[horizon] = last.after.spent_j
        # Before the last of 8 edge rounds: what is left over 1, or over the paper's 1 + 2.
        left = last.after.left_j + last.cost.energy_j
        usual = "paper" if policy == "fedrt" else "exact"
        count = 3 if "paper" in (horizon, usual if horizon == "policy" else "") else 1
        assert_allclose(last.allowance_j, left / count, rtol=1e-12)
    if policy == "fedrt":
        # fedrt-plus follows FedRT's spending, whose horizon the scenario overrules as well.
        assert_array_equal(spent["policy"], spent[usual])
    assert spent["exact"].sum() > spent["paper"].sum()


STRICT = 'control={budgets="strict"}'


def test_strict_refuses_hopeless_budgets_at_the_start(tmp_path, capsys):
    scenario = tiny(STRICT, "fleet.energy_budget_j=[9,9,1,9,9,0.5,9]")
    with pytest.raises(InfeasibleError) as caught:
        run(scenario, "fedrt")
    assert caught.value.exit_code == 3
    alpha = SimulatedWorld(scenario, 0).fleet.capacitance
    for line, n, budget in zip(caught.value.lines, (2, 5), ("1", "0.5"), strict=True):
        # 8 edge rounds x alpha / 2 x 3.0144e10 cycles x (2e9 Hz)^2
        need = 8 * alpha[n] / 2 * 3.0144e10 * 4e18
        assert line.startswith(f"device {n}: its budget is {budget} J")
        assert f"takes {need:.6g} J in 8 edge rounds" in line


def bad_round_2(tmp_path) -> str:
    """A trace in which device 4 is all but gone in global round 2, edge round 1."""
    path = tmp_path / "trace.csv"
    rows = [
        f"{t},{r},{n},{-25 if (t, r, n) == (2, 1, 4) else 12}"
        for t in range(4)
        for r in range(2)
        for n in range(7)
    ]
    path.write_text("\n".join(["global_round,edge_round,device,snr_db", *rows]) + "\n")
    return f'channel={{kind="trace",file="{path}"}}'


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "fedrt-joint"])
def test_strict_stops_where_a_later_draw_cannot_be_paid(policy, tmp_path):
    scenario = tiny(STRICT, bad_round_2(tmp_path), "fleet.energy_j_per_edge_round=1.5")
    rounds = simulate_rounds(SimulatedWorld(scenario, 0), make_policy(policy))
    assert [next(rounds).last.t, next(rounds).last.t] == [0, 1]
    with pytest.raises(InfeasibleError) as caught:
        next(rounds)
    assert caught.value.exit_code == 3
    assert all("global round 2, edge round 1" in line for line in caught.value.lines)
    found = re.search(
        r"allowance of edge 1, device 4 = (\S+): .* take (\S+) J; allow (\S+) J more",
        "\n".join(caught.value.lines),
    )
    allowance, need, more = map(float, found.groups())
    assert 0 < allowance < need
    assert_allclose(need - allowance, more, rtol=1e-4)
    assert len(run(replace(scenario, control=tiny().control), policy)) == 4


def test_strict_names_devices_by_their_number_in_the_fleet(tmp_path):
    """With 0.6 of the devices taking part, places in a round are not numbers in the fleet."""
    settings = ("learning.participation=0.6", "fleet.energy_j_per_edge_round=1.5")
    scenario = tiny(STRICT, bad_round_2(tmp_path), *settings)
    seed = next(s for s in range(50) if 4 in SimulatedWorld(scenario, s).taking_part(2, 1))
    with pytest.raises(InfeasibleError) as caught:
        list(simulate_rounds(SimulatedWorld(scenario, seed), make_policy("fedrt")))
    assert any("edge 1, device 4 = " in line for line in caught.value.lines)
