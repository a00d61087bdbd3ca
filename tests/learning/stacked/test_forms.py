"""Every form of the stacked engine, here and in other processes, against the sequential one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.learning_cases import engine_case, noise, small
from support.stacks import check, stacked

from fedrt.data.batches import Batches
from fedrt.learning.evaluate import accuracy, make_evaluation
from fedrt.learning.models.architectures import MODELS
from fedrt.learning.setup import WorkerRecipe
from fedrt.learning.stacked.engine import FORMS, PLAIN
from fedrt.learning.stacked.kernels import direct
from fedrt.learning.stacked.workers import WorkerEngine
from fedrt.learning.tasks import Classification

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_equals_sequential(form, model, dtype, record_property):
    """Uneven steps and data; also models for which the form does not pay."""
    case = engine_case("sequential", model, dtype)
    for chunk in (1, 3):
        check(case, stacked(case, chunk, form=form), dtype, record_property, f"{form}, {model}")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_augments_alike(form, record_property):
    case = engine_case("sequential", "small-cnn", "float64", augment=True)
    engine = stacked(case, 2, form=form, augment=True)
    check(case, engine, "float64", record_property, f"{form}, augmented")


def test_direct_convolutions_are_really_used(monkeypatch, record_property):
    """With batches that fill vectors: the small cases of other tests go by rows."""
    case = engine_case("sequential", "lenet5", "float64")
    parts = [np.arange(90)] * 9
    batches = Batches(parts, 16, seed=1)
    case.engine.batches = batches
    case.batches = batches
    calls = []

    def spy(*args):
        calls.append(args[1].shape)
        return convolve(*args)

    convolve = direct.convolve
    monkeypatch.setattr(direct, "convolve", spy)
    check(case, stacked(case, 3, form="direct"), "float64", record_property, "direct, batch 16")
    assert {tuple(shape[1:]) for shape in calls} == {(20, 1, 5, 5), (50, 20, 5, 5)}


@pytest.mark.parametrize("form", PLAIN)
def test_the_module_itself_draws_like_sequential(form):
    """A device at a time: what dropout draws is then the device's own too, to the bit."""
    case = engine_case("sequential", "support.learning_cases:WithDropout")
    got, losses = stacked(case, 1, form=form).train_rows(case.models, case.order)
    wanted, their_losses = case.engine.train_rows(case.models, case.order)
    assert torch.equal(got, wanted)
    assert (losses.loss_sum == their_losses.loss_sum).all()


def test_plain_steps_in_two_processes_are_sequential_to_the_bit():
    """Up to the order of sums over devices, which is that of the processes."""
    case = engine_case("sequential", dtype="float64")
    scenario = small("learning.learning_rate=0.05", 'learning.dtype="float64"')
    made = WorkerRecipe(case.samples, case.batches, scenario, 5, 99, 1, "plain")
    engine = WorkerEngine(made, case.models, 2)
    assert engine.form == "plain"
    try:
        got = engine.train(case.models, case.order)
    finally:
        engine.close()
    wanted = case.engine.train(case.models, case.order)
    assert (got.loss_sum == wanted.loss_sum).all()
    torch.testing.assert_close(got.models, wanted.models, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("form", [*FORMS, None])
def test_accuracy_is_the_same_in_every_form(form):
    case = engine_case("sequential", "lenet5", data=noise((1, 16, 16), test=60))
    wanted = [accuracy(case.flat, state, case.samples, Classification()) for state in case.models]
    found = make_evaluation(
        case.flat, case.samples, Classification(), False, form=form, compiled=False
    )
    assert found(case.models)[:, 0].tolist() == wanted
