"""How far the bound is below the optimum: percents in some worlds, as it mixes choices of links."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from bound_gap import SHAPES, SOLVER, gap, summary
from reference.whole_run import Allocation, round_choices
from support.bound_worlds import enumerated, limits

from fedrt.bound.duality import LinkTimes
from fedrt.bound.joule_prices import JoulePrices
from fedrt.bound.whole_run import hindsight_bound, relaxed_run
from fedrt.control.topology.consensus import see_backhaul

pytestmark = pytest.mark.numerical

SMALL = (3, 3, 2, 3)
STEPS = 60
"""Of the search for prices, as the bound takes them."""


@pytest.mark.parametrize(("seed", "least", "most"), [(525, 0.1, 0.2), (354, 0.04, 0.1)])
def test_it_is_percents_below_the_optimum_where_choices_of_links_are_mixed(seed, least, most):
    world, rho, reach = enumerated(seed, *SMALL)
    distances, limit_j = limits(world, reach)
    choices = []
    for t, distance in enumerate(distances):
        seen = see_backhaul(world.scenario, world.backhaul_bps(t), distance)
        limit, bits, steps = seen.consensus_limit, world.model_bits, SMALL[3]
        choices.append(round_choices(seen.bps, seen.consensus_distance, limit, rho, bits, steps))
    allocation = Allocation(world, limit_j)
    times = {
        backhaul_s: allocation.least_time_s(np.array(backhaul_s))
        for backhaul_s in itertools.product(*(map(tuple, each) for each in choices))
    }
    best, least_s = min(times.items(), key=lambda item: item[1])
    bound_s, _ = hindsight_bound(world, distances, limit_j, rho)
    assert least < 1 - bound_s / least_s < most
    # Nothing is given away but the choice: with the optimum's links alone the bound is the optimum.
    relaxed = relaxed_run(world)
    alone = relaxed.fixed.added_to(LinkTimes(np.arange(len(best) + 1), np.array(best)))
    search = JoulePrices.start(relaxed.run, relaxed.fixed.limits_j(limit_j), alone)
    search.multiply(alone, STEPS)
    assert search.best_s == pytest.approx(least_s, rel=1e-6)


@pytest.mark.parametrize("shape", SHAPES.values())
def test_it_is_never_above_the_optimum_of_a_few_worlds(shape):
    gaps = [gap(shape, seed) for seed in range(5)]
    assert summary(gaps)["worlds_above_the_optimum"] == 0
    assert min(gaps) > -SOLVER


def test_the_summary_counts_and_names_the_worst_world():
    found = summary([0.0, 0.002, 0.031, -2e-6])
    assert found["most"] == pytest.approx(3.1)
    assert (found["most_in_seed"], found["worlds"]) == (2, 4)
    assert (found["worlds_above_0.12"], found["worlds_above_1"]) == (2, 1)
    assert found["worlds_above_the_optimum"] == 0
    assert summary([-2e-5])["worlds_above_the_optimum"] == 1
