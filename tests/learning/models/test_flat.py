"""A module's state as one vector: what goes in comes out, and training goes through it."""

from __future__ import annotations

import pytest
import torch
from support.learning_cases import CPU, SHAPES, state_vector
from torch import nn
from torch.nn import functional as fn

from fedrt.learning.models.architectures import MODELS, make_model, parameter_count
from fedrt.learning.models.flat import FlatModel

pytestmark = pytest.mark.numerical


def made(name: str, seed: int = 0) -> nn.Module:
    return make_model(name, SHAPES[name], 5, seed)


def inputs(name: str, seed: int, dtype=torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(6, *SHAPES[name], generator=generator, dtype=dtype)
    return x, torch.randint(5, (6,), generator=generator)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_state_goes_in_and_out(name, dtype):
    one, two = FlatModel(made(name), dtype, CPU), FlatModel(made(name, 1), dtype, CPU)
    x, _ = inputs(name, 0, dtype)
    one.module(x)
    one.module(x)
    state = one.state()
    assert state.dtype == dtype
    assert one.size == len(state)
    assert one.num_parameters == parameter_count(one.module)
    assert torch.equal(state, state_vector(one.module))
    two.load(state)
    wanted, got = one.module.state_dict(), two.module.state_dict()
    assert all(torch.equal(wanted[key], got[key]) for key in wanted)
    assert torch.equal(two.state(), state)
    one.module.eval(), two.module.eval()
    assert torch.equal(one.module(x), two.module(x))


def test_buffers_and_counts_are_part_of_the_state():
    model = FlatModel(made("resnet20"), torch.float32, CPU)
    # 19 norms with two buffers each of 7 x 16, 6 x 32 and 6 x 64 numbers, and a count.
    assert model.size - model.num_parameters == 2 * (7 * 16 + 6 * 32 + 6 * 64) + 19
    before = model.state()
    model.module(inputs("resnet20", 0)[0])
    after = model.state()
    same = slice(0, model.num_parameters)
    assert torch.equal(after[same], before[same])
    assert (
        after[model.num_parameters : model.num_held] != before[same.stop : model.num_held]
    ).all()
    assert (after[-19:] == 1).all()
    # The mean of counts need not be whole; the module gets the nearest.
    model.load(torch.cat([after[:-19], torch.full((19,), 6.6)]))
    assert model.module.norm.num_batches_tracked.dtype == torch.int64
    assert int(model.module.norm.num_batches_tracked) == 7


def test_a_state_is_a_copy():
    model = FlatModel(made("small-cnn"), torch.float32, CPU)
    state = model.state()
    kept = state.clone()
    model.parameters.add_(1.0)
    assert torch.equal(state, kept)
    model.load(state)
    model.parameters.add_(1.0)
    assert torch.equal(state, kept)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_land_in_the_flat_gradient(name):
    model, plain = FlatModel(made(name), torch.float64, CPU), made(name).double()
    x, y = inputs(name, 1, torch.float64)
    for _ in range(2):
        for module in (model.module, plain):
            fn.cross_entropy(module(x), y).backward()
    by_hand = torch.cat([p.grad.reshape(-1) for p in plain.parameters()])
    assert torch.equal(model.gradient, by_hand)
    model.gradient.zero_()
    assert all(not p.grad.any() for p in model.module.parameters())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_on_the_vector_are_steps_of_torchs_optimiser(name, dtype):
    model, plain = FlatModel(made(name), dtype, CPU), made(name).to(dtype)
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9)
    velocity = torch.zeros_like(model.gradient)
    for step in range(4):
        x, y = inputs(name, step, dtype)
        optimiser.zero_grad()
        fn.cross_entropy(plain(x), y).backward()
        optimiser.step()
        model.gradient.zero_()
        fn.cross_entropy(model.module(x), y).backward()
        velocity.mul_(0.9).add_(model.gradient)
        model.parameters.add_(velocity, alpha=-0.05)
    moved = float((state_vector(plain) - state_vector(made(name).to(dtype))).norm())
    worst = float((model.state() - state_vector(plain)).abs().max())
    assert worst <= (1e-6 if dtype == torch.float32 else 1e-12) * moved
    # Still the same memory: a change of the vector is one of the module, and back.
    start = 0
    for parameter in model.module.parameters():
        assert parameter.data_ptr() == model.held[start:].data_ptr()
        assert parameter.grad.data_ptr() == model.gradient[start:].data_ptr()
        start += parameter.numel()


def test_whole_number_buffers_of_any_shape_and_tied_weights():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
            self.two.weight = self.one.weight
            self.register_buffer("seen", torch.arange(6).reshape(2, 3))
            self.register_buffer("scale", torch.rand(2, 2))

    model = FlatModel(Odd(), torch.float32, CPU)
    assert (model.num_parameters, model.num_held, model.size) == (15, 19, 25)
    state = model.state() + 1
    model.load(state)
    assert torch.equal(model.module.seen, torch.arange(1, 7).reshape(2, 3))
    assert torch.equal(model.state(), state)
    assert model.module.one.weight is model.module.two.weight
