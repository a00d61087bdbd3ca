"""Sending: every way to compute it gives the bits of the byte form, in every engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.learning_cases import small
from support.own_parts import order_of

from fedrt.learning.codecs import ErrorFeedback, first_states, make_codec
from fedrt.learning.codecs.blocks import GRIDS, receive_blocks
from fedrt.learning.engines import sending
from fedrt.learning.engines.engine import DeviceResults, TrainingOrder
from fedrt.learning.engines.sending import Uplink
from fedrt.learning.setup import make_setup, make_stacked
from fedrt.learning.stacked.compiled import compiled_coding
from fedrt.learning.stacked.engine import FORMS
from fedrt.messages import CODECS, message_bytes
from fedrt.world.simulated import SimulatedWorld

CODEC_NAMES = tuple(CODECS)

SIZE, BUFFERS, DEVICES, EDGES = 600, 3, 12, 2


def bits(tensor: torch.Tensor) -> np.ndarray:
    """The bits of the numbers, with -0 as 0."""
    return (tensor + 0.0).numpy().view(np.int32)


def cases() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Models, trained models and states: usual numbers, great and tiny ones, and equal ones."""
    rng = np.random.default_rng(3)
    models = rng.standard_normal((EDGES, SIZE + BUFFERS)).astype(np.float32)
    change = rng.standard_normal((DEVICES, SIZE + BUFFERS)) * 0.01
    change[1] = 0
    change[2] *= 1e-30
    change[3] *= 1e36
    change[4, :300] = 0
    change[5] = np.rint(change[5] * 300) / 8  # many in the middle of two levels
    change[6] = np.sign(change[6]) * 3e38
    change[7] **= 3
    trained = models[np.arange(DEVICES) % EDGES] + change.astype(np.float32)
    states = (rng.standard_normal((DEVICES + 4, SIZE)) * 0.003).astype(np.float32)
    states[6 + 2] = 0
    return torch.from_numpy(models), torch.from_numpy(trained), torch.from_numpy(states)


ROW = np.arange(DEVICES)[::-1] + 2
"""The row of each device among the states."""


def through_uplink(names: list[str], program=None, dtype=torch.float32):
    """Models and states after sending, all devices at once."""
    models, trained, states = (tensor.to(dtype) for tensor in cases())
    order = TrainingOrder(
        t=0,
        r=0,
        devices=np.arange(DEVICES) + 5,
        edge_of_device=np.sort(np.arange(DEVICES) % EDGES),
        local_steps=np.ones(DEVICES, dtype=np.int64),
        weight=np.ones(DEVICES),
        codec_state=states,
        state_row=ROW,
        codec=np.array([CODEC_NAMES.index(name) for name in names]),
        menu=CODEC_NAMES,
    )
    results = DeviceResults.blank(order)
    coding = {} if program is None else {"program": program}
    uplink = Uplink(ErrorFeedback("top-k", 0.1), SIZE, order, results, **coding)
    edge, place = torch.arange(DEVICES) % EDGES, np.arange(DEVICES)
    if program is None:
        uplink.send(place, models, edge, trained)
    else:
        given = (models, edge, trained, states, ROW, names)
        uplink.waiting.append((place, uplink._by_program(*given)))
    uplink.settle()
    return trained, states, results


def by_bytes(names: list[str]):
    """The same, one message after the other."""
    models, trained, states = cases()
    for n, name in enumerate(names):
        codec = ErrorFeedback(name, 0.1)
        start = models[n % EDGES, :SIZE]
        message, after = codec.encode(trained[n, :SIZE] - start, states[ROW[n]])
        assert len(message) == message_bytes(name, SIZE, 0.1)
        trained[n, :SIZE] = start + codec.decode(message)
        states[ROW[n]] = after
    return trained, states


MIXED = [CODEC_NAMES[n % len(CODEC_NAMES)] for n in range(DEVICES)]
LEVELS = [list(GRIDS)[n % len(GRIDS)] for n in range(DEVICES)]


@pytest.mark.parametrize("names", [*([name] * DEVICES for name in CODEC_NAMES), MIXED, LEVELS])
def test_stacked_updates_are_those_of_the_bytes(names):
    models, states, results = through_uplink(names)
    expected, left = by_bytes(names)
    np.testing.assert_array_equal(bits(models), bits(expected))
    np.testing.assert_array_equal(bits(states), bits(left))
    lengths = [message_bytes(name, SIZE, 0.1) + 4 * BUFFERS for name in names]
    assert results.sent_bytes.tolist() == lengths
    before, norms = cases(), expected[:, :SIZE].double().new_zeros(0)
    norms = (before[1] - before[0][np.arange(DEVICES) % EDGES])[:, :SIZE].double().norm(dim=1)
    usual = [0, 1, 4, 5, 7, 8, 9, 10, 11]  # the others' squares are beyond float32
    np.testing.assert_allclose(results.update_norm[usual], norms[usual], rtol=1e-5)
    rest = left[ROW].double().norm(dim=1)
    np.testing.assert_allclose(results.left_norm[usual], rest[usual], rtol=1e-5, atol=1e-30)


