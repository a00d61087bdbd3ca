"""Optimisers and the like of a user's own, by import path: the same in every engine."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
import torch
from support.learning_cases import engine_case, method, small
from support.own_parts import ENGINES, order_of, set_up
from support.paths import EXAMPLES
from torch.nn import functional as fn

from fedrt.errors import InputError
from fedrt.learning.engines.engine import TrainingOrder
from fedrt.learning.stacked import compiled
from fedrt.learning.stacked.engine import StackedEngine
from fedrt.system.plugins import load_plugin

pytestmark = pytest.mark.numerical

OWN = {
    "optimiser": 'learning.optimiser="own_optimiser:Adam"',
    "averaging": 'learning.averaging={kind="own_aggregator:ClippedMean",factor=0.5}',
    "task": 'learning.task="support.own_training:Regression"',
}
CLOSE = 1e-10
"""Of an update's norm, in float64; 4e-15 seen. Adam divides by gradients that may be small."""


@pytest.fixture(autouse=True)
def examples_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


def outcome(engine: str, *given: str) -> tuple[torch.Tensor, np.ndarray, list[float]]:
    """The models after an edge round, the losses in it, and the models' accuracies."""
    setup = set_up(engine, *given)
    try:
        models = setup.first_model.repeat(setup.world.fleet.num_edges, 1)
        done = setup.engine.train(models, order_of(setup))
        return done.models - models, done.loss_sum, setup.accuracies(done.models)
    finally:
        setup.close()


@pytest.fixture(scope="module")
def shown(request):
    """What the sequential engine makes of each part of one's own."""
    found: dict[str, tuple] = {}

    def show(*given: str):
        key = repr(given)
        if key not in found:
            found[key] = outcome("sequential", *given)
        return found[key]

    return show


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.parametrize("part", OWN)
def test_every_engine_uses_it_alike(part, engine, shown, record_property):
    moved, losses, values = shown(OWN[part])
    found, found_losses, found_values = outcome(engine, OWN[part])
    worst = float(((found - moved).norm(dim=1) / moved.norm(dim=1)).max())
    record_property("oracle", {f"worst own {part}, {engine} against sequential": worst})
    assert worst <= CLOSE
    np.testing.assert_allclose(found_losses, losses, rtol=1e-9)
    np.testing.assert_allclose(found_values, values, rtol=1e-9)
    usual, _, _ = shown()
    assert float((usual - moved).norm() / usual.norm()) > 0.01, "it changes nothing"


def test_the_own_optimiser_is_adam(shown):
    """Against torch's own: device 0 alone, three steps from the first model."""
    setup = set_up("sequential", OWN["optimiser"], "learning.learning_rate=0.01")
    steps, device = 3, np.array([0])
    module = copy.deepcopy(setup.model.module).train()
    adam = torch.optim.Adam(module.parameters(), lr=0.01, betas=(0.9, 0.999), eps=1e-8)
    for step, chosen in enumerate(setup.batches.draw(0, 0, steps, device)[:, 0]):
        inputs, labels = setup.samples.batch(torch.as_tensor(chosen))
        adam.zero_grad()
        fn.cross_entropy(module(inputs), labels).backward()
        adam.step()
        assert step < steps
    edge = setup.world.fleet.edge_of_device[:1]
    order = TrainingOrder(0, 0, device, edge, np.array([steps]), np.ones(1))
    models = setup.first_model.repeat(setup.world.fleet.num_edges, 1)
    found = setup.engine.train(models, order).models[edge[0]]
    wanted = torch.cat([held.detach().flatten() for held in module.parameters()])
    assert float((found - wanted).norm() / (wanted - models[0]).norm()) <= 1e-12


