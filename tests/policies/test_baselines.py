"""The policies of other papers: the idea of each, on the quickstart's fleet and on small graphs."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import fedrt
from fedrt.control.coding.menu import menu_of
from fedrt.control.topology.consensus import see_backhaul
from fedrt.cost.round import global_round_time_s, price
from fedrt.cost.uplink import rate_bps
from fedrt.graph import is_connected
from fedrt.ledger import GivenAllowance
from fedrt.plan import plan_problems
from fedrt.policies import BASELINES, make_policy, matcha
from fedrt.policies.d_psgd_mbst import bounded_tree_links
from fedrt.policies.d_psgd_mst import tree_links
from fedrt.policies.d_psgd_ring import ring_links
from fedrt.policies.hierfavg import shortest_path_tree
from fedrt.policies.selection import even_times_s
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

SELECTING = ("fedcs", "oort", "tifl", "lroa")
FREE = np.inf


def observed(settings=(), t=0, seed=0):
    """The last edge round of a global round, with its backhaul and a menu of codecs."""
    scenario = fedrt.scenario("quickstart", ["fleet.num_devices=40", *settings])
    world = SimulatedWorld(scenario, seed)
    seen = world.observe(t, scenario.rounds.edge_rounds - 1)
    backhaul = see_backhaul(scenario, world.backhaul_bps(t), world.stand_in_distance(t))
    return replace(seen, backhaul=backhaul, menu=menu_of(scenario))


def decided(name, seen, allowance_j=FREE):
    books = GivenAllowance(np.full(seen.num_devices, allowance_j), np.zeros(seen.num_edges))
    policy = make_policy(name) if isinstance(name, str) else name
    plan = policy.plan(seen, books)
    assert plan_problems(plan, seen) == []
    return plan, books


def simulated(name, rounds=12, settings=()):
    """The plans and observations of a run without training."""
    scenario = fedrt.scenario("quickstart", [f"rounds.global_rounds={rounds}", *settings])
    world = SimulatedWorld(scenario, 0)
    found = []
    for done in simulate_rounds(world, make_policy(name)):
        found += [(each.seen, each.plan) for each in done.edge_rounds]
    return found


def random_times(size, seed):
    drawn = np.random.default_rng(seed).uniform(1, 9, (size, size))
    link_s = np.triu(drawn, 1) + np.triu(drawn, 1).T
    np.fill_diagonal(link_s, np.inf)
    return link_s


NO_LIMIT = (np.zeros((0, 0)), 0.0)


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_answers_to_its_name_and_plans_every_round(name):
    assert make_policy(name).name == name
    for seen, plan in simulated(name, 3):
        assert plan_problems(plan, seen) == []


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize(
    "law",
    [
        ["channel.law=noise-density", "channel.reference_hz=1e5"],
        ["downlink.tx_power_w=1.0", "overheads.round_trip_s=0.01", "fleet.idle_power_w=0.01"],
    ],
)
def test_a_baseline_plans_under_other_laws(name, law):
    for seen, plan in simulated(name, 2, law):
        assert plan_problems(plan, seen) == []
        assert np.isfinite(price(plan, seen).edge_time_s).all()


# --- HierFAVG ------------------------------------------------------------------------------------


def test_hierfavg_averages_exactly_through_one_server():
    seen = observed()
    plan, books = decided("hierfavg", seen)
    links, count = plan.gossip.links, seen.num_edges
    middle = int(links.sum(axis=1).argmax())
    assert links[middle].sum() == count - 1
    assert links.sum() == 2 * (count - 1)
    np.testing.assert_allclose(plan.gossip.weights, 1 / count)
    times = []
    for hub in range(count):
        star = np.zeros_like(links)
        star[hub] = star[:, hub] = np.arange(count) != hub
        other = replace(plan, gossip=replace(plan.gossip, links=star))
        times.append(global_round_time_s(books.elapsed_s, price(other, seen)))
    assert times[middle] == min(times)


def test_hierfavg_passes_models_on_where_no_server_reaches_all():
    seen = observed(["base_graph.kind=ring", "fleet.num_edges=6"])
    plan, _ = decided("hierfavg", seen)
    assert is_connected(plan.gossip.links)
    assert plan.gossip.steps == 6  # three links at most to the middle, and back
    tree = shortest_path_tree(np.where(seen.backhaul.base_graph, 1.0, np.inf))
    assert tree.sum() == 2 * 5


# --- topologies of D-PSGD ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_tree_is_the_least_of_all_spanning_trees(seed):
    link_s = random_times(5, seed)
    pairs = [(i, j) for i in range(5) for j in range(i)]
    best = np.inf
    for chosen in combinations(pairs, 4):
        tree = np.zeros((5, 5), dtype=bool)
        for i, j in chosen:
            tree[i, j] = tree[j, i] = True
        if is_connected(tree):
            best = min(best, link_s[tree].sum() / 2)
    found = tree_links(np.zeros(5), link_s, *NO_LIMIT)
    assert link_s[found].sum() / 2 == pytest.approx(best)


@pytest.mark.parametrize("seed", range(5))
def test_the_bounded_tree_has_few_links_at_every_server(seed):
    link_s = random_times(9, seed)
    found = bounded_tree_links(np.zeros(9), link_s, *NO_LIMIT)
    least = tree_links(np.zeros(9), link_s, *NO_LIMIT)
    assert is_connected(found)
    assert found.sum() == 2 * 8
    assert found.sum(axis=1).max() <= 4
    assert link_s[found].max() >= link_s[least].max()


@pytest.mark.parametrize("seed", range(5))
def test_the_ring_is_shorter_than_most(seed):
    link_s, rng = random_times(8, seed), np.random.default_rng(seed)
    ring = ring_links(np.zeros(8), link_s, *NO_LIMIT)
    np.testing.assert_array_equal(ring.sum(axis=1), 2)
    assert is_connected(ring)
    length = link_s[ring].sum() / 2
    orders = [rng.permutation(8) for _ in range(300)]
    others = [link_s[order, np.roll(order, -1)].sum() for order in orders]
    assert np.mean(np.array(others) < length) < 0.02


def test_without_a_ring_in_the_base_graph_the_tree_is_taken():
    link_s = np.full((5, 5), np.inf)
    link_s[0, 1:] = link_s[1:, 0] = [1.0, 2.0, 3.0, 4.0]
    found = ring_links(np.zeros(5), link_s, *NO_LIMIT)
    np.testing.assert_array_equal(found, np.isfinite(link_s))


# --- MATCHA --------------------------------------------------------------------------------------


def test_matchings_divide_the_links_and_use_no_server_twice():
    base = np.random.default_rng(0).random((9, 9)) < 0.5
    base = np.triu(base, 1) | np.triu(base, 1).T
    matchings = matcha.matchings_of(base)
    np.testing.assert_array_equal(np.sum(matchings, axis=0), base)
    assert all(each.sum(axis=1).max() == 1 for each in matchings)


def test_a_bridge_is_used_more_often_than_other_links():
    # Two complete parts of four servers, joined by one link.
    base = np.zeros((8, 8), dtype=bool)
    base[:4, :4] = base[4:, 4:] = ~np.eye(4, dtype=bool)
    base[0, 4] = base[4, 0] = True
    sampling = matcha.sampling_of(base, 0.4)
    of_bridge = sum(
        chance
        for chance, each in zip(sampling.chance, sampling.matchings, strict=True)
        if each[0, 4]
    )
    assert of_bridge > 1.5 * sampling.chance.mean()
    assert sampling.chance.sum() <= 0.4 * len(sampling.matchings) + 1e-9
    used = np.mean([sampling.links(t)[0, 4] for t in range(400)])
    assert used == pytest.approx(of_bridge, abs=0.08)


def test_beyond_many_servers_fewer_steps_reach_nearly_the_same_connectivity(monkeypatch):
    base = np.triu(np.random.default_rng(1).random((80, 80)) < 0.1, 1)
    base |= base.T

    def connectivity(sampling):
        mean = sum(p * each for p, each in zip(sampling.chance, sampling.matchings, strict=True))
        return np.linalg.eigvalsh(np.diag(mean.sum(axis=1)) - mean)[1]

    quick = matcha.sampling_of(base, 0.5)
    monkeypatch.setattr(matcha, "MANY", len(base))
    whole = matcha.sampling_of(base, 0.5)
    assert connectivity(quick) >= 0.995 * connectivity(whole)
    assert quick.weight == pytest.approx(whole.weight, rel=0.02)
    even = matcha.Sampling(whole.matchings, np.full(len(whole.chance), 0.5), 0.0)
    assert connectivity(quick) > 1.1 * connectivity(even)


def test_matcha_mixes_towards_the_average_over_rounds():
    seen, policy = observed(), make_policy("matcha")
    values = np.random.default_rng(1).normal(size=seen.num_edges)
    mean = values.mean()
    for t in range(60):
        plan, _ = decided(policy, replace(seen, t=t))
        values = plan.gossip.weights @ values
    np.testing.assert_allclose(values, mean, atol=1e-3)


# --- who trains ----------------------------------------------------------------------------------


def test_fedcs_takes_as_many_as_end_by_the_deadline():
    seen = observed()
    plan, books = decided("fedcs", seen)
    time_s = even_times_s(seen, books.allowance)
    cost = price(plan, seen)
    for c in range(seen.num_edges):
        here = seen.edge_of_device == c
        latest_s = np.median(time_s[here])
        assert cost.edge_time_s[c] <= latest_s
        out = here & ~plan.trains
        assert time_s[out].min() >= time_s[here & plan.trains].max()
        # One device more and they are late.
        more = plan.trains.copy()
        more[np.flatnonzero(out)[np.argmin(time_s[out])]] = True
        later_s = even_times_s(seen.only(more), books.allowance[more])
        assert later_s[seen.only(more).edge_of_device == c].max() > latest_s


def test_oort_prefers_the_fast_and_forgets_nobody():
    rounds = simulated("oort", 20)
    used = np.mean([plan.trains for _, plan in rounds], axis=0)
    assert used.min() > 0
    assert used.mean() == pytest.approx(0.5, abs=0.11)
    chosen_s, others_s = [], []
    for seen, plan in rounds[10:]:  # before, most are chosen because they are new
        time_s = even_times_s(seen, np.full(seen.num_devices, FREE))
        chosen_s.append(time_s[plan.trains].mean())
        others_s.append(time_s[~plan.trains].mean())
    assert np.mean(chosen_s) < 0.9 * np.mean(others_s)


def test_tifl_trains_devices_of_one_speed_together():
    from fedrt.policies.tifl import tier_of_each

    seen = observed()
    policy = make_policy("tifl")
    drawn = set()
    for t in range(30):
        now = replace(seen, t=t)
        plan, books = decided(policy, now)
        tier = tier_of_each(now, even_times_s(now, books.allowance), policy.tiers)
        for c in range(seen.num_edges):
            (one,) = set(tier[(seen.edge_of_device == c) & plan.trains].tolist())
            drawn.add(one)
    assert drawn == set(range(policy.tiers))


def test_lroa_spares_devices_that_have_overspent():
    policy = make_policy("lroa")
    seen = observed()
    chance = 1.0 / seen.cluster_size[seen.edge_of_device]
    draws = np.full(seen.num_devices, 4.0)
    cost = np.where(np.arange(seen.num_devices) % 2 == 0, 100.0, 0.0)
    found = policy._chances(seen, np.ones(seen.num_devices), cost, chance, draws)
    np.testing.assert_allclose(seen.sum_by_edge(found), 1.0)
    assert found[::2].max() < found[1::2].min()
    queue_j = np.where(cost > 0, 10.0, 0.0)
    cpu_hz = policy._frequencies(seen, queue_j, chance, draws)
    assert (cpu_hz[1::2] == seen.cpu_max_hz[1::2]).all()
    assert (cpu_hz[::2] < seen.cpu_max_hz[::2]).any()


@pytest.mark.parametrize("name", SELECTING)
def test_policies_that_leave_devices_out_end_sooner_than_the_even_split(name):
    def seconds(policy):
        scenario = fedrt.scenario("quickstart")
        rounds = simulate_rounds(SimulatedWorld(scenario, 1), make_policy(policy))
        return sum(done.time_s for done in rounds)

    assert seconds(name) < seconds("ce-fedavg")


# --- bandwidth and bits --------------------------------------------------------------------------


def test_hfel_has_the_least_sum_of_time_and_energy():
    seen, rng = observed(), np.random.default_rng(0)
    policy = make_policy("hfel")
    plan, _ = decided(policy, seen)

    def costs(each):
        cost = price(each, seen)
        return cost.edge_time_s + policy.seconds_per_joule * seen.sum_by_edge(cost.energy_j)

    best = costs(plan)
    for other in ("ce-fedavg", "static-t", "max-min"):
        assert (best <= costs(decided(other, seen)[0]) * (1 + 1e-3)).all()
    for _ in range(100):
        moved = plan.bandwidth_hz * np.exp(0.1 * rng.normal(size=seen.num_devices))
        moved *= (seen.edge_bandwidth_hz / seen.sum_by_edge(moved))[seen.edge_of_device]
        cpu_hz = plan.cpu_hz * np.exp(0.1 * rng.normal(size=seen.num_devices))
        cpu_hz = np.clip(cpu_hz, seen.cpu_min_hz, seen.cpu_max_hz)
        assert (best <= costs(replace(plan, bandwidth_hz=moved, cpu_hz=cpu_hz)) * (1 + 1e-3)).all()


@pytest.mark.parametrize("law", [(), ("channel.law=noise-density", "channel.reference_hz=1e5")])
def test_max_min_gives_all_devices_of_a_cluster_one_rate(law):
    seen = observed(law)
    plan, _ = decided("max-min", seen)
    rate = plan.bandwidth_hz * np.log1p(seen.snr)
    if law:
        rate = rate_bps(plan.bandwidth_hz, seen.laws.cn0_hz)
    for c in range(seen.num_edges):
        mine = rate[seen.edge_of_device == c]
        np.testing.assert_allclose(mine, mine[0], rtol=1e-6)
    np.testing.assert_allclose(seen.sum_by_edge(plan.bandwidth_hz), seen.edge_bandwidth_hz)


def test_proportional_fairness_maximises_the_sum_of_logarithms():
    from fedrt.policies.proportional_fair import LEAST, fair_hz

    seen, rng = observed(), np.random.default_rng(3)
    efficiency = np.log1p(seen.snr)
    before = 1e5 * rng.uniform(0.5, 2.0, seen.num_devices)
    found = fair_hz(seen, efficiency, before)
    even = (seen.edge_bandwidth_hz / seen.cluster_size)[seen.edge_of_device]
    assert (found >= LEAST * even * (1 - 1e-9)).all()
    np.testing.assert_allclose(seen.sum_by_edge(found), seen.edge_bandwidth_hz, rtol=1e-9)

    def worth(hz):
        return seen.sum_by_edge(np.log(before + efficiency * hz))

    for _ in range(200):
        part = rng.exponential(size=seen.num_devices)
        part = part / seen.sum_by_edge(part)[seen.edge_of_device]
        rest = (1 - LEAST) * seen.edge_bandwidth_hz[seen.edge_of_device]
        assert (worth(LEAST * even + part * rest) <= worth(found) + 1e-9).all()


@pytest.mark.parametrize(("name", "bits"), [("even-int8", 8), ("even-int4", 4)])
def test_the_coded_even_split_is_ce_fedavg_with_fewer_bits(name, bits):
    seen = observed()
    plan, _ = decided(name, seen)
    plain, _ = decided("ce-fedavg", seen)
    np.testing.assert_array_equal(plan.bandwidth_hz, plain.bandwidth_hz)
    ratio = price(plan, seen).upload_bytes / price(plain, seen).upload_bytes
    np.testing.assert_allclose(ratio, bits / 32, rtol=0.1)
    assert plan.gossip.codec == f"int{bits}"
    assert set(plan.codec) == {seen.menu.names.index(f"int{bits}")}


def test_a_run_of_every_baseline_is_the_same_twice():
    for name in ("matcha", "oort", "tifl", "lroa", "proportional-fair"):
        one, two = simulated(name, 3), simulated(name, 3)
        for (_, first), (_, second) in zip(one, two, strict=True):
            np.testing.assert_array_equal(first.bandwidth_hz, second.bandwidth_hz)
            np.testing.assert_array_equal(first.trained, second.trained)


def test_a_sample_of_links_need_not_connect_but_others_must():
    seen = observed()
    plan, _ = decided("matcha", seen)
    none = replace(plan.gossip, links=np.zeros_like(plan.gossip.links), weights=None)
    assert plan_problems(replace(plan, gossip=none), seen) == []
    lines = plan_problems(replace(plan, gossip=replace(none, sampled=False)), seen)
    assert lines == ["gossip.links: must connect all edge servers"]


def test_weights_reach_beyond_links_only_where_models_are_passed_on():
    seen = observed()
    plan, _ = decided("hierfavg", seen)
    lines = plan_problems(replace(plan, gossip=replace(plan.gossip, relayed=False)), seen)
    assert lines == ["gossip.weights: must be zero between servers that are not linked"]
    coded = replace(plan, gossip=replace(plan.gossip, codec="int8"))
    assert "models are passed on as they are" in plan_problems(coded, seen)[0]
