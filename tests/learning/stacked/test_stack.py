"""The stacked engine against the sequential one on the same order, models of all kinds.

Each limit is on the worst parameter difference after one edge round, relative to the norm of its
edge's update. The differences that were measured are in the summary, under "oracles".
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.learning_cases import CPU, SAME_EVERYWHERE, SHAPES, Case, engine_case, noise
from support.stacks import FIELDS, LIMITS, check, gap, stacked
from torch import nn
from torch.nn import functional as fn

from fedrt.learning.evaluate import accuracy
from fedrt.learning.models.architectures import MODELS
from fedrt.learning.stacked import compiled
from fedrt.learning.stacked.kernels.grouped import convolve, has_grouped_gradient
from fedrt.learning.stacked.stack import StackedModule, _keeps_channels
from fedrt.learning.tasks import Classification

pytestmark = pytest.mark.numerical

SIDE = (2, 4, 4)


@pytest.mark.parametrize(("dtype", "model"), SAME_EVERYWHERE)
def test_stacked_equals_sequential_at_any_chunk(model, dtype, record_property):
    """Uneven steps and data, devices 2 and 5 away; 7 devices in chunks of 1 to more than all."""
    case = engine_case("sequential", model, dtype)
    wanted = case.train()
    for chunk in (1, 3, 4, 7, 50):
        worst = gap(case, wanted, stacked(case, chunk).train(case.models, case.order).models)
        record_property("oracle", {f"worst stacked, {model}, {dtype}": worst})
        assert worst <= LIMITS[dtype]


@pytest.mark.parametrize("dtype", LIMITS)
def test_augmentation_and_absent_devices(dtype, record_property):
    # Shifted images have blank borders, and those ties: not for max pooling.
    case = engine_case("sequential", "smooth-cnn", dtype, augment=True)
    engine = stacked(case, 2, augment=True)
    for present in ([0], [1, 2, 6], [6, 4, 3, 2, 0], range(7)):
        some = {name: getattr(case.order, name)[list(present)] for name in FIELDS}
        check(case, engine, dtype, record_property, "stacked, some absent", **some)


@pytest.mark.parametrize("steps", [np.full(7, 2), np.array([1, 5, 1, 1, 2, 1, 1])])
def test_even_and_very_uneven_steps(steps, record_property):
    case = engine_case("sequential", dtype="float64")
    check(case, stacked(case, 4), "float64", record_property, "stacked", local_steps=steps)


def test_a_step_of_none_leaves_the_model(record_property):
    case = engine_case("sequential", "resnet20", "float64")
    steps = np.array([0, 0, 0, 1, 0, 2, 1])
    engine = stacked(case, 4)
    check(case, engine, "float64", record_property, "stacked", local_steps=steps)
    torch.testing.assert_close(
        engine.train(case.models, replace(case.order, local_steps=steps)).models[0],
        case.models[0],
        rtol=1e-15,
        atol=0,
    )


def test_buffers_of_devices_that_stand_still_stay():
    """One device takes a step, its neighbour three: the first's statistics are those of one."""
    case = engine_case("sequential", "resnet20", "float64")
    order = {
        "devices": np.array([1, 3]),
        "edge_of_device": np.array([0, 1]),
        "local_steps": np.array([1, 3]),
        "weight": np.ones(2),
    }
    engine = stacked(case, 2)
    both = engine.train(case.models, replace(case.order, **order)).models
    lone = {name: value[:1] for name, value in order.items()}
    first = engine.train(case.models, replace(case.order, **lone)).models
    torch.testing.assert_close(both[0], first[0], rtol=1e-10, atol=1e-13)
    counts = [case.named(both[edge])["norm.num_batches_tracked"].item() for edge in (0, 1)]
    assert counts == [1, 3]


# The form of convolutions for GPUs, on a processor.


@pytest.mark.parametrize("model", MODELS)
def test_grouped_gradients_equal_sequential(model, record_property):
    case = engine_case("sequential", model, "float64")
    engine = stacked(case, 4)
    engine.rule.stacked.grouped_gradients = True
    check(case, engine, "float64", record_property, f"grouped gradients, {model}")


@given(
    st.integers(1, 3),
    st.sampled_from([1, 2, 3, 8]),
    st.sampled_from([1, 5, 8, 16]),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.tuples(st.integers(5, 9), st.integers(5, 9)),
)
def test_a_grouped_convolution_is_torchs(groups, channels, outputs, size, stride, padding, side):
    """Values and both gradients; also with few channels, strides that leave inputs over."""
    padding = tuple(min(pad, k - 1) for pad, k in zip(padding, size, strict=True))
    draw = torch.Generator().manual_seed(groups + 7 * channels + outputs)
    kind = {"dtype": torch.float64, "generator": draw}
    x = torch.randn(2, groups * channels, *side, **kind).requires_grad_()
    weight = torch.randn(groups * outputs, channels, *size, **kind).requires_grad_()
    wanted = fn.conv2d(x, weight, None, stride, padding, 1, groups)
    got = convolve(x, weight, stride, padding, groups)
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)
    along = torch.randn(wanted.shape, **kind)
    for mine, torchs in zip(
        torch.autograd.grad(got, (x, weight), along),
        torch.autograd.grad(wanted, (x, weight), along),
        strict=True,
    ):
        torch.testing.assert_close(mine, torchs, rtol=1e-12, atol=1e-11)


