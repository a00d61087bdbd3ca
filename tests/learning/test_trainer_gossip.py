"""Coded gossip in a run: what a trainer mixes, keeps and takes up again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from support.learning_cases import small
from support.watched import replay, run

from fedrt.control.mixing.weights import mixing_of
from fedrt.errors import InputError
from fedrt.learning.coded_gossip import KnownModels, mix_coded
from fedrt.learning.gossip import mix
from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import make_policy
from fedrt.records.checkpoint import Checkpoints
from fedrt.records.records import RunSize
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

INT4 = "learning.gossip=int4"
NORMED = (
    "learning.model='support.trained:Normed'",
    "learning.model_bits=10176",
    "learning.model_buffers=9",
)


@dataclass
class Turns:
    """A policy that has its gossip coded in every other global round."""

    name: str = "turns"
    energy_horizon: str = "exact"

    def plan(self, seen, books):
        plan = make_policy("fedrt").plan(seen, books)
        codec = "int8" if seen.t % 2 == 0 else None
        return replace(plan, gossip=plan.gossip and replace(plan.gossip, codec=codec))


@pytest.mark.parametrize("settings", [(), NORMED, ("learning.dtype=float64",)])
def test_every_gossip_is_that_of_the_servers_with_the_copies_before(settings):
    trainer, rounds = run(small(INT4, *settings), "fedrt-plus")
    first, size = trainer.setup.first_model, trainer.setup.model.num_parameters
    assert first.numel() - size == (9 if settings == NORMED else 0)
    copies = KnownModels.none(first[:size])
    for done in rounds:
        gossip, (t, r) = done.last.gossip, (done.last.t, done.last.r)
        mixing = mixing_of(gossip, "metropolis")
        before = trainer.moments["trained", t, r]
        mixed = mix_coded(before, copies, first[:size], mixing, gossip.steps, "int4")
        assert torch.equal(trainer.moments["mixed", t, r], mixed.models)
        assert not torch.equal(mixed.models, mix(before, mixing, gossip.steps))
        copies = mixed.copies
    assert torch.equal(trainer.copies.held, copies.held)
    np.testing.assert_array_equal(trainer.copies.pairs, copies.pairs)


@pytest.mark.parametrize("coded", ["by the scenario", "by the plan"])
def test_copies_are_part_of_a_runs_state(coded, tmp_path):
    scenario = small("rounds.global_rounds=5", *([INT4] if coded == "by the scenario" else []))
    policy = make_policy("fedrt") if coded == "by the scenario" else Turns()
    trainer = Trainer(make_setup(SimulatedWorld(scenario, 0)))
    checkpoints, size = Checkpoints(tmp_path), RunSize.of(scenario)
    rounds = []
    for done in simulate_rounds(trainer.setup.world, policy, trainer):
        rounds.append(done)
        checkpoints.save_record(done.last.t, done.edge_rounds)
        if done.last.t == 2:
            checkpoints.save(3, trainer.state())
    again = Trainer(trainer.setup)
    state, records, notes = checkpoints.load(again.state(), size)
    assert (len(records), notes) == (3, [])
    assert state["copies"].dtype == np.float32
    again.restore(state)
    replay(again, rounds[3:])
    assert torch.equal(again.models, trainer.models)
    assert torch.equal(again.copies.held, trainer.copies.held)
    forgetful = Trainer(trainer.setup)
    forgetful.restore({name: array for name, array in state.items() if name != "copies"})
    replay(forgetful, rounds[3:])
    assert not torch.equal(forgetful.models, trainer.models)
    with pytest.raises(InputError, match=r"copies are \(\d+, 2\)"):
        again.restore({**state, "copies": state["copies"][:, :2]})
    with pytest.raises(InputError, match=r"copies are"):
        again.restore({**state, "pairs": state["pairs"] + 3})


def test_models_sent_as_they_are_leave_the_copies():
    trainer = Trainer(make_setup(SimulatedWorld(small(), 0)))
    copies = []
    for _ in simulate_rounds(trainer.setup.world, Turns(), trainer):
        copies.append(trainer.copies)
    assert copies[0] is copies[1] is not copies[2] is copies[3]
    plain, _ = run(small())
    assert not len(plain.copies.pairs)
    assert list(plain.state()) == ["models"]


def test_equal_work_is_shared_and_other_copies_are_not():
    """Two trainers with the same models and other copies have other keys."""
    shared: dict = {}
    setup = make_setup(SimulatedWorld(small(INT4), 0))
    one, two = Trainer(setup, shared), Trainer(setup, shared)
    rounds = list(simulate_rounds(setup.world, make_policy("fedrt"), one))
    replay(two, rounds)
    assert two.models is one.models
    assert two.copies is one.copies
    saved = one.state()
    keys = []
    for copies in (saved["copies"], saved["copies"] + 1):
        two.restore({**saved, "copies": copies})
        keys.append(two.key)
    assert keys[0] != keys[1]


@pytest.mark.parametrize("coded", [INT4, "learning.upload=int4"])
def test_messages_that_would_be_charged_for_another_model_are_refused(coded):
    def make(*settings):
        return make_setup(SimulatedWorld(small(*NORMED, *settings), 0))

    make(coded)
    make("learning.model_buffers=0", "learning.model_bits=999")
    with pytest.raises(InputError) as error:
        make(coded, "learning.model_buffers=0", "learning.model_bits=999")
    size = make().model.num_parameters
    assert error.value.lines == [
        f"scenario.learning.model_bits = 999.0: must be {32 * size}, or 'measured', with a codec:"
        f" the model has {size} parameters of 32 bit",
        "scenario.learning.model_buffers = 0: must be 9 with a codec: what the model holds beside"
        " its parameters",
    ]
