"""The guard: devices whose messages leave too much out get more bits, and a run says so."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.learning_cases import small
from support.trained import trained
from support.watched import replay

from fedrt.errors import InputError
from fedrt.learning.codecs import guard as guards
from fedrt.learning.codecs.guard import Guard
from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.messages import LADDER, left_limit, message_bytes
from fedrt.policies import make_policy
from fedrt.records.records import BadRecordError, RunSize, packed, unpacked
from fedrt.records.summary import Account
from fedrt.report.learning import step_up_words
from fedrt.rounds import NOT_STEPPED
from fedrt.runs.executor import SimulatedExecutor
from fedrt.runs.loop import run_rounds, simulate_rounds
from fedrt.world.simulated import SimulatedWorld

DEVICES = np.array([3, 1])


def told(guard: Guard, names: list[str], left: list[float], update=(1.0, 1.0)) -> list[int]:
    return guard.after(DEVICES, names, np.array(update), np.array(left)).tolist()


def test_the_limit_is_that_of_the_distortion_and_at_least_an_update():
    """0.653 of a squared norm is left under int2: sqrt = 0.8081, over 1 - 0.8081: 4.211."""
    assert left_limit("int2") == pytest.approx(0.80808 / 0.19192, rel=1e-3)
    assert {left_limit(name) for name in LADDER[1:]} == {1.0}
    d = 0.2
    left, root = 0.0, math.sqrt(d)
    for _ in range(100):
        left = root * (1 + left)
    assert left == pytest.approx(root / (1 - root))  # what error feedback approaches


def test_a_device_is_stepped_up_when_its_mean_is_beyond_the_limit():
    """The newest message counts a fifth: 1, then 1 + (9 - 1) / 5 = 2.6, 3.88 and 4.904."""
    guard = Guard(5)
    assert told(guard, ["int2", "int2"], [1.0, 1.0]) == [NOT_STEPPED] * 2
    for expected in (2.6, 3.88):
        assert told(guard, ["int2", "int2"], [9.0, 0.5]) == [NOT_STEPPED] * 2
        assert guard.mean[3] == pytest.approx(expected)
    assert told(guard, ["int2", "int2"], [9.0, 0.5]) == [1, NOT_STEPPED]
    assert guard.least.tolist() == [0, 0, 0, 1, 0]
    assert math.isnan(guard.mean[3])
    assert guard.allowed(DEVICES, ["int2", "int2"], 1000) == ["int3", "int2"]
    assert guard.allowed(DEVICES, ["int4", "top-k"], 1000) == ["int4", "top-k"]
    assert told(guard, ["int3", "int2"], [1.5, 0.5]) == [2, NOT_STEPPED]
    assert guard.allowed(DEVICES, ["int2", "float16"], 1000) == ["int4", "float16"]


def test_a_greater_codec_that_leaves_too_much_is_stepped_up_from_there():
    guard = Guard(5)
    assert told(guard, ["int6", "float16"], [2.0, 5.0]) == [LADDER.index("int8"), NOT_STEPPED]
    assert told(guard, ["top-k", "float32"], [9.0, 9.0]) == [NOT_STEPPED] * 2


def test_what_says_nothing_is_not_counted():
    guard = Guard(5)
    norms = [(0.0, np.nan), (np.inf, np.nan)]
    for update in norms:
        assert told(guard, ["int2", "int2"], [9.0, 9.0], update) == [NOT_STEPPED] * 2
    assert np.isnan(guard.mean).all()


def test_a_guard_comes_back_from_its_state():
    guard, again = Guard(5), Guard(5)
    told(guard, ["int3", "int2"], [3.0, 0.5])
    again.restore({"guard": guard.state()})
    np.testing.assert_array_equal(again.state(), guard.state())
    assert again.least.dtype == np.int64
    again.restore({})
    np.testing.assert_array_equal(again.state(), guard.state())


@pytest.fixture
def strict(monkeypatch):
    """A limit that digits under int2 do not keep, and int3 does."""
    monkeypatch.setattr(guards, "LIMITS", np.full(len(LADDER), 0.7))


SETTINGS = ("learning.upload=int2", "learning.model='smooth-cnn'", "rounds.global_rounds=4")


def test_a_run_steps_up_records_it_and_goes_on_to_the_same_bits(strict):
    scenario = small(*SETTINGS)
    trainer = Trainer(make_setup(SimulatedWorld(scenario, 0)))
    world, policy = trainer.setup.world, make_policy("fedrt")
    rounds, account = [], Account(world, policy)
    for done in simulate_rounds(world, policy, trainer):
        rounds.append(done)
        account.add(done)
    turns = [turn for done in rounds for turn in done.edge_rounds]
    least = np.zeros(world.fleet.num_devices, dtype=int)
    size = trainer.setup.model.num_parameters
    for turn in turns:
        lengths = [message_bytes(LADDER[step], size) for step in least[turn.seen.device]]
        np.testing.assert_array_equal(turn.cost.upload_bytes, lengths)
        steps = turn.outcome.stepped_up
        if steps is not None:
            up = steps != NOT_STEPPED
            least[turn.seen.device[up]] = steps[up]
    assert least.max() >= 1
    found = account.summary()["stepped_up"]
    assert found["count"] == least.sum()
    first = found["named"][0]
    assert (first["from"], first["to"]) == ("int2", "int3")
    assert f"device {first['device']} in round {first['global_round'] + 1}." in step_up_words(found)
    for t, done in enumerate(rounds):
        back = unpacked(packed(done.edge_rounds), RunSize.of(scenario), t)
        for one, other in zip(back, done.edge_rounds, strict=True):
            np.testing.assert_array_equal(one.outcome.stepped_up, other.outcome.stepped_up)
    arrays = packed(turns[:2])
    (name, *_) = [name for name in arrays if "stepped_up" in name]
    arrays[name] = arrays[name] + len(LADDER)
    with pytest.raises(BadRecordError, match="stepped up to no codec"):
        unpacked(arrays, RunSize.of(scenario), 0)
    for stop in (1, 2):
        half, again = Trainer(trainer.setup), Trainer(trainer.setup)
        replay(half, rounds[:stop])
        again.restore(half.state())
        replay(again, rounds[stop:])
        assert torch.equal(again.models, trainer.models)
        np.testing.assert_array_equal(again.guard.state(), trainer.guard.state())


def test_without_a_shipped_codec_there_is_no_guard():
    trainer = Trainer(make_setup(SimulatedWorld(trained(), 0)))
    assert trainer.guard is None
    assert trainer.state().keys() == {"models"}


def test_what_devices_send_is_charged_from_the_next_edge_round_on(strict):
    """Times and bytes of the plans are those of the codecs that devices were stepped up to."""
    scenario = small(*SETTINGS)
    trainer = Trainer(make_setup(SimulatedWorld(scenario, 0)))
    rounds = list(simulate_rounds(trainer.setup.world, make_policy("fedrt-plus"), trainer))
    turns = [turn for done in rounds for turn in done.edge_rounds]
    for turn in turns:
        np.testing.assert_array_equal(turn.cost.upload_bytes, turn.outcome.planned.upload_bytes)
        np.testing.assert_array_equal(turn.cost.upload_bytes, turn.seen.upload_bits / 8)
    assert turns[0].seen.least_bits is None
    up = rounds[-1].state.least.step
    np.testing.assert_array_equal(up, trainer.guard.least)
    assert up.any()
    past = [
        unpacked(packed(done.edge_rounds), RunSize.of(scenario), t) for t, done in enumerate(rounds)
    ]
    resumed = Trainer(trainer.setup)
    world = trainer.setup.world
    executor = SimulatedExecutor(world, resumed)
    replay(resumed, rounds[:2])
    again = list(run_rounds(world, make_policy("fedrt-plus"), executor, past=past[:2]))
    for one, other in zip(again, rounds, strict=True):
        np.testing.assert_array_equal(one.state.least.step, other.state.least.step)
        assert one.time_s == other.time_s


class Choosing:
    """A policy that sends each device's updates with a codec of its own, others every round."""

    name, energy_horizon, chooses_codecs = "choosing", "exact", True

    def plan(self, seen, books):
        plan = make_policy("fedrt").plan(seen, books)
        codec = (seen.device + seen.t + seen.r) % len(seen.menu.names)
        return replace(plan, codec=codec)


