"""Runs many copies of one module as one: the devices of a chunk side by side.

The module is traced once. Each of its layers is then carried out for all copies at a time: grouped
convolutions, batched matrix products, batch norm over all copies' channels; what works on single
values or on space alone is carried out as it is. A layer that has no such rule runs under `vmap`,
and `notes` says so. A module that cannot be traced runs under `vmap` as a whole.

Between layers a value is either `folded`, (batch, copies x channels, ...), or `apart`, (copies,
batch, channels, ...); layers ask for the form they need.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
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
from fedrt.learning.stacked.reorder import pool_before_relu

STACKED_FORMS = ("grouped", "rows", "direct")
"""How convolutions of many copies are carried out: by the library's grouped ones, by `rows`, or by
`direct` ones where they fit and else by rows."""

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


class _Tracer(fx.Tracer):
    """Traces through users' modules down to torch's own layers."""


_numbers = count()


class StackedModule:
    """A module for many copies, each with its own parameters, buffers and inputs."""

    def __init__(
        self,
        module: nn.Module,
        grouped_gradients: bool | None = None,
        form: str = "grouped",
        training: bool = True,
    ) -> None:
        # Traced as it will run: what asks whether it trains becomes a constant.
        self.module, self.training = module.train(training), training
        self.form = form
        # On a GPU unless told: a processor gains nothing from it.
        self.grouped_gradients = grouped_gradients
        self.number, self.notes = next(_numbers), list[str]()
        self.graph: fx.Graph | None = None
        try:
            self.graph = pool_before_relu(_Tracer().trace(module), module)
        except Exception as error:
            why = " ".join(str(error).split())[:100]
            how = "all of it runs under vmap, or copy by copy where that cannot be"
            self.notes.append(f"the model cannot be traced ({why}); {how}")
        self.other_names = _other_names(module)
        self.frozen = [name for name, p in module.named_parameters() if not p.requires_grad]
        self.one_by_one = False
        self.layers = dict(module.named_modules())
        self._find_unknown()

    def signature(self) -> str:
        """A text that is equal only for modules that run the same way on the same tensors."""
        if self.graph is None or self.notes or self.frozen:
            # What does not train is written into a program, and the text says nothing of it.
            return f"{self.notes} {self.number}"
        lines = [str(self.training), str(self.grouped_gradients), self.form]
        held = {name for name, _ in self.module.named_parameters()}
        held |= {name for name, _ in self.module.named_buffers()}
        for node in self.graph.nodes:
            lines.append(f"{node.op} {node.name} {node.target} {node.args} {node.kwargs}")
            if node.op == "call_module":
                lines.append(repr(self.layers[node.target]))
            if node.op == "get_attr" and self.other_names.get(node.target, node.target) not in held:
                # A tensor of the module's own, of which the text says nothing.
                return f"{node.target} {self.number}"
        return "\n".join([*lines, repr(self.other_names)])

    def _find_unknown(self) -> None:
        for node in self.graph.nodes if self.graph else ():
            if node.op == "call_module" and not _knows_layer(self.layers[node.target]):
                kind = type(self.layers[node.target]).__name__
                self.notes.append(f"layer {node.target} ({kind}) has no stacked form; vmap is used")

    def run(
        self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], inputs: Tensor
    ) -> Tensor:
        """The outputs (copies, batch, classes) for inputs (copies, batch, ...).

        Parameters and buffers have the copies on their first axis; in training buffers change in
        place. Parameters that do not train are the module's own, for all copies.
        """
        if self.frozen:
            parameters = {**parameters, **self._frozen(len(inputs))}
        parameters, buffers = self._all_names(parameters), self._all_names(buffers)
        # Of a model not traced, layers see whether they train: `training` is no constant there.
        self.module.train(self.training)
        if self.graph is None:
            return self._vmapped(parameters, buffers, inputs)
        count = len(inputs)
        grouped = inputs.is_cuda if self.grouped_gradients is None else self.grouped_gradients
        interpreter = _Stacker(self.module, self.graph, parameters, buffers, count, grouped)
        interpreter.form = "grouped" if grouped else self.form
        return interpreter.run(Copies(inputs, count, is_folded=False)).apart()

    def _frozen(self, count: int) -> dict[str, Tensor]:
        """The parameters that do not train, as if every copy had its own."""
        held = {name: self.module.get_parameter(name).detach() for name in self.frozen}
        return {name: tensor.expand(count, *tensor.shape) for name, tensor in held.items()}

    def _all_names(self, held: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors under all names that the module has for them; tied ones have several."""
        others = {other: held[name] for other, name in self.other_names.items() if name in held}
        return {**held, **others}

    def _vmapped(
        self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], inputs: Tensor
    ) -> Tensor:
        # Whoever wrote the model counted on one type throughout.
        if inputs.is_floating_point():
            inputs = inputs.to(next(iter(parameters.values())).dtype)

        def one(own: Any, kept: Any, x: Tensor) -> Any:
            return functional_call(self.module, (own, kept), (x,))

        if not self.one_by_one:
            run: Callable[..., Tensor] = vmap(one, randomness="different")
            before = {name: held.clone() for name, held in buffers.items()}
            try:
                with layers.plain_attention():
                    return run(dict(parameters), dict(buffers), inputs)
            except RuntimeError:
                # What depends on values, as a branch does, cannot be done for all copies at once.
                self.one_by_one = True
                for name, held in before.items():
                    buffers[name].copy_(held)
        scores = []
        for n, x in enumerate(inputs):
            own = {name: held[n] for name, held in parameters.items()}
            scores.append(one(own, {name: held[n] for name, held in buffers.items()}, x))
        return torch.stack(scores)


def _other_names(module: nn.Module) -> dict[str, str]:
    """For every further name of a tied parameter or buffer, the name it is stored under."""
    found: dict[str, str] = {}
    for every in (module.named_parameters, module.named_buffers):
        first: dict[int, str] = {}
        for name, held in every(remove_duplicate=False):
            if first.setdefault(id(held), name) != name:
                found[name] = first[id(held)]
    return found


def _knows_layer(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        return layer.padding_mode == "zeros"
    if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        return layer.track_running_stats and layer.momentum is not None
    if isinstance(layer, nn.Flatten):
        return layer.start_dim == 1 and layer.end_dim == -1
    return layers.knows(layer) or isinstance(
        layer, (nn.Linear, nn.GroupNorm, *POINTWISE_LAYERS, *SPATIAL_LAYERS)
    )


class _Stacker(fx.Interpreter):
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
        if kwargs or len(args) != 1 or not _knows_layer(layer):
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
