"""The stacked engine against the sequential one on the same order, models of all kinds.

Each limit is on the worst parameter difference after one edge round, relative to the norm of its
edge's update. The differences that were measured are in the summary, under "oracles".
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.learning_cases import CPU, SAME_EVERYWHERE, engine_case, noise
from support.stacks import FIELDS, LIMITS, check, gap, stacked
from support.users_models import SIDE, Least, users
from torch import nn
from torch.nn import functional as fn

from fedrt.learning.models.architectures import MODELS
from fedrt.learning.stacked import compiled
from fedrt.learning.stacked.interpreter import _keeps_channels
from fedrt.learning.stacked.kernels.grouped import convolve, has_grouped_gradient
from fedrt.learning.stacked.stack import StackedModule

pytestmark = pytest.mark.numerical


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
