"""Models with parameters that do not train: these stay, and are neither sent nor charged."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.learning_cases import CPU, engine_case, method, noise, small
from support.users_models import HalfFrozen

from fedrt.data.batches import Batches
from fedrt.learning.engines.engine import TrainingOrder
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.engines.sequential import SequentialEngine
from fedrt.learning.evaluate import StackedEvaluation, evaluate_one
from fedrt.learning.material import measure
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.stacked import compiled
from fedrt.learning.stacked.engine import FORMS, StackedEngine

pytestmark = pytest.mark.numerical

SHAPE = (1, 8, 8)


@pytest.fixture
def parts():
    torch.manual_seed(3)
    samples = TensorSamples(noise(SHAPE), torch.float64, CPU)
    flat = FlatModel(HalfFrozen(SHAPE, 5), torch.float64, CPU)
    batches = Batches(np.split(np.arange(90), 9), 4, seed=1)
    return flat, samples, batches, method(0.05)


def order() -> TrainingOrder:
    return engine_case("sequential").order


def test_only_what_trains_is_in_the_state(parts):
    flat = parts[0]
    trained = 8 * 4 * 9 + 8 + 8 + 8 + 8 * 5 + 5
    assert flat.num_parameters == trained
    assert flat.size == trained + 8 + 8 + 1, "and the norm's buffers"
    assert {place.name.split(".")[0] for place in flat.layout} == {"more", "norm", "head"}


def test_training_leaves_what_is_frozen(parts):
    flat = parts[0]
    before = {name: p.clone() for name, p in flat.module.named_parameters()}
    models = flat.state().repeat(4, 1)
    found = SequentialEngine(*parts, augment=False).train(models, order()).models
    flat.load(found[0])
    for name, held in flat.module.named_parameters():
        assert torch.equal(held, before[name]) != held.requires_grad, name


@pytest.mark.parametrize("form", [*FORMS, "compiled"])
def test_every_engine_trains_and_evaluates_it_alike(parts, form, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda written, **_: written)
    monkeypatch.setattr(compiled, "PROGRAMS", {})
    flat, samples, _, how = parts
    models = flat.state().repeat(4, 1)
    wanted = SequentialEngine(*parts, augment=False).train(models, order()).models
    given = {"chunk": 7, "compiled": True} if form == "compiled" else {"chunk": 3, "form": form}
    found = StackedEngine(*parts, augment=False, **given).train(models, order()).models
    assert float((found - wanted).norm() / (wanted - models).norm()) <= 1e-12
    values = StackedEvaluation(flat, samples, how.task)(wanted)
    each = [evaluate_one(flat, state, samples, how.task) for state in wanted]
    np.testing.assert_allclose(values, each, rtol=1e-12)


def test_programs_of_other_frozen_numbers_are_not_shared(parts):
    one = StackedEngine(*parts, augment=False, chunk=3).rule.stacked
    other = FlatModel(HalfFrozen(SHAPE, 5), torch.float64, CPU)
    two = StackedEngine(other, *parts[1:], augment=False, chunk=3).rule.stacked
    assert one.signature() != two.signature()


def test_only_what_trains_is_charged():
    scenario = small(
        'learning.model="support.users_models:HalfFrozen"', 'learning.model_bits="measured"'
    )
    trained = 8 * 4 * 9 + 8 + 8 + 8 + 8 * 10 + 10
    assert measure(scenario).learning.model_bits == 32 * trained
