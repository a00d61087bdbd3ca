"""The training side of a run: against FedAvg, and each rule of docs/training.md."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from support.learning_cases import small
from support.watched import LINE, UNEVEN, belief_of, distances_by_hand, placed, run, spied
from torch.nn import functional as fn

from fedrt.control.mixing.weights import metropolis_weights
from fedrt.control.topology.consensus import DistanceEstimate
from fedrt.data.catalogue import load_dataset
from fedrt.learning.models.architectures import make_model
from fedrt.learning.trainer import Trainer
from fedrt.policies import POLICIES, make_policy
from fedrt.policies.base import MENU, needs_of
from fedrt.runs.loop import simulate_rounds

pytestmark = pytest.mark.numerical

ALONE = ("fleet.num_edges=1", "fleet.num_devices=4", "fleet.cluster_sizes=[4]")
RING = ("fleet.num_edges=4", "fleet.cluster_sizes=[2,2,2,1]", 'base_graph={kind="ring"}')


WHOLE = [policy for policy in POLICIES if MENU not in needs_of(make_policy(policy))]
"""Policies under which devices send what they trained as it is."""


@pytest.mark.parametrize(
    ("policy", "averaging"), [*((policy, "uniform") for policy in WHOLE), ("fedrt", "samples")]
)
def test_one_edge_server_alone_is_fedavg(policy, averaging):
    budget = "fleet.energy_j_per_edge_round=100"  # Nobody is slowed: MLL-SGD too takes S steps.
    # Digits have blank borders: with max pooling the least rounding decides who learns from them.
    exact = ('learning.model="smooth-cnn"', 'learning.dtype="float64"')
    scenario = small(*ALONE, f'learning.averaging="{averaging}"', budget, *exact)
    trainer, rounds = run(scenario, policy)
    setup, sizes = trainer.setup, trainer.setup.batches.sizes
    assert len(set(sizes.tolist())) > 1
    weight = sizes / sizes.sum() if averaging == "samples" else np.full(4, 0.25)
    # FedAvg (McMahan et al. 2017), with momentum started anew by every client.
    server = make_model("smooth-cnn", (1, 8, 8), 10, seed=0).double()
    for t, r in np.ndindex(4, 2):
        clients = [copy.deepcopy(server) for _ in range(4)]
        for n, client in enumerate(clients):
            optimiser = torch.optim.SGD(client.parameters(), lr=0.05, momentum=0.9)
            for batch in setup.batches.draw(t, r, 2, np.arange(4))[:, n]:
                inputs, labels = setup.samples.batch(torch.as_tensor(batch))
                optimiser.zero_grad()
                fn.cross_entropy(client(inputs), labels).backward()
                optimiser.step()
        for name, part in server.state_dict().items():
            part.copy_(sum(w * c.state_dict()[name] for w, c in zip(weight, clients, strict=True)))
    setup.model.load(trainer.models[0])
    first = make_model("smooth-cnn", (1, 8, 8), 10, seed=0).double().state_dict()
    for name, part in setup.model.module.state_dict().items():
        wanted = server.state_dict()[name]
        # Eight edge rounds of float64, relative to how far they went.
        assert float((part - wanted).abs().max()) <= 1e-12 * float((wanted - first[name]).norm())
    assert len(trainer.models) == 1
    for done in rounds:
        assert done.metrics["consensus"] == 0
        assert np.isnan(done.metrics["distance_error"])
        assert done.metrics["accuracy"] == pytest.approx(
            done.metrics["edge_accuracy_mean"], nan_ok=True
        )


def test_distances_are_those_as_the_last_edge_round_starts():
    trainer, rounds = run(small("rounds.edge_rounds=3"))
    for t, done in enumerate(rounds):
        by_hand = distances_by_hand(trainer, trainer.moments["trained", t, 1])
        assert by_hand.any()
        assert_allclose(done.distances.true, by_hand, rtol=1e-12)


def test_with_one_edge_round_distances_are_those_before_the_previous_mixing():
    trainer, rounds = run(small("rounds.edge_rounds=1", "control.kappa=1"))
    first, later = rounds[0], rounds[1:]
    assert not first.distances.true.any()
    assert not first.distances.believed.any()
    assert_array_equal(first.last.plan.gossip.links, trainer.setup.world.base_graph)
    for t, done in enumerate(later, start=1):
        by_hand = distances_by_hand(trainer, trainer.moments["trained", t - 1, 0])
        assert by_hand.any()
        assert_allclose(done.distances.true, by_hand, rtol=1e-12)
    # Only what the first round could not know kept its links: afterwards some are dropped.
    base = trainer.setup.world.base_graph.sum()
    assert any(done.last.plan.gossip.links.sum() < base for done in later)


@pytest.mark.parametrize("edge_rounds", [1, 2])
def test_linked_pairs_measure_and_the_error_of_the_others_is_recorded(edge_rounds):
    scenario = small(
        "rounds.global_rounds=6", f"rounds.edge_rounds={edge_rounds}", "control.kappa=1"
    )
    trainer, rounds = run(scenario)
    linked, missing = trainer.setup.world.base_graph, 0
    belief = DistanceEstimate.unknown(3)
    for done in rounds:
        true, believed = done.distances.true, done.distances.believed
        if true.any():
            belief = belief.update(true, linked)
        assert_array_equal(believed, belief.distance)
        assert_array_equal(believed[linked], true[linked])
        unlinked = ~linked & ~np.eye(3, dtype=bool)
        error = done.metrics["distance_error"]
        if unlinked.any():
            missing += 1
            assert error == pytest.approx((believed - true)[unlinked].mean(), rel=1e-12)
        else:
            assert np.isnan(error)
        linked = done.last.plan.gossip.links
    assert missing >= 2


EVERYONE = ~np.eye(3, dtype=bool)


def test_the_sign_of_the_estimates_error():
    """At 0, 3 and 1, servers 0 and 2 are 1 apart; the path over server 1 says 3 + 2."""
    belief = belief_of(placed([0.0, 3.0, 1.0])).update(EVERYONE)
    assert_allclose(belief.distances.true, [[0, 3, 1], [3, 0, 2], [1, 2, 0]], rtol=1e-6)
    assert_allclose(belief.distances.believed, [[0, 3, 5], [3, 0, 2], [5, 2, 0]], rtol=1e-6)
    assert belief.mean_error == pytest.approx(4, rel=1e-6)
    assert_array_equal(belief.linked, LINE)
    assert_array_equal(belief.after_gossip(EVERYONE).linked, EVERYONE)
    # On a line the path is the truth, 5; half of an older 1 makes 3: believed too near.
    older = DistanceEstimate(np.ones((3, 3)), np.ones((3, 3), dtype=bool))
    belief = belief_of(placed([0.0, 3.0, 5.0]), older).update(EVERYONE)
    assert belief.distances.believed[0, 2] == pytest.approx(3, rel=1e-6)
    assert belief.mean_error == pytest.approx(-2, rel=1e-6)


def test_the_true_distance_to_the_average_after_mixing_is_recorded():
    trainer, rounds = run(small(*RING))
    for t, done in enumerate(rounds):
        rows = trainer.moments["mixed", t, 1].double().numpy()
        by_hand = np.linalg.norm(rows - rows.mean(0), axis=1).mean()
        assert by_hand > 0
        assert done.metrics["consensus"] == pytest.approx(by_hand, rel=1e-9)
    # Mixing over the complete graph leaves nothing but rounding.
    trainer, rounds = run(small(), "static-t")
    for t, done in enumerate(rounds):
        before = trainer.moments["trained", t, 1].double()
        apart = float((before - before.mean(0)).norm(dim=1).mean())
        assert done.metrics["consensus"] < 1e-5 * apart


def test_mixing_in_a_run_conserves_the_average():
    trainer, rounds = run(small(*RING, "rounds.gossip_steps=3"))
    for t in range(len(rounds)):
        before = trainer.moments["trained", t, 1].double().mean(0)
        after = trainer.moments["mixed", t, 1].double().mean(0)
        assert float((after - before).abs().max()) < 1e-6


def test_the_weights_of_a_plan_are_the_ones_that_mix():
    # On a star the fastest weights are not those of the scenario's rule.
    star = (*RING[:2], 'base_graph={kind="star"}', "control.contraction_limit=0.5")
    trainer, rounds = run(small(*star), "fedrt-plus")
    for t, done in enumerate(rounds):
        gossip = done.last.gossip
        before = trainer.moments["trained", t, 1].double().numpy()
        after = trainer.moments["mixed", t, 1].double().numpy()
        by_hand = np.linalg.matrix_power(gossip.weights, gossip.steps) @ before
        assert_allclose(after, by_hand, atol=1e-5)
        # The scenario's own rule would give other models.
        rule = np.linalg.matrix_power(metropolis_weights(gossip.links), gossip.steps) @ before
        assert np.abs(rule - after).max() > 1e-4


def test_the_loss_is_the_mean_over_devices_and_steps():
    """Each mini-batch counts once, also where devices take different numbers of steps."""
    setup, spy = spied(small(*UNEVEN))
    losses: list[list[float]] = []
    inner = spy.engine.train

    def train(models, order):
        trained = inner(models, order)
        losses.append([float(trained.loss_sum.sum()), int(order.local_steps.sum())])
        return trained

    spy.engine = SimpleNamespace(train=train)
    for done in simulate_rounds(setup.world, make_policy("mll-sgd"), Trainer(setup)):
        total, count = np.sum(losses, axis=0)
        assert done.metrics["loss"] == pytest.approx(total / count, rel=1e-12)
        losses.clear()


def test_mll_sgds_devices_run_their_own_steps():
    """By the orders, by the forward passes in training mode, and by the model that comes out."""
    setup, spy = spied(small(*UNEVEN))
    passes = []
    setup.model.module.register_forward_hook(lambda m, *_: passes.append(m.training))
    rounds = list(simulate_rounds(setup.world, make_policy("mll-sgd"), Trainer(setup)))
    turns = [turn for done in rounds for turn in done.edge_rounds]
    assert len(spy.orders) == len(turns) == 4
    for order, turn in zip(spy.orders, turns, strict=True):
        assert_array_equal(order.local_steps, turn.plan.local_steps)
        assert_array_equal(order.devices, np.arange(7))
        # Charged for what was trained: S_n I mu_n cycles.
        cycles = turn.plan.local_steps * 8 * setup.world.fleet.cycles_per_sample
        assert_allclose(turn.cost.compute_s, cycles / turn.plan.cpu_hz, rtol=1e-12)
    steps = np.stack([turn.plan.local_steps for turn in turns])
    assert steps.min() < 10 < steps.max()
    assert sum(passes) == steps.sum()
    even = [replace(order, local_steps=np.full(7, 10)) for order in spy.orders[:1]]
    first = setup.first_model.repeat(3, 1)
    own = spy.engine.train(first, spy.orders[0]).models
    assert not torch.equal(own, spy.engine.train(first, even[0]).models)


def test_accuracy_is_measured_now_and_then_and_at_the_end():
    _, rounds = run(small("rounds.global_rounds=5", "learning.evaluate_every=2"))
    names = ["accuracy", "edge_accuracy_mean", "edge_accuracy_min", "edge_accuracy_max"]
    known = [[not np.isnan(done.metrics[name]) for name in names] for done in rounds]
    assert known == [[False] * 4, [True] * 4, [False] * 4, [True] * 4, [True] * 4]
    assert all(not np.isnan(done.metrics["loss"]) for done in rounds)


def test_accuracy_is_that_of_the_average_model_by_hand():
    trainer, rounds = run(small(*RING, "learning.evaluate_every=1", "rounds.global_rounds=6"))
    data = load_dataset("digits")
    mean, deviation = data.train_images.mean(dtype=float), data.train_images.std(dtype=float)
    inputs = torch.as_tensor((data.test_images[..., 0] - mean) / deviation)[:, None].float()

    def right(state: torch.Tensor) -> float:
        module, start = make_model("small-cnn", (1, 8, 8), 10, 5).eval(), 0
        with torch.no_grad():
            for parameter in module.parameters():
                stop = start + parameter.numel()
                parameter.copy_(state[start:stop].view_as(parameter))
                start = stop
            return float(np.mean(module(inputs).argmax(1).numpy() == data.test_labels))

    # Two of 359 samples may fall the other way by rounding.
    close = 2 / len(data.test_labels)
    for t, done in enumerate(rounds):
        models, metrics = trainer.moments["mixed", t, 1], done.metrics
        assert metrics["accuracy"] == pytest.approx(right(models.mean(0)), abs=close)
        edges = [right(state) for state in models]
        assert metrics["edge_accuracy_mean"] == pytest.approx(np.mean(edges), abs=close)
        assert metrics["edge_accuracy_min"] == pytest.approx(min(edges), abs=close)
        assert metrics["edge_accuracy_max"] == pytest.approx(max(edges), abs=close)
    assert rounds[-1].metrics["accuracy"] > 0.5
    assert rounds[-1].metrics["loss"] < rounds[0].metrics["loss"]


def test_only_chosen_devices_train_and_pay():
    """Half of 2, 3 and 2 devices: 1, 2 (rounded half up) and 1."""
    setup, spy = spied(small("learning.participation=0.5", "rounds.global_rounds=6"))
    rounds = list(simulate_rounds(setup.world, make_policy("fedrt"), Trainer(setup)))
    spent, seen = np.zeros(7), set()
    for order, turn in zip(
        spy.orders, (turn for done in rounds for turn in done.edge_rounds), strict=True
    ):
        who = setup.world.taking_part(turn.t, turn.r)
        assert_array_equal(order.devices, who)
        assert_array_equal(order.edge_of_device, setup.world.fleet.edge_of_device[who])
        assert_array_equal(np.bincount(order.edge_of_device), [1, 2, 1])
        assert_allclose(order.weight, [1, 0.5, 0.5, 1])
        paid = turn.after.spent_j - spent
        assert (paid[who] > 0).all()
        assert not np.delete(paid, who).any()
        assert (turn.t, turn.r) == (order.t, order.r)
        spent = turn.after.spent_j
        seen |= set(who.tolist())
    assert seen == set(range(7))


def test_averaging_by_samples_among_those_that_train():
    setup, spy = spied(small("learning.participation=0.7", 'learning.averaging="samples"'))
    list(simulate_rounds(setup.world, make_policy("static-t"), Trainer(setup)))
    for order in spy.orders:
        sizes = setup.batches.sizes[order.devices]
        for edge in range(3):
            mine = order.edge_of_device == edge
            assert_allclose(order.weight[mine], sizes[mine] / sizes[mine].sum())
