"""The hindsight bound against brute force in random worlds: it is never above the least time.

Every subset of the links and every number of gossip steps is tried in every round, each with the
best frequencies and uploads for it (`reference.whole_run`). The worlds differ in what takes the
time, computing, uploads or the backhaul, so that choices of links come close to each other.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from reference.whole_run import least_total_time_s
from support.bound_worlds import limits, small

from fedrt.bound.duality import DualPrices, LinkTimes, price_seconds
from fedrt.bound.whole_run import hindsight_bound, relaxed_run
from fedrt.world.simulated import SimulatedWorld

# What the convex solver may leave of a run's time.
SOLVER = 1e-6


def random_world(seed: int) -> tuple[SimulatedWorld, float | None, float]:
    """A world of three or four servers, its contraction limit, and how far budgets reach."""
    rng = np.random.default_rng(seed)
    edges = int(rng.choice([3, 3, 4]))
    rounds, most_steps = (1, 2) if edges == 4 else (2, 4)
    steps = int(rng.integers(1, most_steps + 1))
    rho = (None, 0.5, 0.2, 0.05)[int(rng.integers(4))]
    low_bps = 10 ** rng.uniform(5.7, 7)
    settings = (
        f"fleet.cycles_per_sample={10 ** rng.uniform(6, 8)}",
        f"fleet.tx_power_w={10 ** rng.uniform(-3, -1)}",
        f"learning.model_bits={10 ** rng.uniform(5.5, 7)}",
        f"backhaul={{kind='uniform',low_bps={low_bps},high_bps={10 * low_bps}}}",
        # Every tenth world forbids pruning: its limit is what the base graph leaves, to the bit.
        f"control.kappa={rng.uniform(0, 1) * (seed % 10 != 9)}",
    )
    return small(edges, seed, rounds, steps, *settings), rho, 10 ** rng.uniform(0, 0.1)


def check(seeds: range) -> float:
    """The greatest gap; fails with all worlds in which the bound is above the least time."""
    above, gaps = [], []
    for seed in seeds:
        world, rho, reach = random_world(seed)
        distances, limit_j = limits(world, reach)
        least_s = least_total_time_s(world, distances, limit_j, rho)
        bound_s, _ = hindsight_bound(world, distances, limit_j, rho)
        gaps.append(1 - bound_s / least_s)
        if bound_s > least_s * (1 + SOLVER):
            above.append(seed)
    assert above == []
    return max(gaps)


def test_the_bound_is_never_above_the_least_time(record_property):
    gap = check(range(40))
    record_property("oracle", {"worst gap of the bound to brute force": float(gap)})


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("begin", [40, 80, 120, 160])
def test_the_bound_is_never_above_the_least_time_in_more_worlds(begin):
    check(range(begin, begin + 40))


@pytest.mark.parametrize("apart_s", [0.01, 0.3, 2.0])
def test_a_round_takes_the_least_of_its_choices(apart_s):
    """The value of a round with several choices is the least of their values, each by itself."""
    world = small(3, 4, 3)
    run, rng = relaxed_run(world).run, np.random.default_rng(2)
    rows = 5.0 + apart_s * rng.uniform(-1, 1, (run.global_rounds, 6, run.num_edges))
    each = np.empty((6, run.global_rounds))
    for j in range(6):
        alone = LinkTimes(np.arange(run.global_rounds + 1), rows[:, j].copy())
        each[j] = price_seconds(run, alone, DualPrices.even(run))
    prices = DualPrices.even(run)
    links = LinkTimes(6 * np.arange(run.global_rounds + 1), rows.reshape(-1, run.num_edges))
    value_s = price_seconds(run, links, prices)
    # The search leaves a round's prices when primal and dual are within 1e-7 of each other.
    assert_allclose(value_s, each.min(axis=0), rtol=3e-7)
    taken = each[prices.chosen - links.first[:-1], np.arange(run.global_rounds)]
    assert_allclose(taken, each.min(axis=0), rtol=3e-7)
