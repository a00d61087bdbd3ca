"""fedrt-plus: what it promises over a run and in a single decision, and each of its parts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from support.paths import EXAMPLES
from support.tiny import tiny

from fedrt.control.allocation.allocate import allocate
from fedrt.control.mixing.weights import contraction, mixing_of
from fedrt.cost.round import price
from fedrt.decision import plan_round, read_state
from fedrt.errors import InfeasibleError
from fedrt.policies import make_policy
from fedrt.policies.fedrt_plus import FedRTPlus, step_seconds
from fedrt.runs.loop import make_world, simulate_rounds
from fedrt.scenario import load_scenario

pytestmark = pytest.mark.numerical

STATE = json.loads((EXAMPLES / "round.json").read_text())
PARTS = ("exact_links", "joint_gossip", "slack", "pacing", "gossip_and_slack")


def paper_world(*settings, seed=0):
    """FEMNIST at 1.5 J, shortened."""
    fixed = ["fleet.energy_j_per_edge_round=1.5", "rounds.global_rounds=40"]
    return make_world(load_scenario("paper/femnist", [*fixed, *settings]), seed)


def last_books(rounds):
    return rounds[-1].last.after


def same_plans(mine, other):
    for a, b in zip(mine, other, strict=True):
        for x, y in zip(a.edge_rounds, b.edge_rounds, strict=True):
            np.testing.assert_array_equal(x.plan.bandwidth_hz, y.plan.bandwidth_hz)
            np.testing.assert_array_equal(x.plan.cpu_hz, y.plan.cpu_hz)
            assert (x.plan.gossip is None) == (y.plan.gossip is None)
        assert a.last.gossip.steps == b.last.gossip.steps


@pytest.mark.parametrize("seed", [0, 1])
def test_less_time_for_no_more_energy_and_every_round_mixes_well_enough(seed):
    world = paper_world(seed=seed)
    policy = FedRTPlus()
    plus = list(simulate_rounds(world, policy))
    fedrt = list(simulate_rounds(world, make_policy("fedrt")))
    mine, theirs = last_books(plus), last_books(fedrt)
    assert mine.time_s < 0.92 * theirs.time_s
    assert mine.spent_j.mean() <= theirs.spent_j.mean()
    assert not mine.overspent_j.any()
    for done, other in zip(plus, fedrt, strict=True):
        plan = done.last.plan
        rho = contraction(mixing_of(other.last.gossip, "metropolis")) ** 10
        assert contraction(plan.gossip.weights) ** plan.gossip.steps <= rho
        assert plan.status == "feasible"
    # The same policy again, and a fresh one: a run does not depend on what was planned before it.
    same_plans(plus, list(simulate_rounds(world, policy)))
    same_plans(plus, list(simulate_rounds(world, FedRTPlus())))


def test_the_limit_of_each_round_is_what_fedrt_leaves_in_it():
    world = paper_world("rounds.global_rounds=9", seed=2)
    chosen = [done.last.gossip for done in simulate_rounds(world, make_policy("fedrt"))]
    left = [contraction(mixing_of(gossip, "metropolis")) ** 10 for gossip in chosen]
    assert limits(simulate_rounds(world, FedRTPlus())) == left
    given = paper_world("rounds.global_rounds=9", "control.contraction_limit=0.25")
    assert limits(simulate_rounds(given, FedRTPlus())) == [0.25] * 9
    assert limits(simulate_rounds(given, make_policy("fedrt"))) == [None] * 9


def limits(rounds):
    return [done.last.seen.backhaul.contraction_limit for done in rounds]


def test_no_round_is_planned_with_what_comes_after_it():
    """Two worlds that part after the fourth global round: up to there all plans are the same."""
    settings = ["fleet.energy_j_per_edge_round=1.25", "rounds.global_rounds=8"]
    world, other = (make_world(load_scenario("paper/femnist", settings), 0) for _ in range(2))
    seen, up = other._channel.snr_db, 4

    def snr_db(t, r):
        return seen(t, r) if t < up else seen(t, r)[::-1].copy() - 3.0

    other._channel.snr_db = snr_db
    mine, others = (list(simulate_rounds(each, FedRTPlus())) for each in (world, other))
    same_plans(mine[:up], others[:up])
    assert not np.array_equal(mine[up].last.plan.cpu_hz, others[up].last.plan.cpu_hz)


STRAGGLERS = (
    "faults.straggler={kind='markov',mean_up=4,mean_down=4}",
    "faults.straggler_speed=0.3",
    "rounds.global_rounds=6",
)


def test_who_will_be_slow_is_not_known_beforehand():
    """Two worlds in which others are slow from the third global round on."""
    world, other = (make_world(tiny(*STRAGGLERS), 0) for _ in range(2))
    failures, up = other.failures, 2

    def swapped(seen):
        found = failures(seen)
        turned = found.cpu_fraction[::-1].copy()
        return found if seen.t < up else replace(found, cpu_fraction=turned)

    other.failures = swapped
    mine, others = (list(simulate_rounds(each, FedRTPlus())) for each in (world, other))
    same_plans(mine[:up], others[:up])
    turns = zip(mine[up].edge_rounds, others[up].edge_rounds, strict=True)
    same = [np.array_equal(x.plan.bandwidth_hz, y.plan.bandwidth_hz) for x, y in turns]
    # What happens in an edge round shows in the plan for the next one.
    assert same == [True, False]


def test_slow_devices_cost_less_time_than_under_fedrt_and_no_more_energy():
    settings = ("fleet.cycles_per_sample={uniform=[2e7,2e8]}", "rounds.global_rounds=40")
    world = make_world(tiny(*STRAGGLERS, *settings), 0)
    fedrt, plus = (
        last_books(list(simulate_rounds(world, make_policy(name))))
        for name in ("fedrt", "fedrt-plus")
    )
    assert plus.time_s < 0.98 * fedrt.time_s
    assert plus.overspent_j.sum() <= fedrt.overspent_j.sum() * (1 + 1e-9)


def test_a_limit_out_of_reach_is_said():
    settings = ["control.contraction_limit=1e-6", "rounds.gossip_steps=2", 'base_graph.kind="ring"']
    settings += [
        "fleet.energy_j_per_edge_round=9",
        "fleet.num_edges=7",
        'fleet.cluster_sizes="even"',
    ]
    for done in simulate_rounds(make_world(tiny(*settings), 0), FedRTPlus()):
        assert done.last.plan.status == "best-effort"
        assert done.last.plan.gossip.steps == 2
        assert done.last.plan.gossip.links.sum() == 14
    strict = make_world(tiny(*settings, 'control.budgets="strict"'), 0)
    with pytest.raises(InfeasibleError, match="contraction limit = 1e-06: even every link and 2"):
        list(simulate_rounds(strict, FedRTPlus()))
    state = STATE | {"contraction_limit": 1e-9, "gossip_steps": 1}
    state["backhaul_bps"] = np.where(np.eye(4)[::-1], 0.0, state["backhaul_bps"]).tolist()
    with pytest.raises(InfeasibleError, match=r"state\.contraction_limit = 1e-09"):
        plan_round(state, "fedrt-plus", strict=True)


def test_the_slowest_cluster_is_as_quick_as_can_be_and_the_others_save():
    state = read_state(STATE | {"contraction_limit": 0.05})
    plan = FedRTPlus().plan(state.seen, state.books)
    assert plan.status == "optimal"
    best = allocate(state.seen, state.books.allowance)
    cost = price(plan, state.seen)
    ends = state.books.elapsed_s + cost.edge_time_s + cost.backhaul_s
    slowest = int(np.argmax(ends))
    part = state.seen.edge_of_device == slowest
    np.testing.assert_array_equal(plan.cpu_hz[part], best.cpu_hz[part])
    np.testing.assert_array_equal(plan.bandwidth_hz[part], best.bandwidth_hz[part])
    # The others may use the time until the slowest is through, and only less energy.
    hurried = FedRTPlus(energy="allowance").plan(state.seen, state.books)
    full = price(hurried, state.seen)
    assert ends.max() == np.max(state.books.elapsed_s + full.edge_time_s + full.backhaul_s)
    assert cost.energy_j.sum() < 0.99 * full.energy_j.sum()
    assert np.all(cost.energy_j <= state.books.allowance * (1 + 1e-9))


def test_without_a_limit_all_gossip_steps_are_taken():
    plan = plan_round(STATE, "fedrt-plus")
    assert plan["gossip_steps"] == STATE["gossip_steps"]
    assert plan_round(STATE | {"contraction_limit": 0.05}, "fedrt-plus")["gossip_steps"] < 10


@pytest.mark.parametrize("part", PARTS)
def test_each_part_runs_alone_by_its_import_path(part):
    policy = make_policy(f"fedrt.policies.fedrt_plus:{part}")
    assert policy.name == "fedrt-plus-" + part.replace("_", "-")
    rounds = list(simulate_rounds(make_world(tiny(), 0), policy))
    joint = [done.last.plan.gossip.weights is not None for done in rounds]
    assert joint == [part in ("joint_gossip", "gossip_and_slack")] * 4


def test_parts_add_up():
    """On the paper's FEMNIST every part alone is quicker than FedRT or saves energy."""
    world = paper_world("rounds.global_rounds=60", seed=1)
    time_s, energy_j = {}, {}
    for name in ("fedrt", *(f"fedrt.policies.fedrt_plus:{part}" for part in PARTS), "fedrt-plus"):
        books = last_books(list(simulate_rounds(world, make_policy(name))))
        short = name.split(":")[-1]
        time_s[short], energy_j[short] = books.time_s, books.spent_j.mean()
    assert time_s["fedrt-plus"] < min(time_s["joint_gossip"], time_s["pacing"])
    assert time_s["joint_gossip"] < time_s["exact_links"] < time_s["fedrt"]
    assert time_s["pacing"] < time_s["fedrt"]
    assert energy_j["slack"] < energy_j["fedrt"]