@pytest.mark.filterwarnings("default")  # the compiler's own
@pytest.mark.parametrize("way", ["eager", pytest.param("compiled", marks=pytest.mark.slow)])
def test_the_program_for_gpus_gives_the_same_bits(way):
    """Compiled for a processor here; `benchmarks/codecs.py` does the same on a GPU."""
    program = compiled_coding if way == "compiled" else (lambda tensors: receive_blocks)
    models, states, _ = through_uplink(LEVELS, program)
    expected, left = by_bytes(LEVELS)
    np.testing.assert_array_equal(bits(models), bits(expected))
    np.testing.assert_array_equal(bits(states), bits(left))


def test_several_threads_give_the_same_bits(monkeypatch):
    monkeypatch.setattr(sending, "HEAVY", 100)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        models, states, _ = through_uplink(LEVELS)
    finally:
        torch.set_num_threads(threads)
    expected, left = by_bytes(LEVELS)
    np.testing.assert_array_equal(bits(models), bits(expected))
    np.testing.assert_array_equal(bits(states), bits(left))


@pytest.mark.parametrize("name", ["int4", "float16"])
def test_a_model_that_is_not_finite_stays_so_and_its_device_forgets_nothing(name):
    for bad in (torch.nan, torch.inf, -torch.inf):
        starts, trained = torch.zeros(1, 5), torch.tensor([[1.0, 2.0, bad, 3.0, 9.0]])
        states = torch.tensor([[0.5, 0.0, 0.0, 0.0]])
        order = TrainingOrder(
            t=0,
            r=0,
            devices=np.array([0]),
            edge_of_device=np.array([0]),
            local_steps=np.array([1]),
            weight=np.ones(1),
            codec_state=states,
            state_row=np.array([0]),
        )
        results = DeviceResults.blank(order)
        uplink = Uplink(ErrorFeedback(name), 4, order, results)
        uplink.send(np.array([0]), starts, torch.tensor([0]), trained)
        uplink.settle()
        assert bool(trained[0, 2].isnan())
        assert trained[0, 4] == 9
        assert states.tolist() == [[0.5, 0.0, 0.0, 0.0]]
        assert results.sent_bytes.tolist() == [message_bytes(name, 4) + 4]
        assert not np.isfinite(results.update_norm[0])


def engines(upload: str):
    """Every engine with a codec, one device at a time, so that its bits are those without one."""
    scenario = small(f'learning.upload="{upload}"', 'learning.model="smooth-cnn"')
    world = SimulatedWorld(scenario, 0)
    setup = make_setup(world)
    given = (setup.model, setup.samples, setup.batches, scenario)
    yield "sequential", setup, setup.engine
    for form in FORMS:
        yield form, setup, make_stacked(*given, chunk=1, form=form)


def two_rounds(setup, engine, coded: bool):
    """What devices send and remember, in two edge rounds of one device at a time."""
    models = setup.first_model.repeat(setup.world.fleet.num_edges, 1)
    codec, size = setup.method.codec, setup.model.num_parameters
    order = order_of(setup)
    count = len(order.devices)
    states = first_states(codec, count, size, models)
    found = []
    for r in range(2):
        for n in range(0, count, 3):
            edge = int(order.edge_of_device[n])
            alone = TrainingOrder(
                t=0,
                r=r,
                devices=order.devices[n : n + 1],
                edge_of_device=order.edge_of_device[n : n + 1],
                local_steps=order.local_steps[n : n + 1],
                weight=np.ones(1),
            )
            if coded:
                alone = replace(alone, codec_state=states, state_row=np.array([n]))
                done = engine.train(models, alone)
                received, length = done.models[edge], int(done.devices.sent_bytes[0])
            else:
                trained = engine.train(models, alone).models[edge]
                message, states[n] = codec.encode(trained - models[edge], states[n])
                received, length = models[edge] + codec.decode(message), len(message)
            found.append((received, states[n].clone(), length))
    return found


@pytest.mark.parametrize("upload", ["int4", "top-k"])
def test_what_training_sends_is_what_its_messages_say(upload):
    """An engine without a codec trains the devices, and their messages are made here."""
    bare = {name: engine for name, _, engine in engines("none")}
    for name, setup, engine in engines(upload):
        expected = two_rounds(setup, bare[name], coded=False)
        for mine, other in zip(two_rounds(setup, engine, coded=True), expected, strict=True):
            np.testing.assert_array_equal(bits(mine[0]), bits(other[0]), err_msg=name)
            np.testing.assert_array_equal(bits(mine[1]), bits(other[1]), err_msg=name)
            assert mine[2] == other[2]
    assert make_codec(setup.world.scenario.learning).message_bytes(6090) == mine[2]
