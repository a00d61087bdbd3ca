"""What parties refuse: results, models and gossip that no other party sends, with the reason."""

from __future__ import annotations

import struct
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from support.parties import Parties, six, split

from fedrt.errors import InputError, MessageError
from fedrt.learning.remote import GossipOrder, LocalTrainer, ModelInputs
from fedrt.learning.remote.edge import EdgeModel
from fedrt.rounds import ACCEPTED, REASONS

WHO = [0, 1, 2]
NORMED = (
    "learning.model='support.trained:Normed'",
    "learning.model_bits=10176",
    "learning.model_buffers=9",
)
NAN = struct.pack("<f", nan)


def round_of(tmp_path, *settings):
    """One edge round up to the results: the parties, orders and results of the first server."""
    scenario = six(*settings)
    parties = Parties(split(tmp_path, scenario), scenario)
    edge = parties.edges[0]
    samples = [parties.devices[n].samples for n in WHO]
    orders = edge.orders(0, 0, WHO, [2, 2, 2], None, samples)
    results = {o.device: parties.devices[o.device].train(o, edge.model()) for o in orders}
    return parties, orders, results


def flipped(message, place):
    return message[:place] + bytes([message[place] ^ 4]) + message[place + 1 :]


WRONG = {
    "cut short": ((), lambda m: m[:-1], "has 2599 bytes: must have 2600"),
    "one number more": ((), lambda m: m + bytes(4), "has 2604 bytes: must have 2600"),
    "empty": ((), lambda m: b"", "has 0 bytes"),
    "not a number": ((), lambda m: m[:8] + NAN + m[12:], "not finite"),
    "int4: cut short": (("learning.upload=int4",), lambda m: m[:-1], "bytes: must have"),
    "int4: a flipped bit": (("learning.upload=int4",), lambda m: flipped(m, 99), "was damaged"),
    "int4: a flipped checksum": (("learning.upload=int4",), lambda m: flipped(m, 13), "damaged"),
    "int4: of int8": (
        ("learning.upload=int4",),
        lambda m: m[:3] + bytes([2]) + m[4:],
        "is one of codec int8: must be int4",
    ),
    "int4: of other numbers": (
        ("learning.upload=int4",),
        lambda m: m[:4] + struct.pack("<Q", 649) + m[12:],
        "is of 649 numbers: must be 650",
    ),
    "float32: a buffer that is none": (
        ("learning.upload=float32", *NORMED),
        lambda m: m[:-4] + NAN,
        "its buffers: has a number that is not finite",
    ),
    "a user's codec": (
        ("learning.upload='support.own_codecs:Half'",),
        lambda m: b"\xff\xff" * (len(m) // 2),
        "not finite",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_message_is_refused_with_its_reason_and_not_averaged(case, tmp_path):
    settings, spoil, reason = WRONG[case]
    parties, orders, results = round_of(tmp_path, *settings)
    bad = replace(results[1], message=spoil(results[1].message))
    edge, other = parties.edges[0], parties.edge(0)
    assert edge.problem(results[1], orders[1]) is None
    assert reason in edge.problem(bad, orders[1])
    found = edge.average(0, 0, orders, results | {1: bad})
    assert found.devices.tolist() == WHO
    assert found.counted.tolist() == [True, False, True]
    assert list(found.why) == [1]
    assert reason in found.why[1]
    finite = "not finite" in reason
    assert REASONS[found.refused[1]] == ("not finite" if finite else "wrong shape")
    # The others count as if it had not come, up to the rounding of their weights.
    fewer = {n: result for n, result in results.items() if n != 1}
    other.average(0, 0, orders, fewer)
    mine, wanted = (np.frombuffer(each.model(), dtype="<f4") for each in (edge, other))
    np.testing.assert_allclose(mine, wanted, rtol=1e-6, atol=1e-9)
    assert edge.model() != parties.edges[1].model()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"loss_sum": nan}, "diverged"),
        ({"largest": inf, "message": b""}, "diverged"),
        ({"update_norm": -1.0}, "below 0"),
        ({"variate": bytes(2600)}, "a variate comes with a correction"),
    ],
)
def test_wrong_numbers_beside_a_message_are_refused(changes, reason, tmp_path):
    parties, orders, results = round_of(tmp_path)
    assert reason in parties.edges[0].problem(replace(results[0], **changes), orders[0])


@pytest.mark.parametrize("variate", [None, bytes(4), NAN * 650])
def test_with_scaffold_a_result_needs_its_variate(variate, tmp_path):
    parties, orders, results = round_of(tmp_path, "learning.scaffold=true", "learning.momentum=0")
    edge = parties.edges[0]
    assert edge.problem(results[0], orders[0]) is None
    assert edge.problem(replace(results[0], variate=variate), orders[0]) is not None


def test_a_server_that_refuses_all_keeps_its_model(tmp_path):
    settings = "learning.server_optimiser={kind='fedavgm',learning_rate=0.5,momentum=0.8}"
    parties, orders, results = round_of(tmp_path, settings)
    edge = parties.edges[0]
    before = edge.model()
    found = edge.average(0, 0, orders, {n: replace(results[n], message=b"") for n in WHO})
    assert edge.model() == before
    assert (found.refused != ACCEPTED).all()
    assert len(edge.average(0, 1, orders, {}).devices) == 0
    assert edge.model() == before


