"""Models of a user's own in the stacked engine, layers of all kinds, against the sequential one."""

from __future__ import annotations

import pytest
import torch
from support.learning_cases import engine_case
from support.stacks import LIMITS, check, stacked
from support.users_models import (
    SIDE,
    BranchOnShape,
    BranchOnValues,
    DropoutLayer,
    Tied,
    User,
    WithAveragedNorm,
    WithBatchNorm1d,
    WithCat,
    WithConv1d,
    WithGates,
    WithGroupNorm,
    WithLayerNorm,
    WithOddConvolutions,
    WithParameters,
    WithViews,
    users,
)

from fedrt.learning.evaluate import accuracy
from fedrt.learning.stacked.stack import StackedModule
from fedrt.learning.tasks import Classification

pytestmark = pytest.mark.numerical

KNOWN = (
    WithParameters,
    WithViews,
    WithCat,
    WithGates,
    WithGroupNorm,
    WithBatchNorm1d,
    WithLayerNorm,
)
UNKNOWN = {
    WithConv1d: ["line (Conv1d)"],
    WithAveragedNorm: ["norm (BatchNorm2d)"],
    WithOddConvolutions: ["round (Conv2d)"],
    Tied: ["line (Conv1d)", "other (Conv1d)"],
}
UNTRACED = (BranchOnShape, BranchOnValues)


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("kind", [*KNOWN, *UNKNOWN, *UNTRACED])
def test_a_users_model_equals_sequential(kind, dtype, record_property):
    case = users(kind, dtype=dtype)
    for chunk in (1, 4, 7):
        engine = stacked(case, chunk)
        check(case, engine, dtype, record_property, "stacked, users' models")
    if kind in UNTRACED:
        (note,) = engine.notes
        assert note.startswith("the model cannot be traced (")
        assert "all of it runs under vmap" in note
    else:
        wanted = [
            f"layer {layer} has no stacked form; vmap is used" for layer in UNKNOWN.get(kind, [])
        ]
        assert sorted(engine.notes) == sorted(wanted)


def test_grouped_gradients_leave_odd_convolutions_to_torch(record_property):
    case = users(WithOddConvolutions)
    engine = stacked(case, 4)
    engine.rule.stacked.grouped_gradients = True
    check(case, engine, "float64", record_property, "grouped gradients, odd convolutions")


@pytest.mark.parametrize("kind", [WithAveragedNorm, BranchOnShape])
def test_an_evaluation_between_rounds_changes_nothing(kind):
    """Evaluation puts the shared module into its other mode."""
    case = users(kind)
    engine = stacked(case)
    before = engine.train(case.models, case.order).models
    accuracy(case.flat, case.models[0], case.samples, Classification())
    assert torch.equal(engine.train(case.models, case.order).models, before)


def test_dropout_is_repeatable_and_differs_between_devices():
    """What is drawn is keyed by the chunk's first device: equal to sequential it cannot be."""
    case = users(DropoutLayer)
    engine = stacked(case, 4)
    assert engine.notes == ["layer drop (Dropout) has no stacked form; vmap is used"]
    state = torch.random.get_rng_state()
    first = engine.train(case.models, case.order).models
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(5)
    assert torch.equal(engine.train(case.models, case.order).models, first)
    accuracy(case.flat, case.models[0], case.samples, Classification())
    assert torch.equal(engine.train(case.models, case.order).models, first)
    module = engine.rule.stacked
    own = {
        name: held.detach().expand(2, *held.shape)
        for name, held in module.module.named_parameters()
    }
    one, two = module.run(own, {}, torch.ones(2, 3, *SIDE, dtype=torch.float64))
    assert not torch.equal(one, two)


def test_a_stacked_module_gives_each_copy_its_own_scores():
    """Copies with other parameters and other inputs, one call against many."""
    modules = [User(SIDE, 5) for _ in range(3)]
    own = {
        name: torch.stack([module.get_parameter(name).detach() for module in modules])
        for name, _ in modules[0].named_parameters()
    }
    inputs = torch.randn(3, 6, *SIDE)
    got = StackedModule(modules[0]).run(own, {}, inputs)
    wanted = torch.stack([module(x) for module, x in zip(modules, inputs, strict=True)])
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "kind", ["small-cnn", "resnet20", WithParameters, WithConv1d, Tied, BranchOnShape]
)
def test_bfloat16_is_close_and_parameters_stay_float32(kind, record_property):
    """8 bits of mantissa over three steps: the update within a tenth of its norm.

    Of ResNet-20 within three quarters: its batch norms see 4 images here and magnify all rounding.
    """
    case = (
        engine_case("sequential", kind) if isinstance(kind, str) else users(kind, dtype="float32")
    )
    wanted = case.train()
    got = stacked(case, 4, half=True).train(case.models, case.order).models
    assert got.dtype == torch.float32
    count = case.flat.num_parameters
    moved = (wanted - case.models)[:, :count].norm(dim=1)
    apart = (wanted - got)[:, :count].norm(dim=1)
    worst = float((apart[moved > 0] / moved[moved > 0]).max())
    label = getattr(kind, "__name__", kind)
    record_property("oracle", {f"worst stacked bfloat16 against float32, {label}": worst})
    assert worst <= (0.75 if kind == "resnet20" else 0.1)
    if kind != BranchOnShape:
        assert worst > 1e-6, "nothing was done in bfloat16"
