"""Tasks: losses and measures by hand, alike in every engine, and what they ask of the data."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from support.learning_cases import small
from support.own_parts import order_of
from support.task_data import numbers

from fedrt.errors import InputError
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.setup import Setup, make_setup
from fedrt.learning.stacked import compiled
from fedrt.learning.stacked.engine import StackedEngine
from fedrt.learning.tasks import MultiLabel, NextToken, Regression, measure_sums, measured
from fedrt.learning.trainer import Trainer
from fedrt.measures import ACCURACY, MEASURES
from fedrt.policies import make_policy
from fedrt.registry import TASKS
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

PLACE = "support.task_data"
HUBER = '{kind="regression",loss="huber",delta=0.5}'
CASES = {
    "regression": ("numbers", "Line", '"regression"'),
    "huber": ("one_number", "Line", HUBER),
    "multi-label": ("labels", "Line", '"multi-label"'),
    "next-token": ("tokens", "Reader", '"next-token"'),
    "recurrent": ("tokens", "Recurrent", '"next-token"'),
    "classes of tokens": ("token_classes", "Judge", '"classification"'),
    "own": ("numbers", "Line", f'"{PLACE}:Absolute"'),
}


def given(data: str, model: str, task: str) -> tuple[str, ...]:
    return (
        f'learning.dataset="{PLACE}:{data}"',
        f'learning.model="{PLACE}:{model}"',
        f"learning.task={task}",
        'learning.dtype="float64"',
        'learning.partition={kind="owner"}',
    )


def set_up(case: str, engine: str = "sequential", *more: str) -> Setup:
    world = SimulatedWorld(small(*given(*CASES[case]), *more), 0)
    return make_setup(world, engine=engine, chunk=2, workers=1)


def outcome(setup: Setup) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    try:
        models = setup.first_model.repeat(setup.world.fleet.num_edges, 1)
        done = setup.engine.train(models, order_of(setup))
        return done.models - models, done.loss_sum, setup.evaluate(done.models)
    finally:
        setup.close()


def check(found, wanted) -> None:
    assert float((found[0] - wanted[0]).norm() / wanted[0].norm()) <= 1e-12
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-12)
    np.testing.assert_allclose(found[2], wanted[2], rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_stacked_training_is_sequential_training(case):
    check(outcome(set_up(case, "stacked")), outcome(set_up(case)))


@pytest.mark.parametrize("case", [name for name in CASES if name != "recurrent"])
def test_the_compiled_step_is_sequential_training(case, monkeypatch):
    """Written out but not compiled; the evaluation too. A GRU is not traced that way."""
    from fedrt.learning.evaluate import CompiledEvaluation

    monkeypatch.setattr(torch, "compile", lambda written, **_: written)
    monkeypatch.setattr(compiled, "PROGRAMS", {})
    setup = set_up(case)
    models = setup.first_model.repeat(setup.world.fleet.num_edges, 1)
    parts = (setup.model, setup.samples, setup.batches, setup.method)
    engine = StackedEngine(*parts, augment=False, chunk=7, compiled=True)
    done = engine.train(models, order_of(setup))
    measure = CompiledEvaluation(setup.model, setup.samples, setup.method.task)
    found = (done.models - models, done.loss_sum, measure(done.models))
    check(found, outcome(setup))


def values(task, outputs, labels) -> list[float]:
    sums = measure_sums(task, torch.tensor(outputs)[None].double(), torch.tensor(labels))
    return measured(task, sums.numpy(), len(labels))[0].tolist()


def test_regression_by_hand():
    """Errors 1 and -3 of a sample, 0 and 2 of another: squares 1, 9, 0, 4."""
    outputs, labels = [[1.0, 0.0], [5.0, 2.0]], [[0.0, 3.0], [5.0, 0.0]]
    pair = (torch.tensor(outputs), torch.tensor(labels))
    assert Regression().losses(*pair).tolist() == [5.0, 2.0]
    # Up to 1 half the square, beyond it |error| - 1/2: 0.5 and 2.5; 0 and 1.5.
    assert Regression(1.0).losses(*pair).tolist() == [1.5, 0.75]
    assert values(Regression(), outputs, labels) == pytest.approx([math.sqrt(3.5), 1.5])


def test_multi_label_by_hand():
    """Scores of 0 give log 2 each; two of four labels right, and one sample wholly."""
    zero = (torch.zeros(1, 3), torch.tensor([[0, 1, 1]]))
    assert MultiLabel().losses(*zero).item() == pytest.approx(math.log(2))
    outputs, labels = [[1.0, -1.0], [1.0, 1.0]], [[1, 0], [0, 0]]
    assert values(MultiLabel(), outputs, labels) == [0.5, 0.5]


def test_next_token_by_hand():
    """Even scores over four tokens: a cross entropy of log 4, a perplexity of 4."""
    even = (torch.zeros(2, 3, 4), torch.tensor([[0, 1, 2], [0, 0, 0]]))
    assert NextToken().losses(*even).tolist() == pytest.approx([math.log(4)] * 2)
    found = values(NextToken(), np.zeros((2, 3, 4)).tolist(), [[0, 1, 2], [0, 0, 0]])
    assert found == pytest.approx([4 / 6, 4.0])


def test_a_run_records_its_measures_by_name():
    setup = set_up("next-token", "sequential", "learning.evaluate_every=2")
    rounds = list(simulate_rounds(setup.world, make_policy("fedrt"), Trainer(setup)))
    names = {"accuracy", "edge_accuracy_mean", "perplexity"}
    assert names <= set(rounds[1].metrics)
    assert math.isnan(rounds[0].metrics["perplexity"])
    assert rounds[3].metrics["perplexity"] < rounds[1].metrics["perplexity"]
    assert (
        "edge_rmse_min"
        in list(
            simulate_rounds(
                *(lambda s: (s.world, make_policy("fedrt"), Trainer(s)))(set_up("huber"))
            )
        )[-1].metrics
    )


WRONG = {
    ("numbers", "Line", '"classification"'): "needs labels that are one whole number per sample",
    ("tokens", "Reader", '"regression"'): "needs labels of floating point",
    ("tokens", "Reader", '"multi-label"'): "each 0 or 1",
    ("numbers", "Line", '"next-token"'): "needs inputs and labels of whole numbers",
    ("tokens", "Line", '"next-token"'): "does not fit inputs of (6,)",
}


@pytest.mark.parametrize("case", WRONG)
def test_data_that_do_not_fit_are_named(case):
    line = f"^scenario.learning.[^\n]*{re.escape(WRONG[case])}"
    with pytest.raises(InputError, match=line):
        make_setup(SimulatedWorld(small(*given(*case)), 0))


def test_a_partition_by_class_needs_classes():
    wanted = [*given(*CASES["regression"])[:-1], 'learning.partition={kind="dirichlet"}']
    with pytest.raises(InputError, match="needs samples of one class each; use iid, owner"):
        make_setup(SimulatedWorld(small(*wanted), 0))


def test_owners_are_devices():
    setup = set_up("regression")
    for device, part in enumerate(setup.parts):
        assert set((part % 7).tolist()) == {int(part[0]) % 7}
        assert len(part) in (8, 9), device


@pytest.mark.parametrize(
    ("normalise", "mean", "deviation"),
    [("true", None, None), ("false", 0.0, 1.0), ("{mean=2.0,deviation=4.0}", 2.0, 4.0)],
)
def test_inputs_are_normalised_as_asked(normalise, mean, deviation):
    setup = set_up("regression", "sequential", f"learning.normalise={normalise}")
    raw = numbers()["x_train"].astype(np.float32).astype(np.float64)
    centre = raw.mean(0) if mean is None else mean
    wanted = (raw - centre) / (raw.std(0) if deviation is None else deviation)
    found, _ = setup.samples.batch(torch.arange(len(raw)))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_tokens_are_never_normalised():
    setup = set_up("next-token", "sequential", "learning.normalise={mean=2.0,deviation=4.0}")
    inputs, labels = setup.samples.batch(torch.arange(5))
    assert inputs.dtype == labels.dtype == torch.int64
    assert torch.equal(inputs[:, 1:], labels[:, :-1])


def test_a_given_mean_must_fit_the_channels():
    with pytest.raises(InputError, match=r"normalise.mean: has 2 numbers: must be one number, or"):
        set_up("regression", "sequential", "learning.normalise={mean=[1.0,2.0],deviation=1.0}")
    with pytest.raises(InputError, match=r"normalise.deviation = 0"):
        small("learning.normalise={mean=0,deviation=0}")


def test_a_scenario_knows_the_tasks_and_their_measures():
    for name, entry in TASKS.items():
        assert small(f'learning.task="{name}"').learning.task is not None
        assert MEASURES[name] == entry.load().measures == entry.measures
    assert ACCURACY.higher_is_better


def test_samples_of_images_keep_their_default():
    """Without the setting nothing moves: the twin with `normalise = true` has the same bits."""
    from support.learning_cases import CPU, noise

    data = noise((3, 4, 4))
    one, two = (TensorSamples(data, torch.float32, CPU, how) for how in (None, True))
    assert torch.equal(one.batch(torch.arange(9))[0], two.batch(torch.arange(9))[0])