def test_orders_are_for_a_servers_own_devices_and_of_one_round(tmp_path):
    parties, orders, results = round_of(tmp_path)
    with pytest.raises(InputError, match="not its own"):
        parties.edges[0].orders(0, 0, [2, 3], [1, 1], None, [1, 1])
    with pytest.raises(InputError, match="another round"):
        parties.edges[0].average(0, 1, orders, results)


def test_a_device_refuses_a_model_and_a_correction_that_do_not_fit(tmp_path):
    parties, orders, _ = round_of(tmp_path)
    device, model = parties.devices[0], parties.edges[0].model()
    for wrong in (model[:-4], NAN + model[4:], b""):
        with pytest.raises(MessageError, match="the model"):
            device.train(orders[0], wrong)
    with pytest.raises(MessageError, match="the correction"):
        device.train(replace(orders[0], correction=model[4:]), model)


def test_diverged_training_sends_nothing_and_keeps_what_was_left(tmp_path):
    parties, orders, _ = round_of(
        tmp_path, "learning.model='support.trained:Brittle'", "learning.learning_rate=1000"
    )
    device = parties.devices[0]
    model = parties.edges[0].model()
    result = device.train(replace(orders[0], local_steps=9), model)
    assert result.message == b""
    assert "diverged" in parties.edges[0].problem(result, orders[0])


def test_only_a_message_that_arrived_settles_what_it_left_out(tmp_path):
    parties, orders, results = round_of(tmp_path, "learning.upload=int4")
    device, model = parties.devices[0], parties.edges[0].model()
    again = device.train(orders[0], model)
    assert again.message == results[0].message
    device.settle(False)
    assert device.state() == {}
    assert device.train(orders[0], model).message == results[0].message
    device.settle(True)
    assert set(device.state()) == {"left"}
    assert device.train(orders[0], model).message != results[0].message
    device.settle(False)
    device.settle(True)
    left = device.state()["left"]
    assert np.linalg.norm(left) == pytest.approx(results[0].left_norm, rel=1e-6)
    device.restore({"left": left[:-1]})
    with pytest.raises(InputError, match="left is"):
        device.train(orders[0], model)
    with pytest.raises(InputError, match="finite numbers"):
        device.restore({"left": left * nan})


def gossiping(tmp_path, codec):
    scenario = six(*NORMED)
    parties = Parties(split(tmp_path, scenario), scenario)
    for edge in parties.edges:
        edge.begin(GossipOrder(0, 0.5, (1 - edge.edge,), (0.5,), 1, codec))
    return parties.edges


@pytest.mark.parametrize("codec", ["none", "int8"])
def test_a_wrong_message_of_a_neighbour_changes_nothing(codec, tmp_path):
    edge, other = gossiping(tmp_path, codec)
    good = other.message_to(0, 0)
    assert edge.gossip_problem(good) is None
    before = {name: array.copy() for name, array in edge.state().items()}
    wrongs = [good[:-1], good[:-4] + NAN, b"", good + bytes(1)]
    wrongs += [flipped(good, 50)] if codec == "int8" else []
    for wrong in wrongs:
        assert edge.gossip_problem(wrong) is not None
        with pytest.raises(MessageError):
            edge.receive(0, {1: wrong})
    with pytest.raises(InputError, match="no message of server 1"):
        edge.receive(0, {})
    with pytest.raises(InputError, match="is at gossip step 0"):
        edge.receive(1, {1: good})
    with pytest.raises(InputError, match="is at gossip step 0 of 1"):
        edge.end()
    after = edge.state()
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    edge.receive(0, {1: good})
    edge.end()
    # What a neighbour that is behind still needs is there.
    other.receive(0, {0: edge.message_to(1, 0)})
    with pytest.raises(InputError, match="no neighbour"):
        edge.message_to(3, 0)


def test_a_gossip_goes_on_when_it_is_ordered_again_and_ends_once(tmp_path):
    edge, other = gossiping(tmp_path, "int8")
    order = edge.gossip.order
    edge.held.models = edge.held.models + 1
    with pytest.raises(InputError, match="the gossip of round 0 goes on"):
        edge.begin(replace(order, t=1))
    edge.receive(0, {1: other.message_to(0, 0)})
    edge.begin(order)
    assert edge.gossip.step == 1
    edge.end()
    mixed = edge.model()
    edge.held.models = edge.held.models + 1
    edge.end()
    edge.begin(order)
    edge.abandon()
    assert edge.model() != mixed


WRONG_ORDERS = [
    {"neighbours": (0,)},
    {"neighbours": (2, 1), "weights": (0.2, 0.2), "coded_weights": (0.2, 0.2)},
    {"weights": (0.1, 0.2)},
    {"weights": (nan,)},
    {"steps": -1},
    {"codec": "top-k"},
]


