"""Layers of many copies at once that work on the last axis, or look up rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as fn
from torch.nn.attention import SDPBackend, sdpa_kernel


@contextmanager
def plain_attention() -> Iterator[None]:
    """Attention layers by their plain operations in the block: the fused ones know no copies."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def knows(layer: nn.Module) -> bool:
    """Whether there is a rule for the layer here."""
    if isinstance(layer, nn.Embedding):
        plain = layer.padding_idx is None and layer.max_norm is None
        return plain and not (layer.sparse or layer.scale_grad_by_freq)
    return isinstance(layer, nn.LayerNorm)


def embed(numbers: Tensor, weight: Tensor) -> Tensor:
    """The rows of each copy's own table (copies, rows, size) that its numbers name.

    All tables lie below each other, so that one look-up does for all copies.
    """
    copies, rows = weight.shape[:2]
    first = torch.arange(copies, device=numbers.device) * rows
    places = numbers + first.view(-1, *[1] * (numbers.dim() - 1))
    return fn.embedding(places, weight.flatten(0, 1))


def normalise(x: Tensor, layer: nn.LayerNorm, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Layer norm over the last axes of (copies, batch, ...), each copy with its own parameters."""
    y = fn.layer_norm(x, layer.normalized_shape, eps=layer.eps)
    between = x.dim() - 1 - len(layer.normalized_shape)
    for held, combine in ((weight, torch.mul), (bias, torch.add)):
        if held is not None:
            own = held.view(len(held), *[1] * between, *held.shape[1:])
            y = combine(y, own.to(y.dtype))
    return y
