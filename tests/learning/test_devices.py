"""Evaluation on devices' own held-out samples, with and without local steps before it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from support.learning_cases import small

from fedrt.data.partitions import Parts, hold_out
from fedrt.errors import InputError
from fedrt.learning.devices import OnDevices, devices_of, spread_of
from fedrt.learning.engines.engine import TrainingOrder
from fedrt.learning.setup import Setup, make_setup
from fedrt.learning.trainer import Trainer
from fedrt.measures import ACCURACY, Measure
from fedrt.policies import make_policy
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

ASKED = "learning.device_evaluation={held_out=0.25,tuning_steps=3}"
SMOOTH = ('learning.dtype="float64"', 'learning.model="smooth-cnn"')


def set_up(engine: str = "sequential", *given: str) -> Setup:
    world = SimulatedWorld(small(*SMOOTH, ASKED, *given), 0)
    return make_setup(world, engine=engine, chunk=2, workers=1)


def trained(setup: Setup) -> torch.Tensor:
    """Edge models that differ: each server's devices have trained a few steps."""
    fleet = setup.world.fleet
    count = fleet.num_devices
    order = TrainingOrder(
        0, 0, np.arange(count), fleet.edge_of_device, np.full(count, 8), np.full(count, 0.4)
    )
    return setup.engine.train(setup.first_model.repeat(fleet.num_edges, 1), order).models


def parts(*each: list[int]) -> Parts:
    samples = [np.array(samples) for samples in each]
    cuts = np.concatenate(([0], np.cumsum([len(part) for part in samples])))
    edges = np.zeros(len(each), dtype=np.int64)
    return Parts(np.concatenate(samples), cuts, np.zeros(99, dtype=np.int64), 1, edges)


def test_a_share_of_each_devices_samples_is_held_out():
    whole = parts(list(range(20)), [20, 21], [22], [30, 30, 30, 31, 31, 32])
    train, held = hold_out(whole, 0.25, 7)
    assert [len(part) for part in held][:3] == [5, 1, 0]
    for all_, mine, out in zip(whole, train, held, strict=True):
        assert sorted([*mine, *out]) == list(all_)
        assert not set(mine.tolist()) & set(out.tolist()), "a sample on both sides"
    again, _ = hold_out(whole, 0.25, 7)
    other, _ = hold_out(whole, 0.25, 8)
    assert np.array_equal(again.samples, train.samples)
    assert not np.array_equal(other.samples, train.samples)
    alone, _ = hold_out(parts(list(range(20))), 0.25, 7)
    assert np.array_equal(alone[0], train[0]), "it moves with other devices"


def test_spread_by_hand():
    """Of 11 values the worst two count as the worst tenth."""
    values = np.arange(11.0)
    assert spread_of(values, ACCURACY) == pytest.approx([5.0, math.sqrt(10.0), 0.5])
    assert spread_of(values, Measure("rmse", higher_is_better=False))[2] == 9.5
    assert np.isnan(spread_of(np.zeros(0), ACCURACY)).all()


def test_each_device_is_judged_by_its_servers_model_on_its_own_samples():
    setup = set_up()
    models = trained(setup)
    wanted = []
    for device, edge in enumerate(setup.world.fleet.edge_of_device.tolist()):
        setup.model.load(models[edge])
        setup.model.module.eval()
        held = setup.held_out[device]
        assert not set(held.tolist()) & set(setup.parts[device].tolist())
        inputs, labels = setup.samples.batch(torch.as_tensor(held))
        with torch.no_grad():
            wanted.append(float((setup.model.module(inputs).argmax(1) == labels).double().mean()))
    assert len(set(wanted)) > 2
    on = devices_of(setup)
    found = on.evaluate(0, models)
    assert found[:3] == pytest.approx(spread_of(np.array(wanted), ACCURACY), rel=1e-12)
    assert on.names[0] == "device_accuracy_mean"
    assert on.names[-1] == "tuned_accuracy_worst"


def test_a_tuned_model_has_made_local_steps_on_its_own_samples():
    """Device 3's model after the steps, against the sequential engine's with it alone."""
    setup = set_up()
    models = trained(setup)
    on = OnDevices(setup, setup.held_out, setup.world.scenario.learning.device_evaluation)
    rows = {int(who[0]): row for who, row in on._tuned(2, models)}
    assert sorted(rows) == list(range(7))
    edge = setup.world.fleet.edge_of_device[3:4]
    order = TrainingOrder(2, 2, np.array([3]), edge, np.array([3]), np.ones(1))
    wanted = setup.engine.train(models, order).models[edge[0]]
    torch.testing.assert_close(rows[3], wanted, rtol=1e-12, atol=1e-13)


def test_stacked_training_reports_the_same():
    """Tuning happens in this process, whichever engine trains the run."""
    wanted = set_up()
    models = trained(wanted)
    found = devices_of(set_up("stacked")).evaluate(1, models)
    assert found == pytest.approx(devices_of(wanted).evaluate(1, models), rel=1e-12)


def test_a_codec_does_not_touch_what_devices_keep():
    plain, coded = set_up(), set_up("sequential", 'learning.upload="int2"')
    models = trained(plain)
    found = [devices_of(setup).evaluate(1, models) for setup in (plain, coded)]
    assert found[0] == found[1]


def test_rounds_record_it_and_training_goes_on_as_without():
    """Evaluation changes nothing: a run that evaluates every round ends as one that does not."""
    ends, last = [], []
    for every in (1, 4):
        setup = set_up("sequential", f"learning.evaluate_every={every}")
        trainer = Trainer(setup)
        rounds = list(simulate_rounds(setup.world, make_policy("fedrt"), trainer))
        ends.append(trainer.models)
        last.append(rounds[-1].metrics)
        assert math.isnan(rounds[0].metrics["device_accuracy_mean"]) == (every == 4)
    assert torch.equal(*ends)
    assert last[0]["tuned_accuracy_mean"] == last[1]["tuned_accuracy_mean"]
    assert last[0]["device_accuracy_worst"] <= last[0]["device_accuracy_mean"]


def test_bad_settings_are_named():
    with pytest.raises(InputError, match=r"device_evaluation.held_out = 1: must be"):
        small("learning.device_evaluation={held_out=1}")
