"""The chain of updates: by hand, in every engine, in the orders that it allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.learning_cases import small
from support.own_parts import ENGINES, order_of, set_up

from fedrt.errors import InputError
from fedrt.learning.codecs import ErrorFeedback
from fedrt.learning.engines.engine import DeviceResults, TrainingOrder
from fedrt.learning.engines.sending import Uplink
from fedrt.learning.transforms import Chain, Clip, GaussianNoise, UpdateKey
from fedrt.messages import message_bytes
from fedrt.seeding import stream

pytestmark = pytest.mark.numerical

CLIP = "{kind='clip',max_norm=0.05}"
NOISE = "{kind='noise',sigma=0.01}"
CHAINS = {
    "clip, int4": f"learning.update=[{CLIP},'int4']",
    "noise, clip, float16": f"learning.update=[{NOISE},{CLIP},'float16']",
    "clip, noise": f"learning.update=[{CLIP},{NOISE}]",
    "a user's, with a state, and int8": "learning.update=['support.own_transforms:Late','int8']",
    "a user's with a mirror, and a user's codec": (
        f"learning.update=['support.own_transforms:Late',{CLIP},'support.own_transforms:Hidden',"
        "'support.own_codecs:Half']"
    ),
}
KEY = UpdateKey(7, 3, 1, 5)


def two_rounds(engine: str, *given: str):
    """Models and what devices remember after two edge rounds; device 0 then moves away."""
    setup = set_up(engine, *given)
    try:
        size, fleet = setup.model.num_parameters, setup.world.fleet
        models = setup.first_model.repeat(fleet.num_edges, 1)
        method, count = setup.method, fleet.num_devices
        state = method.chain.first_states(method.codec, count, size, models)
        row = np.arange(count)
        order = replace(order_of(setup), codec_state=state, state_row=row, seed=3)
        for r in range(2):
            moved = np.sort(np.roll(order.edge_of_device, -r))
            order = replace(order, r=r, edge_of_device=moved)
            models = setup.engine.train(models, order).models
        return models - setup.first_model, state
    finally:
        setup.close()


def by_hand(*given: str):
    """The same from single devices' models without a chain; the parts are called here."""
    bare, setup = set_up("sequential"), set_up("sequential", *given)
    size, fleet, method = bare.model.num_parameters, bare.world.fleet, setup.method
    models = bare.first_model.repeat(fleet.num_edges, 1)
    order, memory = replace(order_of(bare), seed=3), {}
    for r in range(2):
        order = replace(order, r=r, edge_of_device=np.sort(np.roll(order.edge_of_device, -r)))
        sums = torch.zeros_like(models)
        for n, edge in enumerate(order.edge_of_device.tolist()):
            fields = ("devices", "edge_of_device", "local_steps")
            alone = replace(
                order, weight=np.ones(1), **{f: getattr(order, f)[n : n + 1] for f in fields}
            )
            trained = bare.engine.train(models, alone).models[edge]
            update, key = trained - models[edge], UpdateKey(3, order.t, r, int(order.devices[n]))
            for i, part in enumerate(method.chain.transforms):
                state = memory.get((n, i), torch.zeros(size)) if hasattr(part, "init") else None
                update, memory[n, i] = part.apply(update, state, key)
            if method.codec is not None:
                held = None
                if isinstance(method.codec, ErrorFeedback):
                    held = memory.get((n, "codec"), torch.zeros(size))
                message, memory[n, "codec"] = method.codec.encode(update, held)
                update = method.codec.decode(message).to(update)
            for part in reversed(method.chain.transforms):
                update = part.receive(update, key) if hasattr(part, "receive") else update
            sums[edge] += order.weight[n] * (models[edge] + update.double())
        models = sums
    return models - bare.first_model


@pytest.fixture(scope="module")
def wanted():
    return {name: by_hand(text) for name, text in CHAINS.items()}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CHAINS)
def test_every_engine_sends_what_a_chain_makes_of_updates(engine, name, wanted, record_property):
    """Messages hold few digits: where these round, engines may differ by the last of them."""
    models, _ = two_rounds(engine, CHAINS[name])
    expected = wanted[name]
    worst = float((models - expected).norm() / expected.norm())
    record_property("oracle", {f"worst {name}, {engine} against parts by hand": worst})
    assert worst <= 1e-5


def test_one_codec_in_a_chain_is_the_same_as_upload():
    one, two = (two_rounds("stacked", text) for text in ("learning.upload=int4", UPDATE_INT4))
    assert torch.equal(one[0], two[0])
    assert torch.equal(one[1], two[1])


UPDATE_INT4 = "learning.update=['int4']"


