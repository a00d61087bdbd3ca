"""SCAFFOLD: against a plain loop in torch, alike in every engine, and what it sends and keeps."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from support.learning_cases import engine_case, method, small
from support.own_parts import set_up, trained
from support.watched import replay, run
from torch.nn import functional as fn

from fedrt.errors import InputError
from fedrt.learning.engines.scaffold import Variates
from fedrt.learning.engines.sequential import SequentialEngine
from fedrt.learning.stacked import compiled
from fedrt.learning.stacked.engine import FORMS, StackedEngine
from fedrt.learning.trainer import Trainer
from fedrt.policies import make_policy
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

SCAFFOLD = ("learning.scaffold=true", "learning.momentum=0")
ROUNDS = "rounds={global_rounds=2,edge_rounds=2,local_steps=3,gossip_steps=1}"
EXACT = 1e-12


def by_torch(setup, rounds: int) -> torch.Tensor:
    """The models of one global round before gossip, as a loop over modules."""
    fleet, rate = setup.world.fleet, setup.world.scenario.learning.learning_rate
    steps = setup.world.scenario.rounds.local_steps
    size = setup.model.num_parameters
    servers = torch.zeros(fleet.num_edges, size, dtype=torch.float64)
    devices = torch.zeros(fleet.num_devices, size, dtype=torch.float64)
    models = setup.first_model.repeat(fleet.num_edges, 1)
    for r in range(rounds):
        after = torch.zeros_like(models)
        changes = torch.zeros_like(servers)
        chosen = setup.batches.draw(0, r, steps, np.arange(fleet.num_devices))
        for n, c in enumerate(fleet.edge_of_device.tolist()):
            module = copy.deepcopy(setup.model.module).train()
            held = list(module.parameters())
            torch.nn.utils.vector_to_parameters(models[c], held)
            correction = servers[c] - devices[n]
            for step in range(steps):
                inputs, labels = setup.samples.batch(torch.as_tensor(chosen[step, n]))
                loss = fn.cross_entropy(module(inputs), labels)
                gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, held)])
                now = torch.nn.utils.parameters_to_vector(held).detach()
                torch.nn.utils.vector_to_parameters(now - rate * (gradient + correction), held)
            end = torch.nn.utils.parameters_to_vector(held).detach()
            members = int((fleet.edge_of_device == c).sum())
            new = devices[n] - servers[c] + (models[c] - end) / (steps * rate)
            changes[c] += (new - devices[n]) / members
            devices[n] = new
            after[c] += end / members
        models, servers = after, servers + changes
    return models


def test_it_is_the_algorithm_of_the_paper():
    setup = set_up("sequential", *SCAFFOLD, ROUNDS, "learning.learning_rate=0.05")
    trainer, found = Trainer(setup), []
    mixed = trainer.mix
    trainer.mix = lambda t, gossip: (found.append(trainer.models), mixed(t, gossip))[1]
    list(simulate_rounds(setup.world, make_policy("fedrt"), trainer))
    wanted = by_torch(setup, 2)
    first = setup.first_model
    assert float((found[0] - wanted).norm() / (wanted - first).norm()) <= EXACT
    plain = trained("sequential", "learning.momentum=0", ROUNDS)
    assert float((trainer.models - first - plain).norm() / plain.norm()) > 0.001


@pytest.fixture
def case():
    """An uneven order with corrections, and what the sequential engine makes of it."""
    made = engine_case("sequential", "smooth-cnn", "float64")
    parts = (made.flat, made.samples, made.batches, method(0.05, *SCAFFOLD))
    rng = np.random.default_rng(5)
    drawn = 0.1 * rng.normal(size=(len(made.order.devices), made.flat.num_parameters))
    made.order = made.order.__class__(**vars(made.order) | {"correction": drawn})
    wanted = SequentialEngine(*parts, augment=False).train(made.models, made.order)

    def check(engine) -> None:
        found = engine.train(made.models, made.order)
        gap = (found.models - wanted.models).norm() / (wanted.models - made.models).norm()
        assert float(gap) <= EXACT
        scale = np.abs(wanted.devices.variate).max()
        assert np.abs(found.devices.variate - wanted.devices.variate).max() <= EXACT * scale

    return parts, check


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_sequential_engine(case, form):
    parts, check = case
    check(StackedEngine(*parts, augment=False, chunk=3, form=form))


def test_the_compiled_step_is_the_sequential_engine(case, monkeypatch):
    """Written out but not compiled."""
    monkeypatch.setattr(torch, "compile", lambda written, **_: written)
    monkeypatch.setattr(compiled, "PROGRAMS", {})
    parts, check = case
    check(StackedEngine(*parts, augment=False, chunk=4, compiled=True))


def test_a_variate_is_charged_beside_the_update():
    """6,090 parameters of 32 bit, once more; with a codec too, as it is not coded."""
    for codec in ("none", "int8"):
        bits = [
            SimulatedWorld(small(f'learning.upload="{codec}"', *more), 0).observe(0, 0).upload_bits
            for more in ((), SCAFFOLD)
        ]
        assert (bits[1] - bits[0] == 32 * 6090).all()
    given = (*SCAFFOLD, 'learning.upload="int8"', ROUNDS, "learning.model_bits=194880")
    _, rounds = run(small(*given))
    turn = rounds[0].edge_rounds[0]
    assert np.array_equal(turn.cost.upload_bytes, turn.seen.upload_bits / 8)


def test_servers_keep_their_variates_through_gossip_and_checkpoints():
    trainer, rounds = run(small(*SCAFFOLD, ROUNDS))
    first, second = Trainer(trainer.setup), Trainer(trainer.setup)
    replay(first, rounds[:1])
    saved = {name: array.copy() for name, array in first.state().items()}
    variates = first.variates.servers
    assert np.abs(variates).max() > 0
    assert not np.array_equal(variates[0], variates[1])
    # A server's variate is the mean of its devices' through gossip too.
    edge = trainer.setup.world.fleet.edge_of_device
    for c in range(3):
        mean = first.variates.devices[edge == c].mean(0)
        np.testing.assert_allclose(variates[c], mean, atol=1e-5 * np.abs(mean).max())
    second.restore(saved)
    replay(second, rounds[1:])
    assert {k: v.tobytes() for k, v in second.state().items()} == {
        k: v.tobytes() for k, v in trainer.state().items()
    }


def test_one_whose_update_is_refused_keeps_its_variate():
    from fedrt.learning.engines.engine import DeviceResults, TrainingOrder

    held = Variates(np.array([0, 0]), 1, np.zeros(1))
    order = TrainingOrder(0, 0, np.arange(2), np.zeros(2, int), np.array([2, 2]), np.ones(2) / 2)
    results = DeviceResults(*[np.zeros(2)] * 2, np.array([-1, 0]), *[np.zeros(2)] * 3)
    results = DeviceResults(**vars(results) | {"variate": np.array([[4.0], [8.0]])})
    held.after(order, results)
    assert held.devices.tolist() == [[4.0], [0.0]]
    assert held.servers.tolist() == [[2.0]]


def test_it_needs_plain_sgd():
    for bad in ((), ("learning.momentum=0", 'learning.optimiser="adam"')):
        with pytest.raises(InputError, match=r"^scenario.learning.scaffold: needs optimiser"):
            small("learning.scaffold=true", *bad)
