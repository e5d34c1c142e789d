"""Finds equal instances of one module in a captured graph, such as the twelve blocks of a model.

Invariant: instances are equal if they hold the same operators on tensors of the same sizes and dtypes, in the same
order. Only such instances could share one compiled region.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch

from fuselight.capture.dynamo import stacks
from fuselight.shared.report import Repeated, Stack


def read_repeated(gm: torch.fx.GraphModule) -> Repeated | None:
    """The module whose equal instances repeat the most operators; None if no module has two equal instances."""
    inside: dict[tuple[str, Any], list[torch.fx.Node]] = defaultdict(list)
    whole = 0
    for node in gm.graph.nodes:
        if node.op not in {"call_function", "call_method", "call_module"}:
            continue
        whole += 1
        modules = node.meta.get("nn_module_stack")
        for key, (_, kind) in modules.items() if isinstance(modules, Mapping) else ():
            inside[key, kind].append(node)
    equal: dict[tuple[Any, ...], list[list[torch.fx.Node]]] = defaultdict(list)
    for (_, kind), nodes in inside.items():
        equal[kind, tuple(map(_what, nodes))].append(nodes)
    best = max(equal.items(), key=lambda item: (len(item[1]) - 1) * len(item[1][0]), default=None)
    if best is None or len(best[1]) == 1:
        return None
    (kind, _), instances = best
    code = getattr(inspect.unwrap(getattr(kind, "forward", None) or kind), "__code__", None)
    return Repeated(
        name=getattr(kind, "__qualname__", str(kind)),
        count=len(instances),
        operators=sum(map(len, instances)),
        whole=whole,
        location=None if code is None else stacks.def_location(code),
        call=_called_from(instances[0], code),
    )


def _what(node: torch.fx.Node) -> tuple[Any, ...]:
    """What a node computes, but for which tensors it takes."""
    example = node.meta.get("example_value")
    tensors = example if isinstance(example, (tuple, list)) else (example,)
    facts = [
        (str(tensor.dtype), tuple(map(str, tensor.shape))) if isinstance(tensor, torch.Tensor) else None
        for tensor in tensors
    ]
    target = node.target if isinstance(node.target, str) else id(node.target)
    constants = torch.fx.node.map_arg((node.args, node.kwargs), lambda _: None)
    return (node.op if node.op == "call_module" else target, str(constants), *facts)


def _called_from(nodes: list[torch.fx.Node], code: Any) -> Stack:
    """The frames outside of `code` on the way to what it holds."""
    if code is None:
        return ()
    lines = [line for _, _, line in code.co_lines() if line is not None]
    for node in nodes:
        stack = stacks.of_node(node)
        for index, frame in enumerate(stack):
            if (
                frame.path == stacks.absolute(code.co_filename)
                and min(lines) <= frame.line <= max(lines)
                and index
            ):
                return stack[:index]
    return ()
