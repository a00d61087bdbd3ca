"""The parts of the hindsight bound: certified contraction, covers of the links, prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from reference.whole_run import least_zeta, round_choices
from support.tiny import tiny

from fedrt.bound.duality import LinkTimes, Prices, certified_s, price_seconds
from fedrt.bound.joule_prices import JoulePrices
from fedrt.bound.least_contraction import contraction_bounds, degree_contraction
from fedrt.bound.link_choices import RoundLinks, refine
from fedrt.bound.whole_run import whole_run
from fedrt.control.topology.consensus import consensus_limit
from fedrt.graph import is_connected
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical


def random_graph(rng: np.random.Generator, size: int) -> np.ndarray:
    while True:
        upper = np.triu(rng.uniform(size=(size, size)) < rng.uniform(0.3, 1), k=1)
        if is_connected(upper | upper.T):
            return upper | upper.T


def test_degree_bound_by_hand():
    # A path of three: an end has 1 link, m = 3 - 1 - 1 = 1 missing: sqrt(1 / (3 x 2)).
    assert degree_contraction(1, 3) == pytest.approx((1 / 6) ** 0.5)
    assert degree_contraction(7, 8) == 0.0


def test_contraction_bounds_enclose_the_semidefinite_program(record_property):
    rng = np.random.default_rng(3)
    worst = 0.0
    for size in (2, 3, 5, 6):
        graphs = np.array([random_graph(rng, size) for _ in range(4)])
        low, high = contraction_bounds(graphs)
        for graph, below, above in zip(graphs, low, high, strict=True):
            zeta = least_zeta(graph)
            assert below <= zeta + 1e-7
            assert above >= zeta - 1e-7
            assert degree_contraction(graph.sum(axis=1).min(), size) <= zeta + 1e-7
            worst = max(worst, zeta - below)
    assert worst < 0.01
    record_property("oracle", {"worst certified contraction below the best": float(worst)})


def test_a_target_only_ends_the_search_sooner():
    rng = np.random.default_rng(5)
    graphs = np.array([random_graph(rng, 6) for _ in range(20)])
    low, high = contraction_bounds(graphs)
    for target in (0.2, 0.4, 0.6):
        some_low, some_high = contraction_bounds(graphs, np.full(20, target))
        assert not ((some_low > target * (1 + 1e-9)) & (high <= target)).any()
        assert not ((some_high <= target) & (low > target * (1 + 1e-9))).any()


def test_a_target_near_the_least_contraction_is_decided():
    """Just below what no weights beat, and just above what some reach, the answer is sure."""
    rng = np.random.default_rng(5)
    graphs = np.array([random_graph(rng, 6) for _ in range(20)])
    low, high = contraction_bounds(graphs)
    assert (high - low <= 2e-3).all()
    below, above = low * (1 - 1e-4), high * (1 + 1e-4)
    some = low > 0
    assert (contraction_bounds(graphs, below)[0] > below)[some].all()
    assert (contraction_bounds(graphs, above)[1] <= above).all()


@pytest.mark.parametrize("rho", [None, 0.3, 0.05])
@pytest.mark.parametrize("size", [3, 4])
def test_a_cover_is_below_all_choices_and_its_least_is_one_of_them(size, rho):
    rng = np.random.default_rng(size)
    for _ in range(3):
        bps = np.triu(rng.uniform(1e6, 1e7, (size, size)), k=1)
        bps = bps + bps.T
        distance = np.triu(rng.uniform(1, 1.3, (size, size)), k=1)
        distance = distance + distance.T
        limit = rng.uniform(0.3, 0.9) * distance.sum() / size**2
        choices = round_choices(bps, distance, limit, rho, 8e6, 4)
        with np.errstate(divide="ignore"):
            links = RoundLinks(8e6 / bps, distance, limit, rho, 4)
        share = rng.dirichlet(np.ones(size))
        for passes in (0, 100):
            left = refine([links], share[None], passes)
            for choice in choices:
                assert any((node.backhaul_s <= choice + 1e-9).all() for node in links.nodes)
        assert left == 0
        least = min(node.backhaul_s @ share for node in links.nodes)
        assert least == pytest.approx(min(choice @ share for choice in choices), rel=1e-9)


def test_every_number_of_gossip_steps_is_covered_and_no_other():
    """With a contraction limit any psi up to the most may be the best; without one, only 1."""
    step_s = np.where(np.eye(4, dtype=bool), np.inf, 1.0)
    distance = 1.0 - np.eye(4)
    covered = [{n.psi for n in RoundLinks(step_s, distance, 9.0, 0.5, 3).nodes}]
    covered += [{n.psi for n in RoundLinks(step_s, distance, 9.0, None, 3).nodes}]
    assert covered == [{1, 2, 3}, {1}]


def test_where_nothing_may_be_pruned_the_base_graph_itself_is_allowed():
    """With kappa = 0 its own unlinked distance is the limit, to the bit; a link less is too few."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        base = random_graph(rng, 6)
        distance = np.triu(rng.uniform(1, 1.3, (6, 6)), k=1)
        distance = distance + distance.T
        limit = consensus_limit(base, distance, 0.0)
        links = RoundLinks(np.where(base, 1.0, np.inf), distance, limit, None, 1)
        fewer = base.copy()
        c, c2 = np.argwhere(base)[0]
        fewer[c, c2] = fewer[c2, c] = False
        assert links.allowed(np.array([base, fewer]), 1).tolist() == [True, False]