# Models of users.


class User(nn.Module):
    """A convolution, what a test puts between, and a linear layer."""

    def __init__(self, shape, classes) -> None:
        super().__init__()
        self.conv = nn.Conv2d(shape[0], 4, 3, padding=1)
        self.add_layers()
        with torch.no_grad():
            size = self.between(self.conv(torch.zeros(2, *shape))).flatten(1).shape[1]
        self.head = nn.Linear(size, classes)

    def add_layers(self) -> None: ...

    def between(self, x):
        return x

    def forward(self, x):
        return self.head(torch.flatten(self.between(self.conv(x)), 1))


class WithLayerNorm(User):
    def add_layers(self):
        self.norm = nn.LayerNorm([4, 4, 4])

    def between(self, x):
        return self.norm(x)


class WithConv1d(User):
    def add_layers(self):
        self.line = nn.Conv1d(4, 3, 3)

    def between(self, x):
        return self.line(x.flatten(2))


class WithParameters(User):
    """Parameters of many shapes, used by themselves."""

    def add_layers(self):
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.each = nn.Parameter(torch.linspace(0.5, 1, 4).reshape(4, 1, 1))
        self.wide = nn.Parameter(torch.linspace(0.5, 1, 4).reshape(1, 4, 1, 1))
        self.last = nn.Parameter(torch.linspace(-1, 1, 64))
        self.matrix = nn.Parameter(torch.linspace(-1, 1, 64 * 6).reshape(64, 6))

    def between(self, x):
        x = 2 * ((x + self.each) * self.scale + self.wide) - self.each
        return torch.relu(torch.flatten(x, 1) + self.last) @ self.matrix


class WithViews(User):
    def between(self, x):
        y = x.view(x.size(0), -1)
        z = x.view(-1, 64)
        return fn.relu(y) + z.tanh().view(x.shape[0], 64)


class WithCat(User):
    def between(self, x):
        one, two = x.chunk(2, 1)
        largest, _ = x.max(dim=1, keepdim=True)
        return torch.cat([one * two, x, largest * x], dim=1)


class WithGates(User):
    """Channels weighed by space and space weighed by channels, in place."""

    def between(self, x):
        x = x * torch.sigmoid(x.mean((2, 3), True))
        x = x * x.mean(1, keepdim=True)
        x += 1
        return x.mul(2).add_(x)


class WithGroupNorm(User):
    def add_layers(self):
        self.norm = nn.GroupNorm(2, 4)
        self.act = nn.ReLU(inplace=True)

    def between(self, x):
        return self.act(self.norm(x))


class WithBatchNorm1d(User):
    def add_layers(self):
        self.hidden = nn.Linear(64, 6)
        self.norm = nn.BatchNorm1d(6)

    def between(self, x):
        return fn.gelu(self.norm(self.hidden(x.flatten(1))))


class WithAveragedNorm(User):
    """Batch norm that averages over all batches has no stacked form, and buffers."""

    def add_layers(self):
        self.norm = nn.BatchNorm2d(4, momentum=None)
        self.pool = nn.AvgPool2d(2)

    def between(self, x):
        return self.pool(self.norm(x))


class WithOddConvolutions(User):
    def add_layers(self):
        self.odd = nn.Conv2d(4, 6, 3, padding="same", dilation=2, groups=2, bias=False)
        self.round = nn.Conv2d(6, 3, 3, padding=1, padding_mode="circular")

    def between(self, x):
        return self.round(self.odd(x))


class Tied(User):
    """One layer twice, two layers with one weight, and a parameter that nobody uses."""

    def add_layers(self):
        self.one = nn.Conv2d(4, 4, 1)
        self.two = nn.Conv2d(4, 4, 1, bias=False)
        self.two.weight = self.one.weight
        self.line = nn.Conv1d(4, 4, 1)
        self.other = nn.Conv1d(4, 4, 1)
        self.other.weight = self.line.weight
        self.unused = nn.Parameter(torch.ones(3))

    def between(self, x):
        x = self.two(self.one(fn.relu(self.one(x))))
        return self.other(self.line(x.flatten(2)))


class BranchOnShape(User):
    """Cannot be traced, but is the same for all copies; batch norm within."""

    def add_layers(self):
        self.norm = nn.BatchNorm2d(4)

    def between(self, x):
        return self.norm(x) if x.shape[1] > 2 else x


class BranchOnValues(User):
    """Each copy goes its own way."""

    def add_layers(self):
        self.norm = nn.BatchNorm2d(4)

    def between(self, x):
        return self.norm(x) if x.sum() > 0 else torch.tanh(self.norm(x) * 2)


