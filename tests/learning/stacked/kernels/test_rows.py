"""Convolutions by rows, and pooling ahead of rectifiers, against torch's own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.learning_cases import engine_case
from support.stacks import check, stacked
from torch import fx, nn
from torch.nn import functional as fn

from fedrt.learning.models.architectures import MODELS
from fedrt.learning.stacked.kernels.rows import FEW, MANY, NARROW, convolve
from fedrt.learning.stacked.reorder import pool_before_relu

pytestmark = pytest.mark.numerical

EXACT = {"rtol": 1e-12, "atol": 1e-11}


@given(
    st.integers(1, 3),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 5]),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.tuples(st.integers(5, 9), st.integers(5, 9)),
    st.booleans(),
    st.integers(1, 3),
)
def test_a_convolution_by_rows_is_torchs(
    copies, channels, outputs, size, stride, padding, side, biased, batch
):
    """Values and all gradients; strides that leave inputs over, uneven kernels and padding."""
    draw = torch.Generator().manual_seed(copies + 7 * channels + outputs)
    kind = {"dtype": torch.float64, "generator": draw}
    layer = nn.Conv2d(channels, outputs, size, stride, padding, bias=biased)
    x = torch.randn(batch, copies * channels, *side, **kind).requires_grad_()
    weight = torch.randn(copies, outputs, channels, *size, **kind).requires_grad_()
    bias = torch.randn(copies, outputs, **kind).requires_grad_() if biased else None
    wide = None if bias is None else bias.flatten()
    wanted = fn.conv2d(x, weight.flatten(0, 1), wide, stride, padding, 1, copies)
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


@pytest.mark.parametrize("model", MODELS)
def test_every_model_by_rows_equals_sequential(model, record_property):
    """Also those for which it does not pay."""
    case = engine_case("sequential", model, "float64")
    engine = stacked(case, 3)
    engine.rule.stacked.form = "rows"
    check(case, engine, "float64", record_property, f"by rows, {model}")


@pytest.mark.parametrize("outputs", [FEW - 1, FEW, 2 * FEW + 1, MANY + 1])
def test_the_weights_gradient_in_parts_is_torchs(outputs):
    """Numbers of outputs below, at, beside and beyond those that are taken a few at a time."""
    layer = nn.Conv2d(2, outputs, 3).double()
    assert NARROW >= 3 * (3 * 2 + 1)
    x = torch.randn(2, 2, 6, 6, dtype=torch.float64)
    got = convolve(x, layer.weight[None], layer.bias[None], layer)
    along = torch.randn(got.shape, dtype=torch.float64)
    for mine, torchs in zip(
        torch.autograd.grad(got, list(layer.parameters()), along),
        torch.autograd.grad(layer(x), list(layer.parameters()), along),
        strict=True,
    ):
        torch.testing.assert_close(mine, torchs, **EXACT)


class Pooled(nn.Module):
    """Rectifiers before and after pooling, one of them used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.relu, self.pool = nn.ReLU(), nn.MaxPool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.relu(self.conv(x)))
        x = fn.max_pool2d(torch.relu(x - 0.1), 2)
        kept = fn.relu(x - 0.2)
        return fn.max_pool2d(kept, 4).flatten(1) + kept.mean((2, 3))


def test_pooling_goes_ahead_of_rectifiers_that_nothing_else_uses():
    torch.manual_seed(0)
    module = Pooled().double()
    graph = pool_before_relu(fx.Tracer().trace(module), module)
    order = [str(node.target) for node in graph.nodes if node.op != "placeholder"]
    assert order.index("pool") < order.index("relu")
    changed = fx.GraphModule(module, graph)
    # Whole numbers: many ties, of positive numbers too.
    x = torch.randint(-2, 3, (4, 1, 18, 18)).double()
    with torch.no_grad():
        module.conv.weight.copy_(module.conv.weight.sign())
        module.conv.bias.zero_()
    got, wanted = changed(x), module(x)
    assert torch.equal(got, wanted)
    leaves = list(module.parameters())
    for mine, torchs in zip(
        torch.autograd.grad(got.sum(), leaves),
        torch.autograd.grad(wanted.sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(mine, torchs, **EXACT)
