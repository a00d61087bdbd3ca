"""Direct convolutions by our own kernels against torch's own, and where they are not for."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as fn

from fedrt.learning.stacked.kernels.direct import LEAST, convolve, is_direct, tiling
from fedrt.learning.stacked.kernels.register_tiles import ACROSS, TILES, lanes

pytestmark = pytest.mark.numerical

EXACT = {"rtol": 1e-12, "atol": 1e-11}
WIDTH = ACROSS * lanes(8)


def layer_of(channels, outputs, size, padding=0, **options) -> nn.Conv2d:
    return nn.Conv2d(channels, outputs, size, padding=padding, **options)


@given(
    st.integers(1, 3),
    st.sampled_from([4, 5, 7, 13]),
    st.sampled_from([4, 6, 11, 20]),
    st.tuples(st.integers(1, 4), st.integers(1, 11)),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.integers(4, 8), st.integers(9, 12)),
    st.booleans(),
    st.sampled_from([WIDTH // 2, WIDTH, 3 * WIDTH // 2]),
)
def test_a_direct_convolution_is_torchs(
    copies, channels, outputs, size, padding, side, biased, batch
):
    """Values and all gradients: tiles and vectors that overlap, kernels of any width, padding."""
    draw = torch.Generator().manual_seed(copies + 7 * channels + outputs)
    kind = {"dtype": torch.float64, "generator": draw}
    layer = layer_of(channels, outputs, size, padding, bias=biased)
    x = torch.randn(batch, copies * channels, *side, **kind).requires_grad_()
    assume(side[0] + 2 * padding[0] >= size[0] and side[1] + 2 * padding[1] >= size[1])
    assume(is_direct(layer, x))
    weight = torch.randn(copies, outputs, channels, *size, **kind).requires_grad_()
    bias = torch.randn(copies, outputs, **kind).requires_grad_() if biased else None
    wide = None if bias is None else bias.flatten()
    wanted = fn.conv2d(x, weight.flatten(0, 1), wide, 1, padding, 1, copies)
    got = convolve(x, weight, bias, layer)
    torch.testing.assert_close(got, wanted, **EXACT)
    along = torch.randn(wanted.shape, **kind)
    leaves = [x, weight] if bias is None else [x, weight, bias]
    for mine, torchs in zip(
        torch.autograd.grad(got, leaves, along),
        torch.autograd.grad(wanted, leaves, along),
        strict=True,
    ):
        torch.testing.assert_close(mine, torchs, **EXACT)


@pytest.mark.parametrize("channels", [1, 20])
def test_in_float32_it_is_as_exact_as_the_library(channels):
    """Against the same in float64: the layers of LeNet-5, which sum up to 18,432 products."""
    draw = torch.Generator().manual_seed(channels)
    layer = layer_of(channels, 20, 5)
    x = torch.randn(32, channels, 28, 28, generator=draw)
    weight = torch.randn(1, 20, channels, 5, 5, generator=draw).requires_grad_()
    along = torch.randn(32, 20, 24, 24, generator=draw)
    exact = weight.detach().double().requires_grad_()
    wanted = torch.autograd.grad(fn.conv2d(x.double(), exact[0]), exact, along.double())[0]
    own = torch.autograd.grad(convolve(x, weight, None, layer), weight, along)[0]
    torchs = torch.autograd.grad(fn.conv2d(x, weight[0]), weight, along)[0]
    error, theirs = ((found - wanted).abs().max() for found in (own, torchs))
    assert error <= 4 * theirs


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (layer_of(4, LEAST - 1, 3), (16, 4, 8, 8)),
        (layer_of(4, 8, 3, stride=2), (16, 4, 9, 9)),
        (layer_of(4, 8, 3, dilation=2), (16, 4, 9, 9)),
        (layer_of(4, 8, 3, "same"), (16, 4, 8, 8)),
        (layer_of(4, 8, 3, groups=2), (16, 4, 8, 8)),
        (layer_of(4, 8, 3), (1, 4, 4, 4)),
        (layer_of(4, 8, 3), (5, 4, 9, 9)),
    ],
)
def test_what_does_not_fit_is_left_to_others(layer, shape):
    assert not is_direct(layer, torch.zeros(shape))
    assert is_direct(layer_of(4, 8, 3), torch.zeros(16, 4, 8, 8))


def test_few_channels_only_where_nobody_asks_for_their_gradient():
    layer, x = layer_of(1, 8, 3), torch.zeros(16, 1, 8, 8)
    assert is_direct(layer, x)
    assert not is_direct(layer, x.requires_grad_())
    assert not is_direct(layer, torch.zeros(16, 1, 8, 8, dtype=torch.bfloat16))


@given(st.integers(LEAST, 200))
def test_tiles_hold_everyone_and_say_who_comes_again(count):
    tile, places, again = tiling(count)
    assert tile in TILES
    assert len(places) == -(-count // tile) * tile
    once = [place for n, place in enumerate(places) if n not in again]
    assert once == list(range(count))
    rows = [places[n : n + tile] for n in range(0, len(places), tile)]
    assert all(row == list(range(row[0], row[0] + tile)) for row in rows)
