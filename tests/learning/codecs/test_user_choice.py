"""Codecs of a user's that a policy chooses: their facts, and the same in every engine."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.learning_cases import small
from support.own_parts import ENGINES, set_up

from fedrt.control.coding.menu import menu_of
from fedrt.errors import InputError
from fedrt.learning.codecs.guard import Guard
from fedrt.learning.trainer import Trainer
from fedrt.messages import message_bytes
from fedrt.policies import make_policy
from fedrt.runs.loop import simulate_rounds
from fedrt.scenario.entries import import_paths, training_paths

pytestmark = pytest.mark.numerical

STATED = "support.own_codecs:Stated"
SETTINGS = (f'control.codecs=["int4","{STATED}"]', "control.distortion_limit=0.009")


def test_the_menu_has_its_bytes_and_its_distortion():
    scenario = small(*SETTINGS)
    menu, numbers = menu_of(scenario), round(scenario.learning.model_bits / 32)
    assert menu.names == ("int4", STATED)
    assert menu.bits[1] == 8 * (4 + numbers)
    assert menu.distortion.tolist() == [1.6e-2, 2e-3]
    assert import_paths(scenario) == {"control.codecs[1]": STATED}
    assert training_paths(scenario) == [STATED]


def chosen(engine: str):
    """What a run changes in the models, what devices then have left, and the codecs used."""
    setup = set_up(engine, *SETTINGS)
    try:
        trainer = Trainer(setup)
        rounds = list(simulate_rounds(setup.world, make_policy("fedrt-joint"), trainer))
        turns = [turn for done in rounds for turn in done.edge_rounds]
        names = [turn.seen.menu.names[n] for turn in turns for n in turn.plan.codec.tolist()]
        for turn in turns:
            lengths = [
                message_bytes(turn.seen.menu.names[n], trainer.num_parameters)
                for n in turn.plan.codec.tolist()
            ]
            np.testing.assert_array_equal(turn.outcome.cost.upload_bytes, lengths)
        return trainer.models - setup.first_model, trainer.codec_state, names
    finally:
        setup.close()


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_every_engine_sends_with_the_codec_that_a_policy_chooses(engine):
    models, left, names = chosen(engine)
    wanted, remembered, same = chosen("sequential")
    assert names == same
    assert {*names} == {"int4", STATED}
    assert bool(left.any())
    # A byte of a number may round another way where engines differ by a last bit.
    assert float((models - wanted).norm() / wanted.norm()) < 1e-3
    assert float((left - remembered).norm() / remembered.norm()) < 1e-2


WITHOUT = {
    "Half": "must have selectable = True",
    "Unstated": "must have selectable = True",
    "Undistorted": "must have a distortion, a number >= 0",
    "Remembering": "must have no init",
}


@pytest.mark.parametrize("name", WITHOUT)
def test_one_without_the_facts_ends_in_one_line(name):
    with pytest.raises(InputError) as error:
        menu_of(small(f'control.codecs=["int4","support.own_codecs:{name}"]'))
    (line,) = str(error.value).splitlines()
    assert line.startswith(f'scenario.control.codecs = "support.own_codecs:{name}": ')
    assert WITHOUT[name] in line


def test_a_device_that_was_stepped_up_sends_no_fewer_bytes():
    """Of 1,000 numbers it has 1,004 bytes: int4 has 524, and int8 1,024."""
    guard = Guard(3)
    guard.least = np.array([0, 2, 5])
    names = guard.allowed(np.arange(3), [STATED] * 3, 1000)
    assert names == [STATED, STATED, "int8"]
    assert message_bytes("int8", 1000) == 1024
    assert torch.tensor([message_bytes(STATED, 1000)]).item() == 1004
