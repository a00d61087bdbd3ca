"""Training where things fail: who is compared, whose steps count, and what a distance is of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from support.learning_cases import small
from support.watched import UNEVEN, SpyEngine, belief_of, distances_by_hand, placed, spied

from fedrt.control.topology.consensus import DistanceEstimate
from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.plan import Gossip
from fedrt.policies import make_policy
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical


def test_servers_whose_link_is_down_do_not_compare_their_models():
    """A pair measures only where the last mixing linked it and the link is up now."""
    settings = (
        "rounds.global_rounds=10",
        "control.kappa=0",
        "faults.link_down={kind='random',probability=0.4}",
    )
    trainer = Trainer(make_setup(SimulatedWorld(small(*settings), 0)))
    world, linked = trainer.setup.world, trainer.setup.world.base_graph
    belief, down = DistanceEstimate.unknown(3), 0
    for done in simulate_rounds(world, make_policy("static-t"), trainer):
        up = world.links_up(done.last.t)
        measured = linked & up
        belief = belief.update(done.distances.true, measured)
        assert_array_equal(done.distances.believed, belief.distance)
        assert_array_equal(done.distances.believed[measured], done.distances.true[measured])
        unmeasured = ~measured & ~np.eye(3, dtype=bool)
        if unmeasured.any():
            gap = (done.distances.believed - done.distances.true)[unmeasured].mean()
            assert done.metrics["distance_error"] == pytest.approx(gap, rel=1e-12)
            assert gap != 0
        down += int((linked & ~up).any())
        linked = done.last.plan.gossip.links
    assert down >= 3


def test_only_those_whose_updates_come_train_and_by_their_own_steps():
    """MLL-SGD gives each device steps of its own: those of who came, not of the first ones."""
    silent = "faults.silent={kind='random',probability=0.4}"
    setup, spy = spied(small(*UNEVEN, silent, "rounds.global_rounds=4"))
    rounds = list(simulate_rounds(setup.world, make_policy("mll-sgd"), Trainer(setup)))
    turns = [turn for done in rounds for turn in done.edge_rounds if turn.outcome.delivered.any()]
    told_apart = 0
    for order, turn in zip(spy.orders, turns, strict=True):
        came = turn.outcome.delivered
        assert_array_equal(order.devices, turn.seen.device[came])
        assert_array_equal(
            order.edge_of_device, setup.world.fleet.edge_of_device[turn.seen.device[came]]
        )
        assert_array_equal(order.local_steps, turn.plan.local_steps[came])
        first = turn.plan.local_steps[: int(came.sum())]
        told_apart += not np.array_equal(order.local_steps, first)
    assert told_apart >= 2


class Counting(SpyEngine):
    """Writes down the losses, the steps and who was refused."""

    def __init__(self, engine) -> None:
        super().__init__(engine)
        self.kept = []

    def train(self, models, order):
        trained = super().train(models, order)
        good = trained.refused < 0
        loss, steps = trained.loss_sum[good].sum(), order.local_steps[good].sum()
        self.kept.append((loss, steps, (~good).sum()))
        return trained


def test_refused_devices_count_neither_in_the_loss_nor_in_its_steps():
    """The mean is over the mini-batches of accepted updates alone."""
    attack = "faults.attack={kind='nan',devices=[2,5]}"
    setup = make_setup(SimulatedWorld(small(*UNEVEN, attack), 0))
    spy = Counting(setup.engine)
    trainer = Trainer(replace(setup, engine=spy))
    refused = 0
    for done in simulate_rounds(setup.world, make_policy("mll-sgd"), trainer):
        losses, steps, bad = (float(sum(column)) for column in zip(*spy.kept, strict=True))
        assert done.metrics["loss"] == pytest.approx(losses / steps, rel=1e-12)
        assert sum(turn.outcome.is_refused.sum() for turn in done.edge_rounds) == bad
        refused += bad
        spy.kept.clear()
    assert refused > 0


def test_distances_are_of_parameters_and_not_of_buffers():
    """Batch normalisation's running means and counts are no part of a model's place."""
    trainer = Trainer(make_setup(SimulatedWorld(small("learning.model=resnet20"), 0)))
    count = trainer.setup.model.num_parameters
    assert trainer.models.shape[1] > count
    trainer.models = trainer.models.clone()
    trainer.models[:, count:] += torch.tensor([[0.0], [7.0], [100.0]])
    assert not trainer.distances(0).true.any()
    trainer.models[1, 0] += 3.0
    assert_allclose(trainer.distances(0).true, [[0, 3, 0], [3, 0, 3], [0, 3, 0]], rtol=1e-6)
    assert_allclose(trainer.distances(0).true, distances_by_hand(trainer, trainer.models))
    # At 0, 3 and 0 the mean is 1: twice 1 and once 2 away from it, 4/3 on average.
    nothing = np.zeros((3, 3), dtype=bool)
    metrics = trainer.mix(0, Gossip(nothing, 1))
    assert metrics["consensus"] == pytest.approx(4 / 3, rel=1e-6)


def test_with_one_edge_round_the_distances_before_mixing_are_of_parameters_too():
    """What the servers held before the gossip counts; running means and counts do not."""

    class Moved(Trainer):
        def train(self, seen, plan, outcome):
            self.models = self.setup.first_model.repeat(3, 1)
            self.models[2, -1] += 50.0
            self.models[1, 4] += 2.0

    settings = ("learning.model=resnet20", "rounds={global_rounds=2,edge_rounds=1}")
    trainer = Moved(make_setup(SimulatedWorld(small(*settings), 0)))
    first, second = simulate_rounds(trainer.setup.world, make_policy("static-t"), trainer)
    assert not first.distances.true.any()
    assert_allclose(second.distances.true, [[0, 2, 0], [2, 0, 2], [0, 2, 0]], rtol=1e-5)


def test_a_link_that_comes_back_measures_after_the_next_mixing():
    """0 - 1 - 2 is linked; with 1 - 2 down nothing new is known of servers 0 and 2."""
    down = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=bool)
    belief = belief_of(placed([0.0, 3.0, 1.0])).update(down)
    assert_allclose(belief.distances.believed, [[0, 3, 0], [3, 0, 0], [0, 0, 0]], rtol=1e-6)
    assert_array_equal(belief.linked, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
