"""The parts of the hindsight bound: covers of the links, and prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from reference.whole_run import round_choices
from support.graphs import random_graph
from support.tiny import tiny

from fedrt.bound.duality import DualPrices, LinkTimes, certified_s, price_seconds
from fedrt.bound.joule_prices import JoulePrices
from fedrt.bound.link_choices import RoundLinks, refine
from fedrt.bound.whole_run import relaxed_run
from fedrt.control.topology.consensus import consensus_limit
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical


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
    run = relaxed_run(world).run
    rng = np.random.default_rng(1)
    rows = rng.uniform(1, 20, (run.global_rounds, run.num_edges))
    return run, LinkTimes(np.arange(run.global_rounds + 1), rows)


def test_the_search_equals_the_plain_formula_at_its_prices():
    run, links = one_choice(SimulatedWorld(tiny(), 0))
    prices = DualPrices.even(run)
    for factor in (0.0, 1e-3, 1.0, 30.0):
        prices.joule_s = DualPrices.even(run).joule_s * factor
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
    prices = DualPrices.even(run)
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
    search = JoulePrices.start(run, limit_j, links)
    start = search.prices.joule_s * 10
    search.prices.joule_s = start
    value, over_j = search.value(links)
    for n in range(run.num_devices):
        search.prices.joule_s = start.copy()
        search.prices.joule_s[n] *= 1.001
        moved, _ = search.value(links)
        assert (moved - value) / (0.001 * start[n]) == pytest.approx(over_j[n], rel=0.02, abs=0.02)
