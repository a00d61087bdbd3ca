"""What the loop tells a policy of the backhaul: beliefs, and only the links that are up."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.tiny import tiny

from fedrt.control.topology.consensus import (
    DistanceEstimate,
    consensus_limit,
    see_backhaul,
    unlinked_distance,
)
from fedrt.policies import make_policy
from fedrt.rounds import ModelDistances
from fedrt.runs.executor import StandIn
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

FOUR = ("fleet.num_edges=4", "fleet.num_devices=8", "fleet.cluster_sizes=even")
DOWN = "faults.link_down={kind='random',probability=0.3}"


class Mistaken(StandIn):
    """Near pairs cannot compare their models, and what is measured makes them out to be far."""

    def distances(self, t: int) -> ModelDistances:
        true = self.world.stand_in_distance(t)
        far = true > np.median(true[~np.eye(4, dtype=bool)])
        return ModelDistances(true, far)


@pytest.mark.parametrize("policy", ["fedrt", "static-r", "fedrt-plus"])
def test_links_are_planned_with_believed_distances(policy):
    """The truth is known to nobody: limit and links follow from what is believed."""
    world = SimulatedWorld(tiny(*FOUR, "control.kappa=0.4"), 0)
    models = Mistaken(world)
    estimate = DistanceEstimate.unknown(4)
    for t, done in enumerate(simulate_rounds(world, make_policy(policy), models)):
        estimate = estimate.update(world.stand_in_distance(t), models.distances(t).compared)
        believed = estimate.distance
        assert np.abs(believed - world.stand_in_distance(t)).max() > 0.5
        assert_array_equal(done.distances.true, world.stand_in_distance(t))
        assert_array_equal(done.distances.believed, believed)
        backhaul = done.last.seen.backhaul
        assert_array_equal(backhaul.consensus_distance, believed)
        assert backhaul.consensus_limit == pytest.approx(0.4 * believed.sum() / 16, rel=1e-12)
        left = unlinked_distance(done.last.plan.gossip.links, believed)
        assert left <= backhaul.consensus_limit * (1 + 1e-12)


def test_the_limit_counts_the_links_that_are_up():
    """Kappa lies between what the links that are up leave and what none would."""
    world = SimulatedWorld(tiny(*FOUR, DOWN, "control.kappa=0.25", "rounds.global_rounds=12"), 1)
    broken = 0
    for t in range(12):
        distance, up = world.stand_in_distance(t), world.links_up(t)
        seen = see_backhaul(world.scenario, world.backhaul_bps(t), distance)
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
    world = SimulatedWorld(tiny(*FOUR, DOWN, *settings), 1)
    for done in simulate_rounds(world, make_policy("fedrt")):
        assert_array_equal(done.last.plan.gossip.links, world.links_up(done.last.t))
        assert done.last.plan.status != "best-effort"


def test_where_nothing_is_known_every_link_that_is_up_counts_the_same():
    """Zero distances: each pair counts 1, and the limit is what the links that are up leave."""
    world = SimulatedWorld(tiny(*FOUR, DOWN, "control.kappa=1", "rounds.global_rounds=12"), 1)
    for t in range(12):
        seen = see_backhaul(world.scenario, world.backhaul_bps(t), np.zeros((4, 4)))
        assert_array_equal(seen.consensus_distance, ~np.eye(4, dtype=bool))
        missing = 12 - world.links_up(t).sum()
        assert_allclose(seen.consensus_limit, missing / 16, rtol=1e-15)
