"""Convolutions and batch norm of copies whose images lie in one piece, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as fn

from fedrt.learning import copies

CASES = [
    (3, 2, 6, 6, 16, 16, 1),
    (2, 2, 8, 4, 16, 32, 2),
    (1, 3, 5, 7, 3, 16, 2),
    (2, 4, 8, 8, 32, 64, 1),
]


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("case", CASES)
def test_a_convolution_of_copies_is_torchs_with_its_gradients(case):
    count, batch, height, width, channels, outputs, stride = case
    x = draw(count, batch, height, width, channels).requires_grad_()
    weight = draw(count, outputs, channels, 3, 3).requires_grad_()
    y, _ = copies.convolve(x, weight, stride)
    wanted = torch.stack(
        [
            fn.conv2d(own.permute(0, 3, 1, 2), kernel, None, stride, 1).permute(0, 2, 3, 1)
            for own, kernel in zip(x, weight, strict=True)
        ]
    )
    torch.testing.assert_close(y, wanted)
    pull = draw(*y.shape)
    found = torch.autograd.grad(y, (x, weight), pull)
    torch.testing.assert_close(found, torch.autograd.grad(wanted, (x, weight), pull))


def test_moments_from_shares_are_those_of_the_whole():
    x = draw(2, 4, 4, 4, 3)
    tiles = x.reshape(2, 8, 8, 3)
    variance, mean = torch.var_mean(tiles, dim=2, correction=0)
    shares = torch.stack([mean, variance * 8], dim=2)
    torch.testing.assert_close(copies.moments_of(x, shares), copies.moments_of(x, None))


def test_batch_norm_of_copies_is_torchs_with_its_gradients():
    x = draw(2, 3, 4, 5, 6).requires_grad_()
    weight, bias = draw(2, 6).requires_grad_(), draw(2, 6).add(1).requires_grad_()
    y = copies.normalise(x, *copies.moments_of(x.detach(), None), weight, bias, 1e-3)
    wanted = torch.stack(
        [
            fn.batch_norm(
                own.permute(0, 3, 1, 2), None, None, w, b, training=True, eps=1e-3
            ).permute(0, 2, 3, 1)
            for own, w, b in zip(x, weight, bias, strict=True)
        ]
    )
    torch.testing.assert_close(y, wanted)
    pull = draw(*y.shape)
    held = (x, weight, bias)
    torch.testing.assert_close(
        torch.autograd.grad(y, held, pull), torch.autograd.grad(wanted, held, pull)
    )


def test_what_the_kernels_take():
    assert copies.fits(nn.Conv2d(3, 16, 3, padding=1))
    assert copies.fits(nn.Conv2d(32, 64, 3, 2, padding=1))
    for other in (
        nn.Conv2d(16, 20, 3, padding=1),
        nn.Conv2d(16, 16, 3),
        nn.Conv2d(16, 16, 5, padding=1),
        nn.Conv2d(16, 16, 3, 3, padding=1),
        nn.Conv2d(16, 16, 3, padding=1, groups=2),
        nn.Conv2d(16, 16, 3, padding=1, dilation=2),
        nn.Conv2d(16, 256, 3, padding=1),
        nn.Conv2d(200, 16, 3, padding=1),
    ):
        assert not copies.fits(other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("case", CASES)
def test_the_kernels_compute_the_plain_forms(case):
    from fedrt.learning import kernels

    count, batch, height, width, channels, outputs, stride = case
    channels = max(16, channels)
    x, taps = draw(count, batch, height, width, channels), draw(count, 9, channels, outputs)
    size = (-(-height // stride), -(-width // stride))
    y, _ = copies.convolve_copies(x, taps, stride, 1, False, *size)
    pull = draw(*y.shape)
    back, _ = copies.convolve_copies(pull, taps, 1, stride, True, height, width)
    weights = copies.weight_gradient_copies(x, pull, stride).sum(0)
    near = {"rtol": 1e-4, "atol": 1e-4}
    x, taps, pull = (tensor.float().cuda() for tensor in (x, taps, pull))
    got, moments = kernels.convolve(x, taps, stride, 1, False, size)
    torch.testing.assert_close(got.cpu().double(), y, **near)
    if moments.shape[1]:
        for one, two in zip(
            copies.moments_of(got, moments), copies.moments_of(got, None), strict=True
        ):
            torch.testing.assert_close(one, two, **near)
    got = kernels.convolve(pull, taps, 1, stride, True, (height, width))[0]
    torch.testing.assert_close(got.cpu().double(), back, **near)
    got = kernels.weight_gradient(x, pull, stride).sum(0)
    torch.testing.assert_close(got.cpu().double(), weights, **near)
