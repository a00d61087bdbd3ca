"""The lengths of messages with a whole model, by hand and as the shipped models have them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedrt.learning.material import measure
from fedrt.learning.models.architectures import MODELS, make_model
from fedrt.scenario import load_scenario
from fedrt.scenario.sizes import BUFFERS, buffer_bits, message_bits, parameters_in
from fedrt.world.simulated import SimulatedWorld


def test_messages_by_hand():
    # 1,000 numbers: 16 bytes, four blocks of 256 with a scale of two bytes, and 4 bit each.
    assert message_bits("int4", 32_000) == 8 * (16 + 4 * 2 + 500)
    assert message_bits("int4", 32_000, 64) == 8 * (16 + 4 * 2 + 500) + 64
    assert message_bits("none", 32_000, 64) == 32_000
    assert (parameters_in(32_000), parameters_in(1.0)) == (1000, 1)


def test_every_shipped_model_holds_the_buffers_that_are_charged():
    for name in MODELS:
        model = make_model(name, (1, 28, 28), 10, 0)
        assert BUFFERS.get(name, 0) == sum(buffer.numel() for buffer in model.buffers()), name


@pytest.mark.parametrize("preset", ["paper/cifar10-iid", "paper/fmnist-iid", "quickstart"])
def test_a_preset_is_charged_for_its_model(preset):
    learning = load_scenario(preset).learning
    assert buffer_bits(learning) == 32 * {"resnet20": 1395}.get(learning.model, 0)
    assert buffer_bits(replace(learning, model_buffers=7)) == 224


def test_a_measured_model_has_its_buffers_measured():
    settings = [
        "learning.model_bits=measured",
        "learning.model='support.trained:Normed'",
    ]
    measured = measure(load_scenario("quickstart", settings))
    assert measured.learning.model_buffers == 9
    assert SimulatedWorld(measured, 0).observe(0, 0).buffer_bits == 9 * 32
    plain = measure(load_scenario("quickstart", ["learning.model_bits=measured"]))
    assert plain.learning.model_buffers is None