def test_the_compiled_step_uses_it_too(monkeypatch):
    """Written out but not compiled, with uneven steps; the number of the step counts in Adam."""
    monkeypatch.setattr(torch, "compile", lambda written, **_: written)
    monkeypatch.setattr(compiled, "PROGRAMS", {})
    case = engine_case("sequential", "smooth-cnn", "float64")
    how = method(0.01, OWN["optimiser"])
    parts = (case.flat, case.samples, case.batches, how)
    plain = StackedEngine(*parts, augment=False, chunk=1, form="plain")
    wanted = plain.train(case.models, case.order).models
    engine = StackedEngine(*parts, augment=False, chunk=7, compiled=True)
    for _ in range(2):  # again: what was remembered starts anew
        found = engine.train(case.models, case.order).models
        assert float((found - wanted).norm() / (wanted - case.models).norm()) <= CLOSE


METHODS = "something with the methods init() and update()"
FAILURES = {
    '{kind="support.own_training:Broken",how="raises"}': "no update (own_training.py, line ",
    '{kind="support.own_training:Broken",how="shape"}': "update must return (parameters, state)",
    '{kind="support.own_training:Broken"}': "update must return (parameters, state)",
    '{kind="support.own_training:Broken",what=1}': "unexpected keyword argument 'what'",
    '"support.own_training:Nothing"': METHODS,
    '"support.own_training:Missing"': "support.own_training has no Missing",
}


@pytest.mark.parametrize("chosen", FAILURES)
def test_one_that_fails_ends_in_one_line(chosen):
    line = f"^scenario.learning.optimiser = [^\n]*{re.escape(FAILURES[chosen])}[^\n]*$"
    with pytest.raises(InputError, match=line):
        outcome("sequential", f"learning.optimiser={chosen}")


WRONG_MEANS = {
    "raises": "no update (own_training.py, line ",
    "shape": "aggregate must return a tensor of ",
    "type": "aggregate must return a tensor of ",
    "nan": "aggregate must return finite numbers",
    "weigh": "weigh must return a number >= 0 for each device",
    "negative": "weigh must return a number >= 0 for each device",
    "none": "weigh must let some device of each edge server count",
}


@pytest.mark.parametrize("how", WRONG_MEANS)
def test_an_aggregator_that_fails_ends_in_one_line(how):
    line = f"^scenario.learning.averaging = [^\n]*{re.escape(WRONG_MEANS[how])}[^\n]*$"
    with pytest.raises(InputError, match=line):
        outcome(
            "sequential",
            f'learning.averaging={{kind="support.own_training:BrokenMean",how="{how}"}}',
        )


def test_the_own_aggregator_shortens_long_updates():
    """Updates of norms 1, 2 and 10: none counts for more than the median, 2; 1/3 of each."""
    model, factory = torch.ones(4), load_plugin("own_aggregator:ClippedMean", "a test")
    rows = model + torch.diag(torch.tensor([1.0, 2.0, 10.0, 0.0]))[:3]
    found = factory().aggregate(model, rows, np.full(3, 1 / 3))
    np.testing.assert_allclose(found, [1 + 1 / 3, 1 + 2 / 3, 1 + 2 / 3, 1.0], rtol=1e-12)


@pytest.mark.parametrize("engine", ["sequential", "stacked", "workers"])
def test_adding_up_on_the_way_is_adding_up_at_the_end(engine, shown):
    """Who shares a chunk may change how sums are rounded."""
    quick, _, _ = outcome(engine, 'learning.averaging="samples"')
    slow, _, _ = outcome(engine, 'learning.averaging="support.own_training:MeanInRows"')
    assert float((quick - slow).norm() / quick.norm()) <= 1e-13
    usual, _, _ = shown()
    assert float((quick - usual).norm() / quick.norm()) > 0.01, "samples weigh nothing"


def test_a_wrong_name_says_what_there_is():
    with pytest.raises(
        InputError, match="one of sgd, adam, adamw, or an import path, package:Name"
    ):
        small('learning.optimiser="adams"')
    with pytest.raises(
        InputError, match="one of classification, multi-label, next-token, regression, or"
    ):
        small("learning.task={kind=3}")
