"""Optimisers, schedules, clipping and FedProx: equal to torch's own, and alike in every engine."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.learning_cases import engine_case, method, small
from support.own_parts import set_up
from torch.nn import functional as fn

from fedrt.errors import InputError
from fedrt.learning.engines.engine import TrainingOrder
from fedrt.learning.engines.sequential import SequentialEngine
from fedrt.learning.optimisers.schedules import RateRule
from fedrt.learning.stacked import compiled
from fedrt.learning.stacked.engine import FORMS, StackedEngine

pytestmark = pytest.mark.numerical

EXACT = 1e-12
"""Of an update's norm, in float64; a few 1e-15 seen."""
STEPS = 20
RATE = 0.01
TORCH = {
    "learning.momentum=0.0": lambda p: torch.optim.SGD(p, RATE),
    "learning.momentum=0.9": lambda p: torch.optim.SGD(p, RATE, momentum=0.9),
    'learning.optimiser={kind="sgd",nesterov=true,weight_decay=0.1}': lambda p: torch.optim.SGD(
        p, RATE, momentum=0.9, nesterov=True, weight_decay=0.1
    ),
    'learning.optimiser="adam"': lambda p: torch.optim.Adam(p, RATE),
    'learning.optimiser={kind="adam",beta1=0.8,beta2=0.9,epsilon=0.001,weight_decay=0.1}': (
        lambda p: torch.optim.Adam(p, RATE, (0.8, 0.9), 0.001, 0.1)
    ),
    'learning.optimiser="adamw"': lambda p: torch.optim.AdamW(p, RATE),
    'learning.optimiser={kind="adamw",weight_decay=0.5}': lambda p: torch.optim.AdamW(
        p, RATE, weight_decay=0.5
    ),
}
ADJUSTED = {
    "clipping": "learning.clip_norm=0.5",
    "FedProx": "learning.proximal=0.3",
}
COSINE = 'learning.schedule={kind="cosine",last=0.1,warm_up_rounds=1}'
ADAMW = 'learning.optimiser={kind="adamw",epsilon=0.001,weight_decay=0.5}'
EVERYTHING = (*ADJUSTED.values(), COSINE, ADAMW)
CASES = [*((text,) for text in TORCH if "epsilon" in text or "adam" not in text), (ADAMW,)]
CASES += [*((text,) for text in ADJUSTED.values()), (COSINE,), EVERYTHING]
"""What engines are compared on. Engines round gradients differently, and a step of Adam divides
them by their own size: with epsilon = 1e-8 the rounding of one that is that small, 1e-17, grows by
up to 1 / (4 epsilon), to 1e-10 of the step. With epsilon = 0.001 it stays below 1e-14."""


def by_torch(setup, make, *, proximal: float = 0.0, clip: float | None = None) -> torch.Tensor:
    """The parameters after device 0's steps in a loop as a torch user writes it."""
    module = copy.deepcopy(setup.model.module).train()
    starts = [held.detach().clone() for held in module.parameters()]
    optimiser = make(module.parameters())
    for chosen in setup.batches.draw(0, 0, STEPS, np.array([0]))[:, 0]:
        inputs, labels = setup.samples.batch(torch.as_tensor(chosen))
        optimiser.zero_grad()
        loss = fn.cross_entropy(module(inputs), labels)
        for held, start in zip(module.parameters(), starts, strict=True):
            loss = loss + proximal / 2 * (held - start).square().sum()
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimiser.step()
    return torch.cat([held.detach().flatten() for held in module.parameters()])


def by_engine(setup) -> torch.Tensor:
    edge = setup.world.fleet.edge_of_device[:1]
    order = TrainingOrder(0, 0, np.array([0]), edge, np.array([STEPS]), np.ones(1))
    models = setup.first_model.repeat(setup.world.fleet.num_edges, 1)
    return setup.engine.train(models, order).models[edge[0]]


def distance(found: torch.Tensor, wanted: torch.Tensor, start: torch.Tensor) -> float:
    return float((found - wanted).norm() / (wanted - start).norm())


@pytest.mark.parametrize("engine", ["sequential", "stacked"])
@pytest.mark.parametrize("given", TORCH)
def test_twenty_steps_are_those_of_torch(given, engine, record_property):
    setup = set_up(engine, given, f"learning.learning_rate={RATE}")
    wanted = by_torch(setup, TORCH[given])
    worst = distance(by_engine(setup), wanted, setup.first_model)
    record_property("oracle", {f"{given}, {engine} against torch": worst})
    assert worst <= EXACT


@pytest.mark.parametrize("what", ADJUSTED)
def test_adjusted_gradients_are_those_of_a_torch_loop(what):
    setup = set_up("sequential", ADJUSTED[what], f"learning.learning_rate={RATE}")
    how = {"clipping": {"clip": 0.5}, "FedProx": {"proximal": 0.3}}[what]
    make = TORCH["learning.momentum=0.9"]
    wanted, usual = by_torch(setup, make, **how), by_torch(setup, make)
    assert distance(by_engine(setup), wanted, setup.first_model) <= EXACT
    assert distance(usual, wanted, setup.first_model) > 0.01, "it changes nothing"