@pytest.mark.parametrize("changes", WRONG_ORDERS)
def test_a_gossip_that_nobody_orders_does_not_begin(changes, tmp_path):
    scenario = six()
    edge = Parties(split(tmp_path, scenario), scenario).edges[0]
    good = GossipOrder(0, 0.5, (1,), (0.5,), 1)
    with pytest.raises(InputError, match="edge 0: a gossip with"):
        edge.begin(replace(good, **changes))
    edge.begin(good)


def test_after_an_abandoned_gossip_servers_know_the_same_of_each_other(tmp_path):
    edges = gossiping(tmp_path, "int4")
    edges[0].held.models = edges[0].held.models + 0.1
    one, two = edges
    for edge, j in ((one, 1), (two, 0)):
        edge.gossip.order = None
        edge.begin(GossipOrder(0, 0.5, (j,), (0.5,), 2, "int4"))
    # One of them has made a step of which the other has not heard.
    before = two.model()
    one.receive(0, {1: two.message_to(0, 0)})
    one.abandon()
    two.abandon()
    assert two.model() == before
    for edge, j in ((one, 1), (two, 0)):
        edge.begin(GossipOrder(1, 0.5, (j,), (0.5,), 6, "int4"))
    for step in range(6):
        sent = two.message_to(0, step), one.message_to(1, step)
        one.receive(step, {1: sent[0]})
        two.receive(step, {0: sent[1]})
    known = [
        {
            tuple(pair): row
            for pair, row in zip(
                e.gossip.copies.pairs.tolist(), e.gossip.copies.held.numpy(), strict=True
            )
        }
        for e in edges
    ]
    for pair, row in known[0].items():
        np.testing.assert_array_equal(known[1][pair], row)
    apart = one.distance_to(two.model())
    one.end()
    two.end()
    assert one.distance_to(two.model()) < 0.1 * apart


def test_no_round_is_averaged_twice(tmp_path):
    parties, orders, results = round_of(tmp_path)
    edge = parties.edges[0]
    edge.average(0, 0, orders, results)
    after, again = edge.model(), parties.edge(0)
    again.restore(edge.state())
    for each in (edge, again):
        with pytest.raises(InputError, match=r"round \(0, 0\): has averaged \(0, 0\)"):
            each.average(0, 0, orders, results)
        assert each.model() == after


def test_orders_that_no_edge_server_gives_are_refused(tmp_path):
    parties, orders, _ = round_of(tmp_path)
    model = parties.edges[0].model()
    for changes in ({"local_steps": -1}, {"t": -1}, {"local_steps": 10**7}, {"codec": "zip"}):
        with pytest.raises(MessageError, match="an order"):
            parties.devices[0].train(replace(orders[0], **changes), model)


@pytest.mark.parametrize("upload", ["none", "int4", "top-k", "float16"])
def test_whatever_bytes_come_there_is_a_reason_or_a_finite_model(upload, tmp_path):
    parties, orders, results = round_of(tmp_path, f"learning.upload={upload}", *NORMED)
    edge, good = parties.edges[0], results[0].message
    rng, reasons = np.random.default_rng(5), set()
    for _ in range(400):
        raw = np.frombuffer(good, dtype=np.uint8).copy()
        match rng.integers(3):
            case 0:
                raw = raw[: rng.integers(len(raw))]
            case 1:
                place = rng.integers(len(raw), size=rng.integers(1, 9))
                raw[place] = rng.integers(256, size=len(place))
            case _:
                raw = rng.integers(256, size=rng.integers(2 * len(raw)), dtype=np.uint8)
        sent = replace(results[0], message=raw.tobytes())
        reason = edge.problem(sent, orders[0])
        reasons.add(reason)
        if reason is None:
            # Numbers that go as they are may be others; the message is one all the same.
            assert len(sent.message) == len(good)
    assert len(reasons) > 10


def test_files_and_states_of_others_are_refused(tmp_path):
    scenario = six()
    split(tmp_path, scenario)
    file = tmp_path / "device-1.npz"
    with pytest.raises(InputError, match="is the file of device 1: must be that of device 2"):
        LocalTrainer.open(scenario, 0, 2, file)
    with pytest.raises(InputError, match="was split with seed 0: the run's is 3"):
        LocalTrainer.open(scenario, 3, 1, file)
    with pytest.raises(InputError, match="mean and deviation"):
        LocalTrainer.open(six("learning.normalise=true"), 0, 1, file)
    with pytest.raises(InputError, match="the run's are"):
        LocalTrainer.open(scenario, 0, 1, file, ModelInputs((1, 8, 8), 11))
    with pytest.raises(InputError, match="no model takes them"):
        EdgeModel.open(scenario, 0, 1, ModelInputs((1, -8, 8), 10))
    with pytest.raises(InputError, match="edge 2: must be below"):
        EdgeModel.open(scenario, 0, 2, ModelInputs((1, 8, 8), 10))
    edge = EdgeModel.open(scenario, 0, 1, ModelInputs((1, 8, 8), 10))
    with pytest.raises(InputError, match="models are"):
        edge.restore({"models": np.zeros((1, 3))})