def test_codecs_that_a_policy_chooses_are_sent_and_charged():
    """Without a codec in the scenario; a trainer that takes over goes on to the same bits."""
    scenario = small("learning.model='smooth-cnn'", "rounds.global_rounds=3")
    trainer = Trainer(make_setup(SimulatedWorld(scenario, 0)))
    assert trainer.state().keys() == {"models"}
    rounds = list(simulate_rounds(trainer.setup.world, Choosing(), trainer))
    seen, plan, outcome = (getattr(rounds[-1].last, name) for name in ("seen", "plan", "outcome"))
    size = trainer.setup.model.num_parameters
    names = [seen.menu.names[number] for number in plan.codec]
    assert len(set(names)) > 2
    np.testing.assert_array_equal(
        outcome.cost.upload_bytes, [message_bytes(name, size) for name in names]
    )
    np.testing.assert_array_equal(outcome.cost.upload_bytes, outcome.planned.upload_bytes)
    half, again = Trainer(trainer.setup), Trainer(trainer.setup)
    replay(half, rounds[:1])
    again.restore(half.state())
    replay(again, rounds[1:])
    assert torch.equal(again.models, trainer.models)
    assert torch.equal(again.codec_state, trainer.codec_state)
    with pytest.raises(InputError, match=r"codec states are \(1, 3\)"):
        Trainer(trainer.setup).restore({**half.state(), "codec_state": np.zeros((1, 3))})
