"""Update codecs: what reaches the servers, what devices remember, the same in every engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.learning_cases import small
from support.own_codecs import Half, StackedHalf
from support.own_parts import ENGINES, order_of, set_up
from support.paths import EXAMPLES
from support.watched import replay

from fedrt.errors import InputError
from fedrt.learning.codecs import first_states, make_codec, send_own
from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import make_policy
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

OWN = 'learning.upload={kind="own_codec:TopK",share=0.05}'
STACKED = 'learning.upload="support.own_codecs:StackedHalf"'
SHIPPED = [f'learning.upload="{name}"' for name in ("float16", "int4", "top-k")]


@pytest.fixture(autouse=True)
def examples_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


def two_rounds(engine: str, *given: str):
    """Models, states and lengths of messages after two edge rounds; device 0 then moves away."""
    setup = set_up(engine, *given)
    try:
        size, fleet = setup.model.num_parameters, setup.world.fleet
        models, results = setup.first_model.repeat(fleet.num_edges, 1), []
        state = first_states(setup.method.codec, fleet.num_devices, size, models)
        order = replace(order_of(setup), codec_state=state, state_row=np.arange(fleet.num_devices))
        for r in range(2):
            moved = np.sort(np.roll(order.edge_of_device, -r))
            order = replace(order, r=r, edge_of_device=moved)
            done = setup.engine.train(models, order)
            models = done.models
            results.append(done.devices)
        return models - setup.first_model, state, [each.sent_bytes for each in results]
    finally:
        setup.close()


def by_hand(*given: str):
    """The same from single devices' models without a codec, and the codec called here."""
    bare, coded = set_up("sequential"), set_up("sequential", *given)
    codec, size, fleet = coded.method.codec, bare.model.num_parameters, bare.world.fleet
    models = bare.first_model.repeat(fleet.num_edges, 1)
    state, lengths = first_states(codec, fleet.num_devices, size, models), []
    order = order_of(bare)
    for r in range(2):
        order = replace(order, r=r, edge_of_device=np.sort(np.roll(order.edge_of_device, -r)))
        sums, sent = torch.zeros_like(models), []
        for n, edge in enumerate(order.edge_of_device.tolist()):
            fields = ("devices", "edge_of_device", "local_steps")
            alone = replace(
                order, weight=np.ones(1), **{f: getattr(order, f)[n : n + 1] for f in fields}
            )
            trained = bare.engine.train(models, alone).models[edge]
            held = None if state is None else state[n]
            message, after = codec.encode(trained - models[edge], held)
            if state is not None:
                state[n] = after
            sums[edge] += order.weight[n] * (models[edge] + codec.decode(message).double())
            sent.append(len(message))
        models, _ = sums, lengths.append(np.array(sent))
    return models - bare.first_model, state, lengths


@pytest.fixture(scope="module")
def wanted():
    found: dict[str, tuple] = {}

    def find(text: str):
        return found.setdefault(text, by_hand(text)) if text not in found else found[text]

    return find


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "text", [OWN, STACKED, *SHIPPED, 'learning.upload="support.own_codecs:Half"']
)
def test_every_engine_sends_what_a_codec_makes_of_updates(engine, text, wanted, record_property):
    """A message holds float32 or float16: where that rounds, engines may differ by its last bit."""
    models, state, lengths = two_rounds(engine, text)
    expected, remembered, sizes = wanted(text)
    worst = float((models - expected).norm() / expected.norm())
    record_property("oracle", {f"worst {text}, {engine} against codec by hand": worst})
    assert worst <= 1e-5
    for found, size in zip(lengths, sizes, strict=True):
        np.testing.assert_array_equal(found, size)
    assert (state is None) == (remembered is None)
    if state is not None:
        np.testing.assert_allclose(state, remembered, atol=1e-6)


def test_the_own_codec_sends_the_greatest_and_keeps_the_rest():
    codec = make_codec(small(OWN.replace("0.05", "0.4")).learning)
    message, left = codec.encode(torch.tensor([1.0, -5, 2, 0, 3]), torch.tensor([0, 0, 4.0, 0, 0]))
    assert codec.decode(message).tolist() == [0, -5, 6, 0, 0]
    assert left.tolist() == [1, 0, 0, 0, 3]
    assert len(message) == 8 + 2 * 12


def test_buffers_are_sent_as_they_are_and_what_is_not_finite_too():
    """Three numbers, two of them parameters. A model that is not finite leaves the state alone."""
    starts = torch.tensor([[1.0, 1, 7], [1, 1, 7], [1, 1, 7]])
    trained = torch.tensor([[3.0, 5, 9], [torch.nan, 1, 7], [1, 1, 8]])
    sent = send_own(Half(), starts, trained, None, 2)
    np.testing.assert_array_equal(sent.rows, [[2, 3, 9], [np.nan, 1, 7], [1, 1, 8]])
    assert sent.states is None
    counted = send_own(StackedHalf(), starts, trained, torch.tensor([[5.0], [6.0], [7.0]]), 2)
    np.testing.assert_array_equal(counted.rows, sent.rows)
    assert counted.states.tolist() == [[6], [6], [8]]
    nothing = send_own(Half(), starts[1:2], trained[1:2], None, 2)
    np.testing.assert_array_equal(nothing.rows, trained[1:2])


