"""The models: sizes and work by hand, first weights by the seed, and a user's own module."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from support import learning_cases
from torch import nn

from fedrt.errors import InputError
from fedrt.learning.models.architectures import (
    MODELS,
    check_trains,
    cycles_per_sample,
    forward_multiply_adds,
    make_model,
    parameter_count,
)

pytestmark = pytest.mark.numerical

CIFAR, FEMNIST, DIGITS = (3, 32, 32), (1, 28, 28), (1, 8, 8)


@pytest.mark.parametrize(
    ("name", "shape", "classes", "count"),
    [
        ("resnet20", CIFAR, 10, 269_722),
        ("resnet20", FEMNIST, 62, 272_814),
        ("lenet5", FEMNIST, 10, 431_080),
        ("small-cnn", DIGITS, 10, 6_090),
        ("smooth-cnn", DIGITS, 10, 6_090),
    ],
)
def test_parameter_counts(name, shape, classes, count):
    model = make_model(name, shape, classes, 0)
    assert parameter_count(model) == count
    assert model(torch.zeros(3, *shape)).shape == (3, classes)
    assert model.training


@pytest.mark.parametrize(
    ("name", "shape", "classes", "by_hand"),
    [
        # Input channels x output channels x 9 x output pixels, and the last layer.
        ("small-cnn", DIGITS, 10, 1 * 16 * 9 * 64 + 16 * 32 * 9 * 16 + 32 * 2 * 2 * 10),
        # Per stage of 3 blocks: its first convolution, then 5 alike (the first stage: 6).
        (
            "resnet20",
            CIFAR,
            10,
            3 * 16 * 9 * 1024
            + 6 * 16 * 16 * 9 * 1024
            + (16 + 5 * 32) * 32 * 9 * 256
            + (32 + 5 * 64) * 64 * 9 * 64
            + 64 * 10,
        ),
        (
            "resnet20",
            FEMNIST,
            62,
            1 * 16 * 9 * 784
            + 6 * 16 * 16 * 9 * 784
            + (16 + 5 * 32) * 32 * 9 * 196
            + (32 + 5 * 64) * 64 * 9 * 49
            + 64 * 62,
        ),
        (
            "lenet5",
            FEMNIST,
            10,
            1 * 20 * 25 * 24**2 + 20 * 50 * 25 * 8**2 + 50 * 4**2 * 500 + 500 * 10,
        ),
    ],
)
def test_multiply_adds_by_hand(name, shape, classes, by_hand):
    model = make_model(name, shape, classes, 0)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    assert forward_multiply_adds(model, shape) == by_hand
    assert cycles_per_sample(model, shape) == 3 * by_hand
    assert model.training
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_cycles_against_the_paper():
    """Its ResNet figures are 3 x the multiply-adds to 2 %; its LeNet-5 is not."""
    assert cycles_per_sample(make_model("small-cnn", DIGITS, 10, 0), DIGITS) == 252_672
    cifar = cycles_per_sample(make_model("resnet20", CIFAR, 10, 0), CIFAR)
    femnist = cycles_per_sample(make_model("resnet20", FEMNIST, 62, 0), FEMNIST)
    assert cifar == pytest.approx(123.9e6, rel=0.02)
    assert femnist == pytest.approx(94.2e6, rel=0.02)
    lenet5 = cycles_per_sample(make_model("lenet5", FEMNIST, 10, 0), FEMNIST)
    assert lenet5 == pytest.approx(6.9e6, rel=0.01)


@pytest.mark.parametrize("name", [*MODELS, "support.learning_cases:Linear"])
def test_first_weights_are_a_function_of_the_seed(name):
    shape = (1, 16, 16)
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    one = make_model(name, shape, 10, 3).state_dict()
    assert torch.equal(torch.random.get_rng_state(), state), "torch's generator was touched"
    torch.manual_seed(6)
    again, other = make_model(name, shape, 10, 3).state_dict(), make_model(name, shape, 10, 4)
    assert all(torch.equal(one[key], again[key]) for key in one)
    weights = [key for key in one if one[key].ndim > 1]
    assert all(not torch.equal(one[key], other.state_dict()[key]) for key in weights)


@pytest.mark.parametrize("name", MODELS)
def test_convolutions_start_he_normal(name):
    """Deviation sqrt(2 / fan in), fourth moment 3: five times the error of such estimates."""
    for layer in make_model(name, FEMNIST, 10, 0).modules():
        if isinstance(layer, nn.Conv2d):
            weight = layer.weight.detach().double()
            fan_in = layer.in_channels * layer.kernel_size[0] * layer.kernel_size[1]
            scaled = weight / math.sqrt(2 / fan_in)
            count = weight.numel()
            assert abs(float(scaled.mean())) < 5 / math.sqrt(count)
            assert float(scaled.square().mean()) == pytest.approx(1, abs=5 * math.sqrt(2 / count))
            assert float((scaled**4).mean()) == pytest.approx(3, abs=5 * math.sqrt(96 / count))


def test_a_shortcut_is_strided_and_zero_padded():
    """With the convolutions silenced a block passes on every second pixel between zeros."""
    block = make_model("resnet20", CIFAR, 10, 0).blocks[3].eval()
    nn.init.zeros_(block.conv2.weight)
    x = torch.rand(2, 16, 8, 8)
    y = block(x)
    assert y.shape == (2, 32, 4, 4)
    assert torch.equal(y[:, 8:24], x[:, :, ::2, ::2])
    assert not y[:, :8].any()
    assert not y[:, 24:].any()


def test_a_users_module_by_import_path():
    model = make_model("support.learning_cases:Linear", DIGITS, 10, 0)
    assert isinstance(model, learning_cases.Linear)
    assert parameter_count(model) == 650
    # Its own first weights are kept.
    assert bool((model.layer.bias == 0.25).all())
    assert cycles_per_sample(model, DIGITS) == 3 * 640


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("resnet2", DIGITS, "must be one of resnet20, lenet5, small-cnn, smooth-cnn, or an"),
        ("resnet20", (64,), "cannot be made for inputs of (64,)|does not fit inputs of (64,)"),
        ("lenet5", DIGITS, "does not fit inputs of (1, 8, 8)"),
        ("lenet5", (1, 28, 40), "does not fit inputs of (1, 28, 40)"),
        ("small-cnn", (64,), "cannot be made for inputs of (64,) and 10 classes: IndexError"),
        (
            "support.learning_cases:WrongShape",
            DIGITS,
            "it gives (2, 11) for two of them: must give (2, 10)",
        ),
        (
            "support.learning_cases:WrongInput",
            DIGITS,
            "does not fit inputs of (1, 8, 8): RuntimeError: ",
        ),
        (
            "support.learning_cases:ReturnsTuple",
            DIGITS,
            "it gives tuple for two of them: must give (2, 10)",
        ),
        ("support.learning_cases:NoParameters", DIGITS, "has no parameters to train"),
        ("support.learning_cases:Frozen", DIGITS, "has no parameters to train"),
        ("support.learning_cases:Raises", DIGITS, "ValueError: only for 11 classes"),
        ("support.learning_cases:TakesNothing", DIGITS, "cannot be made for inputs of (1, 8, 8)"),
        ("support.learning_cases:no_module", DIGITS, "must make a torch.nn.Module"),
        ("support.learning_cases:NOT_CALLABLE", DIGITS, "must be a class or a function"),
        ("support.learning_cases:Nowhere", DIGITS, "learning_cases has no Nowhere"),
        ("no_such_package:Model", DIGITS, "no_such_package cannot be imported"),
        ("learning_cases:", DIGITS, "must be an import path like package.module:Name"),
    ],
)
def test_what_is_no_fitting_model_is_one_line(name, shape, words):
    before = torch.random.get_rng_state()
    with pytest.raises(InputError) as caught:
        make_model(name, shape, 10, 0)
    (line,) = caught.value.lines
    assert line.replace('"', "'").startswith(f"scenario.learning.model = {name!r}: ")
    assert any(part in line for part in words.split("|")), line
    assert "\n" not in line
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        # Its last stage leaves one pixel of a 4 x 4 image: no deviation over a batch of one.
        ("resnet20", (1, 4, 4), "Expected more than 1 value per channel when training"),
        (
            "support.learning_cases:NoGradient",
            DIGITS,
            "RuntimeError: element 0 of tensors does not require",
        ),
    ],
)
def test_what_cannot_take_a_step_is_one_line(name, shape, words):
    model = make_model(name, shape, 10, 0)
    with pytest.raises(InputError) as caught:
        check_trains(model, name, shape, 1)
    (line,) = caught.value.lines
    assert line.startswith(f"scenario.learning.model = {name!r}: cannot train on inputs of (1, ")
    assert words in line


@pytest.mark.parametrize("name", [*MODELS, "support.learning_cases:WithDropout"])
def test_trying_a_step_leaves_no_trace(name):
    model = make_model(name, (1, 16, 16), 10, 0)
    before, state = copy.deepcopy(model.state_dict()), torch.random.get_rng_state()
    check_trains(model, name, (1, 16, 16), 32)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
