"""Converts an FX graph that Dynamo captured to a Graph.

Invariant: the graph is read before the backend gets it, because a backend may change it in place.
"""

from __future__ import annotations

import torch

from fuselight.adapters.torch_api.dynamo.names import dtype_name, target_name
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import Graph, text_key

_CALLS = ("call_function", "call_method", "call_module")
_NUMBERS = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool, torch.Size)


def read_graph(module: torch.fx.GraphModule, texts: dict[str, str]) -> Graph:
    """The Graph; its source goes to `texts` under its key."""
    operators = [node for node in module.graph.nodes if node.op in _CALLS]
    text = str(module.code).strip()
    key = text_key(text)
    texts.setdefault(key, text)
    return Graph(
        operators=len(operators),
        text_key=key,
        lines=tuple(stacks.of_node(node) for node in operators),
        targets=tuple(target_name(node.target) for node in operators),
        numbers=tuple(
            index
            for index, node in enumerate(operators)
            if isinstance(node.meta.get("example_value"), _NUMBERS)
        ),
        inputs=tuple(_input_text(node) for node in module.graph.nodes if node.op == "placeholder"),
    )


def _input_text(node: torch.fx.Node) -> str:
    value = node.meta.get("example_value")
    if isinstance(value, torch.Tensor):
        return f"{node.name}: {dtype_name(value.dtype)}[{', '.join(str(size) for size in value.shape)}]"
    return node.name if value is None else f"{node.name}: {value}"