def one_choice(world: SimulatedWorld) -> tuple:
    run = whole_run(world)
    rng = np.random.default_rng(1)
    rows = rng.uniform(1, 20, (run.global_rounds, run.num_edges))
    return run, LinkTimes(np.arange(run.global_rounds + 1), rows)


def test_the_search_equals_the_plain_formula_at_its_prices():
    run, links = one_choice(SimulatedWorld(tiny(), 0))
    prices = Prices.even(run)
    for factor in (0.0, 1e-3, 1.0, 30.0):
        prices.joule_s = Prices.even(run).joule_s * factor
        value_s = price_seconds(run, links, prices)
        plain_s, _ = certified_s(run, prices, links.backhaul_s)
        assert_allclose(value_s, plain_s, rtol=1e-12)
        assert_allclose(prices.share.sum(axis=1), 1, rtol=1e-12)
        sums = np.add.reduceat(prices.second, run.first[:-1]).reshape(run.global_rounds, 2, -1)
        assert_allclose(sums, np.broadcast_to(prices.share[:, None], sums.shape), rtol=1e-9)


@given(st.integers(0, 10**6))
def test_no_prices_beat_those_of_the_search(seed):
    """The search's time prices are the best for its joule prices, to its own tolerance."""
    run, links = one_choice(SimulatedWorld(tiny(), 0))
    rng = np.random.default_rng(seed)
    prices = Prices.even(run)
    prices.joule_s = prices.joule_s * 10 ** rng.uniform(-3, 1, run.num_devices)
    best_s = price_seconds(run, links, prices)
    spread = 10 ** rng.uniform(-4, 0)
    share = prices.share * np.exp(spread * rng.normal(size=prices.share.shape))
    share /= share.sum(axis=1, keepdims=True)
    second = prices.second * np.exp(spread * rng.normal(size=len(prices.second)))
    part = np.repeat(np.arange(len(run.bandwidth_hz)), np.diff(run.first))
    whole = np.repeat(share[:, None], run.edge_rounds, axis=1).ravel()
    second *= (whole / np.bincount(part, second))[part]
    other_s, _ = certified_s(run, replace(prices, share=share, second=second), links.backhaul_s)
    assert (other_s <= best_s * (1 + 1e-6)).all()


def test_slope_is_energy_over_the_limit():
    run, links = one_choice(SimulatedWorld(tiny(), 0))
    limit_j = np.full(run.num_devices, 8.0)
    search = JoulePrices.start(run, limit_j)
    start = search.prices.joule_s * 10
    search.prices.joule_s = start
    value, over_j = search.value(links)
    for n in range(run.num_devices):
        search.prices.joule_s = start.copy()
        search.prices.joule_s[n] *= 1.001
        moved, _ = search.value(links)
        assert (moved - value) / (0.001 * start[n]) == pytest.approx(over_j[n], rel=0.02, abs=0.02)
