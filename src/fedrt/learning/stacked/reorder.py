"""Moves max pooling ahead of ReLU in a traced module: the same values with less work.

The greatest of several rectified numbers is the rectified greatest of them, and gradients go the
same way: where the greatest is positive, to the first that has it; else nowhere.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as fn

POOLS = {fn.max_pool2d, torch.max_pool2d}
RECTIFIERS = {fn.relu, torch.relu}


def pool_before_relu(graph: fx.Graph, module: nn.Module) -> fx.Graph:
    """The graph with every ReLU moved behind the max pooling that alone uses it."""
    layers = dict(module.named_modules())
    for node in list(graph.nodes):
        before = node.args[0] if node.args else None
        if not isinstance(before, fx.Node) or not _is(node, layers, POOLS, nn.MaxPool2d):
            continue
        if len(before.users) > 1 or not _is(before, layers, RECTIFIERS, nn.ReLU):
            continue
        source = before.args[0]
        assert isinstance(source, fx.Node)
        node.replace_input_with(before, source)
        node.replace_all_uses_with(before)
        before.replace_input_with(source, node)
        node.append(before)
    graph.lint()
    return graph


def _is(node: fx.Node, layers: dict[str, nn.Module], functions: set[Any], layer: type) -> bool:
    """Whether a node calls one of these functions or layers."""
    if node.op == "call_module":
        made = layers[str(node.target)]
        plain = not getattr(made, "inplace", False) and not getattr(made, "return_indices", False)
        return type(made) is layer and plain and len(node.args) == 1 and not node.kwargs
    if node.op != "call_function" or node.target not in functions:
        return False
    return not node.kwargs.get("inplace", False) and not node.kwargs.get("return_indices", False)
