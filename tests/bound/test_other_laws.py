"""The bound under laws other than the paper's: below every plan, and near the best one.

`benchmarks/law_bounds.py` searches through hundreds of worlds for each law.
"""

from __future__ import annotations

import numpy as np
import pytest
from law_bounds import carry_out, small_world
from law_worlds import LAWS
from reference.whole_run import least_total_time_s
from support.bound_worlds import small

from fedrt.bound.distances import stand_in_distances
from fedrt.bound.whole_run import hindsight_bound

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize("law", LAWS)
def test_no_random_plan_ends_before_the_bound(law):
    for number in range(12):
        rng = np.random.default_rng(number)
        world = small_world(law, 1, number)
        distances = stand_in_distances(world)
        time_s, spent_j = carry_out(world, distances, rng)
        bound_s, _ = hindsight_bound(world, distances, spent_j, None)
        assert 0 < bound_s <= time_s * (1 + 1e-9)


@pytest.mark.parametrize("reference_hz", [1e4, 1e6, 1e8])
def test_never_above_exhaustive_search_with_spread_noise(reference_hz, record_property):
    """From rates that hardly depend on the bandwidth to such that are in proportion to it."""
    law = ("channel.law=noise-density", f"channel.reference_hz={reference_hz}")
    world = small(3, 1, 2, 3, *law)
    distances = stand_in_distances(world)
    _, spent_j = carry_out(world, distances, np.random.default_rng(1))
    least_s = least_total_time_s(world, distances, spent_j, 0.3)
    bound_s, _ = hindsight_bound(world, distances, spent_j, 0.3)
    assert bound_s <= least_s * (1 + 1e-7)
    gap = 1 - bound_s / least_s
    assert gap < 0.01
    record_property("oracle", {"worst gap of the bound with spread noise": float(gap)})