@pytest.fixture(params=CASES, ids=" ".join)
def case(request):
    """Engines of one setting, an uneven order, and what the sequential engine makes of it."""
    made = engine_case("sequential", "smooth-cnn", "float64")
    how = method(RATE, *request.param)
    parts = (made.flat, made.samples, made.batches, how)
    wanted = SequentialEngine(*parts, augment=False).train(made.models, made.order)

    def check(engine) -> None:
        for _ in range(2):  # again: what was remembered starts anew
            found = engine.train(made.models, made.order)
            trained = [0, 1, 3]
            gap = (found.models - wanted.models).norm(dim=1)[trained]
            moved = (wanted.models - made.models).norm(dim=1)[trained]
            assert float((gap / moved).max()) <= EXACT
            np.testing.assert_allclose(found.loss_sum, wanted.loss_sum, rtol=EXACT)

    return parts, check


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_sequential_engine(case, form):
    parts, check = case
    check(StackedEngine(*parts, augment=False, chunk=3, form=form))


def test_the_compiled_step_is_the_sequential_engine(case, monkeypatch):
    """Written out but not compiled."""
    monkeypatch.setattr(torch, "compile", lambda written, **_: written)
    monkeypatch.setattr(compiled, "PROGRAMS", {})
    parts, check = case
    check(StackedEngine(*parts, augment=False, chunk=7, compiled=True))
    assert len(compiled.PROGRAMS) == 1


def test_one_program_serves_all_rounds_of_a_schedule(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda written, **_: written)
    monkeypatch.setattr(compiled, "PROGRAMS", {})
    made = engine_case("sequential", "smooth-cnn", "float64")
    parts = (made.flat, made.samples, made.batches, method(RATE, COSINE))
    engine = StackedEngine(*parts, augment=False, chunk=7, compiled=True)
    plain = SequentialEngine(*parts, augment=False)
    moved = []
    for t in range(4):
        order = replace(made.order, t=t)
        found, wanted = (e.train(made.models, order).models for e in (engine, plain))
        assert float((found - wanted).norm() / (wanted - made.models).norm()) <= EXACT
        moved.append(float((found - made.models).norm()))
    assert len(compiled.PROGRAMS) == 1
    assert moved[1] > max(moved[0], moved[2]), "the rate does not follow the schedule"


def rates(*given: str, rounds: int = 6) -> list[float]:
    rule = RateRule(small(f"rounds.global_rounds={rounds}", "learning.learning_rate=1.0", *given))
    return [rule.at(t) for t in range(rounds)]


def test_schedules_by_hand():
    """Warm-up of 2 rounds: 1/3, 2/3; then the schedule from its start over what is left."""
    constant = 'learning.schedule={kind="constant",warm_up_rounds=2}'
    np.testing.assert_allclose(rates(constant), [1 / 3, 2 / 3, 1, 1, 1, 1])
    step = 'learning.schedule={kind="step",every=2,factor=0.1}'
    np.testing.assert_allclose(rates(step), [1, 1, 0.1, 0.1, 0.01, 0.01])
    late = 'learning.schedule={kind="step",every=2,factor=0.5,warm_up_rounds=1}'
    np.testing.assert_allclose(rates(late), [0.5, 1, 1, 0.5, 0.5, 0.25])
    # Four rounds after the warm-up: cos(pi k / 4) for k = 0..3.
    half = math.sqrt(0.5)
    wanted = [1 / 3, 2 / 3, 1, (1 + half) / 2, 0.5, (1 - half) / 2]
    np.testing.assert_allclose(rates('learning.schedule={kind="cosine",warm_up_rounds=2}'), wanted)
    assert rates('learning.schedule="cosine"')[0] == 1
    assert rates() == [1.0] * 6


def test_a_schedule_of_a_users_own():
    assert rates('learning.schedule={kind="support.own_training:Falling",by=0.5}', rounds=3) == [
        1,
        0.5,
        0.25,
    ]
    with pytest.raises(InputError, match=r"^scenario.learning.schedule = .*finite number >= 0$"):
        rates('learning.schedule={kind="support.own_training:Falling",by="x"}')


def test_bad_settings_are_named():
    with pytest.raises(InputError, match=r"schedule.every: missing"):
        small('learning.schedule="step"')
    with pytest.raises(InputError, match="one of constant, step, cosine, or an import path"):
        small('learning.schedule="linear"')
    with pytest.raises(InputError, match=r"optimiser.beta1 = 1.0: must be"):
        small('learning.optimiser={kind="adam",beta1=1.0}')
    with pytest.raises(InputError, match=r"clip_norm = 0: must be"):
        small("learning.clip_norm=0")
