"""What the loop tells a policy of the backhaul: beliefs, and only the links that are up."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tiny import tiny

from fedrt.control.consensus import consensus_limit, unlinked_distance
from fedrt.policies import make_policy
from fedrt.runs.loop import StandIn, run_rounds, see_backhaul
from fedrt.turns import Distances
from fedrt.world.world import World

FOUR = ("fleet.num_edges=4", "fleet.num_devices=8", "fleet.cluster_sizes=even")
DOWN = "faults.link_down={kind='random',probability=0.3}"


class Mistaken(StandIn):
    """Believes that near pairs are far and far pairs near."""

    def distances(self, t: int) -> Distances:
        true = self.world.stand_in_distance(t)
        return Distances(np.where(true > 0, 10.0 - true, 0.0), true)


@pytest.mark.parametrize("policy", ["fedrt", "static-r", "fedrt-plus"])
def test_links_are_planned_with_believed_distances(policy):
    """The truth is known to nobody: limit and links follow from what is believed."""
    world = World(tiny(*FOUR, "control.kappa=0.4"), 0)
    rounds = list(run_rounds(world, make_policy(policy), Mistaken(world)))
    for t, done in enumerate(rounds):
        believed = Mistaken(world).distances(t).believed
        assert_array_equal(done.distances.true, world.stand_in_distance(t))
        assert_array_equal(done.distances.believed, believed)
        backhaul = done.last.seen.backhaul
        assert_array_equal(backhaul.consensus_distance, believed)
        assert backhaul.consensus_limit == pytest.approx(0.4 * believed.sum() / 16, rel=1e-12)
        left = unlinked_distance(done.last.plan.topology, believed)
        assert left <= backhaul.consensus_limit * (1 + 1e-12)


def test_the_limit_counts_the_links_that_are_up():
    """Kappa lies between what the links that are up leave and what none would."""
    world = World(tiny(*FOUR, DOWN, "control.kappa=0.25", "rounds.global_rounds=12"), 1)
    broken = 0
    for t in range(12):
        distance, up = world.stand_in_distance(t), world.links_up(t)
        seen = see_backhaul(world, t, distance)
        by_hand = 0.75 * distance[~up].sum() / 16 + 0.25 * distance.sum() / 16
        assert seen.consensus_limit == pytest.approx(by_hand, rel=1e-12)
        assert_array_equal(seen.bps > 0, up)
        if not np.array_equal(up, world.base_graph):
            broken += 1
            assert seen.consensus_limit > consensus_limit(world.base_graph, distance, 0.25)
    assert broken > 3


def test_without_pruning_the_links_that_are_up_are_enough():
    """With kappa = 0 a policy keeps all that is up, and breaks no limit by what is down."""
    settings = ("control.kappa=0", "rounds.global_rounds=12", "fleet.energy_j_per_edge_round=100")
    world = World(tiny(*FOUR, DOWN, *settings), 1)
    for done in run_rounds(world, make_policy("fedrt")):
        assert_array_equal(done.last.plan.topology, world.links_up(done.last.t))
        assert done.last.plan.status != "best-effort"


def test_where_nothing_is_known_every_link_that_is_up_counts_the_same():
    """Zero distances: each pair counts 1, and the limit is what the links that are up leave."""
    world = World(tiny(*FOUR, DOWN, "control.kappa=1", "rounds.global_rounds=12"), 1)
    for t in range(12):
        seen = see_backhaul(world, t, np.zeros((4, 4)))
        assert_array_equal(seen.consensus_distance, ~np.eye(4, dtype=bool))
        missing = 12 - world.links_up(t).sum()
        assert_allclose(seen.consensus_limit, missing / 16, rtol=1e-15)
