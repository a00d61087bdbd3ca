"""Runs many copies of one module as one: the devices of a chunk side by side.

The module is traced once. Each of its layers is then carried out for all copies at a time: grouped
convolutions, batched matrix products, batch norm over all copies' channels; what works on single
values or on space alone is carried out as it is. A layer that has no such rule runs under `vmap`,
and `notes` says so. A module that cannot be traced runs under `vmap` as a whole. `interpreter` has
the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call, vmap

from fedrt.learning.stacked import layers
from fedrt.learning.stacked.interpreter import Copies, Stacker, knows_layer
from fedrt.learning.stacked.reorder import pool_before_relu

STACKED_FORMS = ("grouped", "rows", "direct")
"""How convolutions of many copies are carried out: by the library's grouped ones, by `rows`, or by
`direct` ones where they fit and else by rows."""


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
            if node.op == "call_module" and not knows_layer(self.layers[node.target]):
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
        interpreter = Stacker(self.module, self.graph, parameters, buffers, count, grouped)
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