def test_clip_by_hand():
    """A norm of 5 becomes 2: 3, 4 become 1.2, 1.6. Shorter ones stay to the bit."""
    long, short = torch.tensor([3.0, 4.0]), torch.tensor([0.3, 0.4])
    clipped, state = Clip(2.0).apply(long, None, KEY)
    assert state is None
    assert clipped.tolist() == pytest.approx([1.2, 1.6], rel=1e-7)
    assert Clip(2.0).apply(short, None, KEY)[0] is short


def test_noise_follows_from_the_key():
    zeros = torch.zeros(6, dtype=torch.float64)
    drawn = stream(7, "update noise", 3, 1, 5).standard_normal(6)
    first = GaussianNoise(sigma=0.5).apply(zeros, None, KEY)[0]
    np.testing.assert_array_equal(first, 0.5 * drawn)
    for other in (
        KEY._replace(seed=8),
        KEY._replace(t=4),
        KEY._replace(r=0),
        KEY._replace(device=6),
    ):
        assert not torch.equal(GaussianNoise(sigma=0.5).apply(zeros, None, other)[0], first)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_a_clip_cuts_off_does_not_come_back(dtype):
    """What is left is the clipped update less what its message decodes to, and nothing else."""
    size, codec = 300, ErrorFeedback("int3")
    starts = torch.linspace(-1, 1, size, dtype=dtype)[None]
    update = 5 * torch.sin(torch.arange(size, dtype=dtype))
    order = TrainingOrder(
        t=0,
        r=0,
        devices=np.array([5]),
        edge_of_device=np.array([0]),
        local_steps=np.ones(1, dtype=int),
        weight=np.ones(1),
        codec_state=torch.zeros(1, size, dtype=dtype),
        state_row=np.array([0]),
    )
    results, state = DeviceResults.blank(order), (starts[0] + update).clone()
    Uplink(codec, size, order, results, chain=Chain((Clip(2.0),))).send_one(0, starts, 0, state)
    moved = state + 0 - starts[0]
    changed = starts[0] + update - starts[0]
    clipped = Clip(2.0).apply(changed, None, KEY)[0]
    message, left = codec.encode(clipped, torch.zeros(size, dtype=dtype))
    assert torch.equal(order.codec_state[0], left.to(dtype))
    assert float(left.norm()) < 0.5 * 2.0
    assert torch.allclose(moved, codec.decode(message).to(dtype), atol=1e-6)
    assert results.update_norm[0] == pytest.approx(2.0, rel=1e-6)
    assert results.sent_bytes[0] == message_bytes("int3", size)


REFUSED = {
    "learning.update=['int4','clip']": (
        r'update\[1\] = "clip": must be before "int4": it takes an update, and that gives a message'
    ),
    f"learning.update=['int4',{NOISE},'none']": r'update\[1\] = "noise": must be before "int4"',
    "learning.update=['int4','int8']": r'update\[1\] = "int8": must be before "int4"',
    "learning.update=['clip','clip','int4']": r'update\[1\] = "clip": must be there once',
    "learning.update=['clop']": r'update\[0\] = "clop": must be one of clip, noise, none, float32',
    "learning.update=['noise']": r"update\[0\]\.sigma: missing",
    "learning.update=[{kind='clip',max_norm=0}]": r"update\[0\]\.max_norm = 0: must be",
    "learning.update=[]": r"learning\.update",
}


@pytest.mark.parametrize("text", REFUSED)
def test_other_orders_are_refused_in_one_line(text):
    with pytest.raises(InputError, match=REFUSED[text]) as error:
        small(text)
    assert len(str(error.value).splitlines()) <= 2


def test_upload_and_update_in_one_place_are_one_error():
    with pytest.raises(InputError, match=r"^scenario.learning.update: give it or upload, not both"):
        small().with_(learning={"upload": "int4", "update": ["clip", "int4"]})
    over = small('learning.upload="int4"', "learning.update=['clip','int8']").learning
    assert (over.upload, over.codec, over.transforms) == (None, "int8", (Clip(),))
    with pytest.raises(InputError, match=r"^scenario.learning.update: must be without scaffold"):
        small("learning.update=['clip']", "learning.scaffold=true", "learning.momentum=0")


FAILURES = {
    "raises": "ValueError: no",
    "shape": "apply must return (update, state)",
    "alone": "apply must return (update, state)",
    "init": "init must return a vector",
    "state": "apply must return as state",
    "from nothing": "apply must return as state",
    "receive": "receive must return an update",
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_users_that_fails_ends_in_one_line(how):
    broken = f"{{kind='support.own_transforms:Broken',how='{how}'}}"
    with pytest.raises(InputError) as error:
        two_rounds("sequential", f"learning.update=[{broken},'int4']")
    (line,) = str(error.value).splitlines()
    assert line.startswith("scenario.learning.update = 'support.own_transforms:Broken': ")
    assert FAILURES[how] in line


def test_a_users_codec_must_be_last():
    with pytest.raises(InputError, match=r'Half": must be something with the methods apply'):
        two_rounds("sequential", "learning.update=['support.own_codecs:Half','int4']")
