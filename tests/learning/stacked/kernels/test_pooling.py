"""Max pooling with the batch innermost, against torch's own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as fn

from fedrt.learning.stacked.kernels.pooling import over_space, windows_side_by_side

pytestmark = pytest.mark.numerical


def batch_innermost(x: torch.Tensor) -> torch.Tensor:
    return x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2)


@given(
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(4, 9), st.integers(4, 9)),
    st.integers(1, 5),
    st.integers(2, 19),
    st.sampled_from([torch.float32, torch.float64]),
    st.integers(0, 10**6),
)
def test_pooling_is_torchs_to_the_bit(size, side, planes, batch, dtype, seed):
    """Values and gradients: ties, infinities, what is no number, rows and columns left over."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randint(-2, 3, (batch, planes, *side), generator=draw).to(dtype)
    x[torch.rand(x.shape, generator=draw) < 0.1] = -torch.inf
    x[torch.rand(x.shape, generator=draw) < 0.05] = torch.nan
    plain, inner = x.clone().requires_grad_(), batch_innermost(x).requires_grad_()
    wanted, got = fn.max_pool2d(plain, size), over_space(fn.max_pool2d, inner, size)
    assert got.grad_fn is not None
    assert got.stride(0) == 1
    torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)
    along = torch.randn(wanted.shape, generator=draw, dtype=dtype)
    (mine,) = torch.autograd.grad(got, inner, along)
    (torchs,) = torch.autograd.grad(wanted, plain, along)
    assert torch.equal(mine, torchs)


@pytest.mark.parametrize(
    "layer",
    [
        nn.MaxPool2d(3, 2),
        nn.MaxPool2d(2, padding=1),
        nn.MaxPool2d(2, dilation=2, stride=2),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.MaxPool2d((1, 300)),
        nn.AvgPool2d(2),
    ],
)
def test_other_pooling_is_left_to_torch(layer):
    assert windows_side_by_side(layer, (), {}) is None
    x = torch.randn(3, 2, 7, 301)
    pooled = over_space(layer, batch_innermost(x))
    torch.testing.assert_close(pooled, layer(x))
    assert pooled.stride(0) == 1


def test_windows_side_by_side_have_a_pass_of_their_own():
    assert windows_side_by_side(nn.MaxPool2d(2), (), {}) == (2, 2)
    assert windows_side_by_side(nn.MaxPool2d((3, 1), (3, 1)), (), {}) == (3, 1)
    assert windows_side_by_side(fn.max_pool2d, (2,), {"stride": 2}) == (2, 2)
    assert windows_side_by_side(fn.max_pool2d, (2,), {"stride": 1}) is None
    x = batch_innermost(torch.randn(3, 2, 4, 4).requires_grad_())
    assert "_Pool" in str(over_space(nn.MaxPool2d(2), x).grad_fn.next_functions)


def test_windows_greater_than_the_image_are_refused_as_torch_does():
    with pytest.raises(RuntimeError, match="too small"):
        over_space(fn.max_pool2d, batch_innermost(torch.randn(3, 2, 4, 4)), 5)
