"""The tensors that a forward graph keeps for its backward graph, from the partitioner's outputs.

Invariant: a storage is counted once; what the graph was given (parameters, inputs) is kept anyway and told apart.
"""

from __future__ import annotations

from typing import Any

import torch

from fuselight.dynamo import stacks
from fuselight.report import SavedTensor, Stack


def read_saved(forward: torch.fx.GraphModule, num_outputs: int) -> tuple[SavedTensor, ...]:
    """What the outputs behind the first `num_outputs` of a partitioned forward graph keep."""
    outputs: Any = forward.graph.find_nodes(op="output")
    kept = next(iter(outputs)).args[0][num_outputs:]
    counted: set[int] = set()
    return tuple(_saved(node, counted) for node in kept if isinstance(node, torch.fx.Node))


def _saved(node: torch.fx.Node, counted: set[int]) -> SavedTensor:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return SavedTensor(node.name, "symbol", stack=_stack(node))
    storage = value.untyped_storage()
    known, identity = node.op == "placeholder", storage._cdata  # noqa: SLF001 - a view shares it
    size = 0 if identity in counted or known else int(storage.nbytes())
    counted.add(identity)
    return SavedTensor(
        node.name,
        "input" if known else "activation",
        str(value.dtype).removeprefix("torch."),
        tuple(str(one) for one in value.shape),
        size,
        _stack(node),
    )


def _stack(node: torch.fx.Node) -> Stack:
    """Where a tensor was made; a node without a trace of its own takes that of what it was made of."""
    seen: set[torch.fx.Node] = set()
    while node not in seen:
        seen.add(node)
        trace = node.meta.get("stack_trace")
        if isinstance(trace, str) and (found := stacks.from_text(trace)):
            return found
        node = next(iter(node.all_input_nodes), node)
    return ()