class DropoutLayer(User):
    def add_layers(self):
        self.drop = nn.Dropout(0.5)

    def between(self, x):
        return self.drop(x)


def users(kind, engine="sequential", dtype="float64") -> Case:
    """A case with a module of this file."""
    name = f"{__name__}:{kind.__name__}"
    sys.modules.setdefault(__name__, sys.modules[kind.__module__])
    SHAPES[name] = SIDE
    try:
        return engine_case(engine, name, dtype)
    finally:
        del SHAPES[name]


KNOWN = (WithParameters, WithViews, WithCat, WithGates, WithGroupNorm, WithBatchNorm1d)
UNKNOWN = {
    WithLayerNorm: ["norm (LayerNorm)"],
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


# bfloat16.


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


# Compiled.


class Least(nn.Module):
    def __init__(self, shape, classes) -> None:
        super().__init__()
        self.conv = nn.Conv2d(shape[0], 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        return self.head(fn.relu(self.norm(self.conv(x))).flatten(1))


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")
@pytest.mark.filterwarnings("default")
def test_a_compiled_step_equals_sequential(record_property):
    """7 devices in chunks of 4: one lacks; even and uneven steps are two programs."""
    case = users(Least)
    engine = stacked(case, 4, compiled=True)
    label = "stacked and compiled"
    check(case, engine, "float64", record_property, label)
    check(case, engine, "float64", record_property, label, local_steps=np.full(7, 2))
    few = {name: getattr(case.order, name)[5:6] for name in FIELDS}
    check(case, engine, "float64", record_property, label, **few)
    assert set(engine.all_steps.programs) == {(4, True)}


def test_engines_of_one_model_share_a_program(record_property, monkeypatch):
    """Other data, parts and first weights, the same program; another rate, another."""
    monkeypatch.setattr(torch, "compile", lambda written, **_: written)
    monkeypatch.setattr(compiled, "PROGRAMS", programs := {})
    first, second = users(Least), users(Least)
    more = noise(SIDE, train=77)
    more = replace(more, train_images=255 - more.train_images)
    second.samples.__init__(more, torch.float64, CPU)
    second.batches.samples = second.batches.samples % 77
    for case in (first, second):
        even = {"local_steps": np.full(7, 2)}
        check(case, stacked(case, 7, compiled=True), "float64", record_property, "shared", **even)
    assert len(programs) == 1
    assert not torch.equal(first.samples.mean, second.samples.mean)
    engine = stacked(first, 7, compiled=True, learning_rate=0.1)
    engine.train(first.models, replace(first.order, local_steps=np.full(7, 2)))
    assert len(programs) == 2


def test_a_signature_tells_modules_apart():
    class Strided(Least):
        def __init__(self, stride) -> None:
            super().__init__(SIDE, 5)
            self.stride = stride

        def forward(self, x):
            return super().forward(x[:, :, :: self.stride])

    class Scaled(Least):
        def __init__(self, scale) -> None:
            super().__init__(SIDE, 5)
            self.scale = torch.tensor(scale)

        def forward(self, x):
            return super().forward(x) * self.scale

    def signature(module, **options):
        return StackedModule(module, **options).signature()

    assert signature(Least(SIDE, 5)) == signature(Least(SIDE, 5))
    assert signature(Least(SIDE, 5)) != signature(Least(SIDE, 5), training=False)
    assert signature(Strided(1)) == signature(Strided(1)) != signature(Strided(2))
    # A tensor that is no parameter is not in the text: such a module never shares.
    assert signature(Scaled(1.0)) != signature(Scaled(1.0))
    other = Least(SIDE, 5)
    other.norm.eps = 1e-3
    assert signature(other) != signature(Least(SIDE, 5))
    # Nor does one with a layer that is not known.
    assert signature(nn.Sequential(nn.Conv1d(1, 1, 1))) != signature(
        nn.Sequential(nn.Conv1d(1, 1, 1))
    )


def test_an_index_keeps_copies_together_that_takes_all_of_batch_and_channels():
    whole, some = slice(None), slice(0, 1)
    assert _keeps_channels((whole, whole))
    assert _keeps_channels((whole, whole, some, 0))
    for index in ((some, some), (whole, some), (some, whole), (whole,), whole, 0):
        assert not _keeps_channels(index)


def test_a_layers_gradient_is_a_convolution_here_unless_padding_reaches_beyond_the_kernel():
    assert has_grouped_gradient(nn.Conv2d(1, 1, 3, padding=2))
    assert not has_grouped_gradient(nn.Conv2d(1, 1, 3, padding=3))
    assert not has_grouped_gradient(nn.Conv2d(1, 1, (3, 1), padding=(2, 1)))
    assert not has_grouped_gradient(nn.Conv2d(1, 1, 3, padding="same"))
    assert not has_grouped_gradient(nn.Conv2d(1, 1, 3, dilation=2))