def test_what_devices_remember_is_part_of_a_run():
    """A trainer that takes over a saved state goes on to the same bits, messages included."""
    scenario = small(OWN, 'learning.model="smooth-cnn"')
    trainer = Trainer(make_setup(SimulatedWorld(scenario, 0)))
    rounds = list(simulate_rounds(trainer.setup.world, make_policy("fedrt"), trainer))
    first = Trainer(trainer.setup)
    replay(first, rounds[:2])
    saved = {name: array.copy() for name, array in first.state().items()}
    assert saved["codec_state"].any()
    again = Trainer(trainer.setup)
    assert {k: v.shape for k, v in again.state().items()} == {k: v.shape for k, v in saved.items()}
    again.restore(saved)
    replay(again, rounds[2:])
    assert torch.equal(again.models, trainer.models)
    assert torch.equal(again.codec_state, trainer.codec_state)
    forgetful = Trainer(trainer.setup)
    forgetful.restore({**saved, "codec_state": 0 * saved["codec_state"]})
    replay(forgetful, rounds[2:])
    assert not torch.equal(forgetful.models, trainer.models)


FAILURES = {
    "raises": "no message (own_codecs.py, line ",
    "bytes": "encode must return (bytes, state)",
    "state": "encode must return as state a tensor shaped as it came",
    "from nothing": "encode must return as state None, as there is no init",
    "cut": "buffer length",
    "shape": "decode must give updates of shape (6090,), not (6089,)",
    "init": "init must return a tensor",
    "length": "a message has 12180 bytes: must have the 6090 of message_bytes(6090)",
    "no length": "message_bytes must return a whole number >= 0, not 'long'",
    "stacked": "encode_stacked must return (decoded, lengths, states)",
    "stacked shape": ", 6090), not (",
    "stacked state": "encode_stacked must return as state a tensor shaped as it came",
    "stacked lengths": "encode_stacked must return a length for each device",
}


@pytest.mark.parametrize("how", FAILURES)
def test_one_that_fails_ends_in_one_line(how):
    with pytest.raises(InputError) as error:
        two_rounds("stacked", f'learning.upload={{kind="support.own_codecs:Broken",how="{how}"}}')
    (line,) = str(error.value).splitlines()
    assert line.startswith("scenario.learning.upload = 'support.own_codecs:Broken': ")
    assert FAILURES[how] in line


def test_a_scenario_knows_their_names():
    assert make_codec(small().learning) is None
    with pytest.raises(
        InputError, match=r"one of none, float32, .*, top-k, or an import path, package:Name"
    ):
        small('learning.upload="zip"')


@pytest.mark.parametrize("text", [OWN, 'learning.upload="int4"'])
def test_processes_share_what_devices_remember(text):
    """Two trainers of one engine: the first one's states lie where the processes see them."""
    setup = set_up("workers", text)
    try:
        first, second = Trainer(setup), Trainer(setup)
        rounds = list(simulate_rounds(setup.world, make_policy("fedrt"), second))
        replay(first, rounds[:1])
        third = Trainer(setup)
        replay(third, rounds)
        replay(first, rounds[1:])
        assert torch.equal(first.models, second.models)
        assert torch.equal(third.codec_state, second.codec_state)
        assert bool(first.codec_state.any())
        assert torch.equal(first.codec_state, second.codec_state)
        assert setup.engine.states.tensor is first.codec_state
    finally:
        setup.close()


def test_trainers_that_share_their_results_each_have_their_own_states():
    """What one has remembered is not changed when the other one goes on."""
    shared: dict = {}
    setup = set_up("sequential", 'learning.upload="int3"')
    one, two = Trainer(setup, shared), Trainer(setup, shared)
    rounds = list(simulate_rounds(setup.world, make_policy("fedrt"), one))
    replay(two, rounds)
    alone = Trainer(setup)
    replay(alone, rounds)
    for trainer in (one, two):
        assert torch.equal(trainer.models, alone.models)
        assert torch.equal(trainer.codec_state, alone.codec_state)


def test_a_device_that_falls_silent_remembers_what_it_did_before():
    settings = ('learning.upload="int4"', 'faults.silent={kind="random",probability=0.4}')
    trainer = Trainer(set_up("sequential", *settings))
    lost = 0
    before = trainer.codec_state.clone()
    for done in simulate_rounds(trainer.setup.world, make_policy("fedrt"), trainer):
        came = np.zeros(len(before), dtype=bool)
        for turn in done.edge_rounds:
            came[turn.seen.device[turn.outcome.delivered]] = True
        same = (trainer.codec_state == before).all(1).numpy()
        np.testing.assert_array_equal(same, ~came)
        lost += int(same.sum())
        before = trainer.codec_state.clone()
    assert lost