@pytest.mark.parametrize(
    "settings",
    [
        ["learning.participation=0.5"],
        ["rounds.edge_rounds=3", "rounds.global_rounds=12"],
        ["control.energy_horizon=paper"],
        ["fleet.energy_j_per_edge_round=0.2"],
        ["fleet.tx_power_w=0"],
    ],
)
def test_unusual_runs_end_well(settings):
    rounds = list(simulate_rounds(make_world(tiny(*settings), 1), FedRTPlus()))
    assert all(np.isfinite(done.time_s) for done in rounds)
    budgets = last_books(rounds)
    if "fleet.energy_j_per_edge_round=0.2" in settings:
        assert budgets.overspent_j.any()
        assert rounds[-1].last.plan.status == "best-effort"


def test_a_gossip_step_takes_its_message_and_the_delay_of_the_link():
    """8e6 bits at the link's speed, and a quarter of a second."""
    (done,) = simulate_rounds(make_world(tiny("rounds.global_rounds=1"), 0), FedRTPlus())
    backhaul = replace(done.last.backhaul, latency_s=0.25)
    step_s = step_seconds(replace(done.last.seen, backhaul=backhaul))
    linked = backhaul.bps > 0
    np.testing.assert_allclose(step_s[linked], 8e6 / backhaul.bps[linked] + 0.25, rtol=1e-12)
