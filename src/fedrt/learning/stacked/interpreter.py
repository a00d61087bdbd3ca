"""Carries out a traced module for many copies at once, layer by layer.

Between layers a value is either `folded`, (batch, copies x channels, ...), or `apart`, (copies,
batch, channels, ...); layers ask for the form they need. What works on single values or on space
alone is carried out as it is, and what has no rule runs under `vmap`.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call, vmap
from torch.nn import functional as fn
from torch.utils import _pytree as tree

from fedrt.learning.stacked import layers
from fedrt.learning.stacked.kernels import direct, rows
from fedrt.learning.stacked.kernels.grouped import convolve, has_grouped_gradient
from fedrt.learning.stacked.kernels.pooling import over_space

# Layers and functions that act on every value, or on space within a channel.
POINTWISE_LAYERS = (nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.Identity)
SPATIAL_LAYERS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
POINTWISE = {torch.relu, fn.relu, fn.gelu, fn.silu, torch.tanh, torch.sigmoid, fn.leaky_relu}
POINTWISE_METHODS = {"relu", "tanh", "sigmoid"}
BINARY = {operator.add, operator.sub, operator.mul, operator.iadd, torch.add, torch.mul}


def _spatial_functions() -> set[Any]:
    return {fn.max_pool2d, fn.avg_pool2d, fn.adaptive_avg_pool2d}


@dataclass(frozen=True)
class Copies:
    """A value of all copies, in one of two memory layouts."""

    data: Tensor
    count: int
    is_folded: bool

    def folded(self) -> Tensor:
        """The value in the layout (batch, copies x channels, ...)."""
        if self.is_folded:
            return self.data
        return self.data.transpose(0, 1).flatten(1, 2)

    def apart(self) -> Tensor:
        """The value in the layout (copies, batch, channels, ...)."""
        if not self.is_folded:
            return self.data
        batch, channels, *rest = self.data.shape
        split = self.data.reshape(batch, self.count, channels // self.count, *rest)
        return split.transpose(0, 1)

    @property
    def own_shape(self) -> tuple[int, ...]:
        """The shape of one copy's value."""
        if not self.is_folded:
            return tuple(self.data.shape[1:])
        batch, channels, *rest = self.data.shape
        return (batch, channels // self.count, *rest)

    @property
    def own_dim(self) -> int:
        """How many axes one copy's value has."""
        return self.data.dim() - (0 if self.is_folded else 1)

    def same(self, data: Tensor) -> Copies:
        """Another value in the same layout."""
        return Copies(data, self.count, self.is_folded)


def knows_layer(layer: nn.Module) -> bool:
    """Whether a layer has a rule for many copies at once."""
    if isinstance(layer, nn.Conv2d):
        return layer.padding_mode == "zeros"
    if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        return layer.track_running_stats and layer.momentum is not None
    if isinstance(layer, nn.Flatten):
        return layer.start_dim == 1 and layer.end_dim == -1
    return layers.knows(layer) or isinstance(
        layer, (nn.Linear, nn.GroupNorm, *POINTWISE_LAYERS, *SPATIAL_LAYERS)
    )


class Stacker(fx.Interpreter):
    """Interprets a traced module for all copies at once."""

    def __init__(
        self,
        module: nn.Module,
        graph: fx.Graph,
        parameters: Mapping[str, Tensor],
        buffers: Mapping[str, Tensor],
        count: int,
        grouped_gradients: bool,
    ) -> None:
        super().__init__(module, graph=graph)
        self.parameters, self.buffers, self.count = parameters, buffers, count
        self.grouped_gradients = grouped_gradients
        self.form = "grouped"

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A parameter or buffer that the module uses directly, of all copies."""
        held = self.parameters.get(target, self.buffers.get(target))
        if held is None:
            return super().get_attr(target, args, kwargs)
        return Copies(held, self.count, is_folded=False)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        layer = self.fetch_attr(target)
        if kwargs or len(args) != 1 or not knows_layer(layer):
            return self._layer_apart(target, layer, args, kwargs)
        (value,) = args
        if isinstance(layer, nn.Conv2d):
            return self._convolve(target, layer, value)
        if isinstance(layer, nn.Linear):
            return self._multiply(target, layer, value)
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            return self._normalise(target, layer, value)
        if isinstance(layer, nn.GroupNorm):
            weight, bias = self._wide(target, "weight"), self._wide(target, "bias")
            groups = layer.num_groups * self.count
            return self._fold(fn.group_norm(value.folded(), groups, weight, bias, layer.eps))
        if isinstance(layer, nn.Embedding):
            found = layers.embed(value.apart(), self.parameters[f"{target}.weight"])
            return Copies(found, self.count, is_folded=False)
        if isinstance(layer, nn.LayerNorm):
            own = (self.parameters.get(f"{target}.{name}") for name in ("weight", "bias"))
            return Copies(layers.normalise(value.apart(), layer, *own), self.count, False)
        if isinstance(layer, nn.Flatten):
            return self._fold(value.folded().flatten(1))
        if isinstance(layer, SPATIAL_LAYERS):
            return self._fold(over_space(layer, value.folded()))
        return value.same(layer(value.data))

    def _fold(self, data: Tensor) -> Copies:
        return Copies(data, self.count, is_folded=True)

    def _wide(self, target: str, name: str) -> Tensor | None:
        """A layer's parameter or buffer with all copies along its first axis."""
        held = self.parameters.get(f"{target}.{name}", self.buffers.get(f"{target}.{name}"))
        return None if held is None else held.flatten(0, 1)

    def _convolve(self, target: str, layer: nn.Conv2d, value: Copies) -> Copies:
        x = value.folded()
        if self.form != "grouped" and rows.has_rows(layer, x):
            own, bias = self.parameters[f"{target}.weight"], self.parameters.get(f"{target}.bias")
            if self.form == "direct" and direct.is_direct(layer, x):
                return self._fold(direct.convolve(x, own, bias, layer))
            return self._fold(rows.convolve(x, own, bias, layer))
        weight, bias = _as(self._wide(target, "weight"), x), _as(self._wide(target, "bias"), x)
        assert weight is not None
        groups = layer.groups * self.count
        if self.grouped_gradients and has_grouped_gradient(layer):
            y = convolve(x, weight, layer.stride, layer.padding, groups)  # type: ignore[arg-type]
            return self._fold(y if bias is None else y + bias[:, None, None])
        x = x.contiguous(memory_format=torch.channels_last)
        y = fn.conv2d(x, weight, bias, layer.stride, layer.padding, layer.dilation, groups)
        return self._fold(y)

    def _multiply(self, target: str, layer: nn.Linear, value: Copies) -> Copies:
        x = value.apart()
        weight = self.parameters[f"{target}.weight"].to(x.dtype)
        bias = self.parameters.get(f"{target}.bias")
        shape = x.shape
        x = x.reshape(self.count, -1, shape[-1])
        if x.device.type == "cpu":
            # The other way round: the batch stays innermost, and the weights' gradient comes out
            # as the weights lie.
            y = torch.bmm(weight, x.transpose(1, 2))
            y = y if bias is None else y + bias.to(x.dtype)[:, :, None]
            y = y.transpose(1, 2)
        else:
            y = torch.bmm(x, weight.transpose(1, 2))
            y = y if bias is None else y + bias.to(x.dtype)[:, None]
        return Copies(y.reshape(*shape[:-1], -1), self.count, is_folded=False)

    def _normalise(
        self, target: str, layer: nn.BatchNorm1d | nn.BatchNorm2d, value: Copies
    ) -> Copies:
        if layer.training:
            self.buffers[f"{target}.num_batches_tracked"].add_(1)
        y = fn.batch_norm(
            value.folded(),
            self._wide(target, "running_mean"),
            self._wide(target, "running_var"),
            self._wide(target, "weight"),
            self._wide(target, "bias"),
            training=layer.training,
            momentum=layer.momentum or 0.0,
            eps=layer.eps,
        )
        return self._fold(y)

    def _layer_apart(self, target: str, layer: nn.Module, args: Any, kwargs: Any) -> Any:
        """A layer without a rule of its own, run for each copy by vmap."""
        prefix = f"{target}."
        own = {
            name.removeprefix(prefix): held
            for name, held in {**self.parameters, **self.buffers}.items()
            if name.startswith(prefix)
        }

        def call(held: Any, *values: Any, **named: Any) -> Any:
            return functional_call(layer, held, values, named)

        held = {name: Copies(tensor, self.count, is_folded=False) for name, tensor in own.items()}
        kept = {
            name: tensor.clone() for name, tensor in own.items() if prefix + name in self.buffers
        }
        try:
            with layers.plain_attention():
                return self._apart(call, (held, *args), kwargs)
        except RuntimeError:
            # A layer that looks at values, as batch norm with a plain mean does at its count.
            for name, tensor in kept.items():
                own[name].copy_(tensor)
            return self._one_by_one(call, (held, *args), kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        first = args[0] if args else None
        if isinstance(first, Copies):
            if target in POINTWISE:
                return first.same(target(first.data, *args[1:], **kwargs))
            if target in _spatial_functions():
                return self._fold(over_space(target, first.folded(), *args[1:], **kwargs))
            if target in BINARY and len(args) == 2 and not kwargs:
                return self._combine(target, first, args[1])
            if target is torch.flatten and (*args[1:], *kwargs.values()) == (1,):
                return self._fold(first.folded().flatten(1))
            if target is operator.getitem and _keeps_channels(args[1]):
                return self._fold(first.folded()[args[1]])
            if target is fn.pad and len(args) == 2 and not kwargs:
                return self._pad(first, args[1])
        return self._apart(target, args, kwargs)

    def _combine(self, target: Any, left: Copies, right: Any) -> Any:
        if not isinstance(right, Copies):
            return left.same(target(left.data, right))
        if left.own_shape[1:2] != right.own_shape[1:2] or left.own_dim != right.own_dim:
            # One is stretched along channels, which lie among the copies when folded.
            return self._apart(target, (left, right), {})
        if left.is_folded != right.is_folded and left.own_dim > 1:
            return self._fold(target(left.folded(), right.folded()))
        return left.same(target(left.data, right.data))

    def _pad(self, value: Copies, sizes: Sequence[int]) -> Any:
        """Padding: of space in either layout, of channels with the copies apart."""
        if len(sizes) <= 2 * (value.folded().dim() - 2):
            return self._fold(fn.pad(value.folded(), list(sizes)))
        x = value.folded()
        split = x.reshape(len(x), self.count, -1, *x.shape[2:])
        return self._fold(fn.pad(split, list(sizes)).flatten(1, 2))

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        value, *rest = args
        if isinstance(value, Copies):
            if target in POINTWISE_METHODS:
                return value.same(getattr(value.data, target)(*rest, **kwargs))
            if target == "flatten" and (*rest, *kwargs.values()) == (1,):
                return self._fold(value.folded().flatten(1))
            if target == "mean" and rest and _only_space(rest[0]) and not kwargs:
                return self._fold(value.folded().mean(*rest))
            if target == "view" and not isinstance(rest[0], torch.dtype):
                # A model's own values lie in one piece; a copy's among others need not.
                target = "reshape"

        def method(self_value: Any, *others: Any, **named: Any) -> Any:
            return getattr(self_value, target)(*others, **named)

        return self._apart(method, args, kwargs)

    def _apart(self, function: Any, args: Any, kwargs: Any) -> Any:
        """A function without a rule of its own, run for each copy by vmap."""
        leaves, form = tree.tree_flatten((args, kwargs))
        among = [n for n, leaf in enumerate(leaves) if isinstance(leaf, Copies)]
        if not among:
            return function(*args, **kwargs)
        plain: list[Any] = []

        def one(*values: Tensor) -> Any:
            filled = list(leaves)
            for n, value in zip(among, values, strict=True):
                filled[n] = value
            own_args, own_kwargs = tree.tree_unflatten(filled, form)
            result = function(*own_args, **own_kwargs)
            if any(isinstance(leaf, Tensor) for leaf in tree.tree_leaves(result)):
                return result
            plain.append(result)
            return values[0]

        values = _one_type([leaves[n].apart() for n in among])
        result = vmap(one, randomness="different")(*values)
        return plain[0] if plain else self._wrap(result)

    def _one_by_one(self, function: Any, args: Any, kwargs: Any) -> Any:
        """A function of tensors to tensors, called for one copy after the other."""
        leaves, form = tree.tree_flatten((args, kwargs))
        apart = _one_type([leaf.apart() for leaf in leaves if isinstance(leaf, Copies)])
        results = []
        for n in range(self.count):
            values = iter(apart)
            filled = [next(values)[n] if isinstance(leaf, Copies) else leaf for leaf in leaves]
            own_args, own_kwargs = tree.tree_unflatten(filled, form)
            results.append(function(*own_args, **own_kwargs))
        return self._wrap(tree.tree_map(lambda *each: torch.stack(each), *results))

    def _wrap(self, data: Any) -> Any:
        return tree.tree_map_only(Tensor, lambda t: Copies(t, self.count, is_folded=False), data)


def _one_type(values: list[Tensor]) -> list[Tensor]:
    """The values with bfloat16 widened where others are wider, since functions refuse a mixture."""
    types = {value.dtype for value in values if value.is_floating_point()}
    if len(types) < 2:
        return values
    widest = max(types, key=lambda kind: torch.finfo(kind).bits)
    return [value.to(widest) if value.is_floating_point() else value for value in values]


def _as(tensor: Tensor | None, like: Tensor) -> Tensor | None:
    return None if tensor is None else tensor.to(like.dtype)


def _keeps_channels(index: Any) -> bool:
    """Whether an index keeps batch and channels, so that copies stay together."""
    whole = slice(None)
    return isinstance(index, tuple) and len(index) >= 2 and index[0] == index[1] == whole


def _only_space(dims: Any) -> bool:
    return all(dim >= 2 for dim in ([dims] if isinstance(dims, int) else dims))
