"""What a graph shares with others: tensors that are kept for backward, operators done twice, inputs written into.

Invariant: a storage is counted once; what the graph was given (parameters, inputs, and views of them) is kept anyway
and told apart.
"""

from __future__ import annotations

from typing import Any

import torch

from fuselight.dynamo import stacks
from fuselight.report import Recomputed, SavedTensor, Stack
from fuselight.torch_api import generation


def read_saved(
    forward: torch.fx.GraphModule, num_outputs: int
) -> tuple[tuple[SavedTensor, ...], tuple[str, ...]]:
    """What the outputs behind the first `num_outputs` of a partitioned forward graph keep.

    And the names of those whose size depends on data, which nobody knows: they count as nothing.
    """
    outputs: Any = forward.graph.find_nodes(op="output")
    kept = next(iter(outputs)).args[0][num_outputs:]
    given = {
        generation.storage_of(value)[0]
        for node in forward.graph.find_nodes(op="placeholder")
        if isinstance(value := node.meta.get("val"), torch.Tensor)
    }
    counted = set(given)
    unknown: list[str] = []
    found = [_saved(node, given, counted, unknown) for node in kept if isinstance(node, torch.fx.Node)]
    return tuple(found), tuple(unknown)


def read_recomputed(forward: torch.fx.GraphModule, backward: torch.fx.GraphModule) -> tuple[Recomputed, ...]:
    """What the backward graph computes again, which the forward graph has computed."""
    return tuple(
        Recomputed(node.name, generation.operator_names(node)[0], _stack(node))
        for node in generation.duplicated(forward, backward)
    )


def first_mutation(module: torch.fx.GraphModule) -> Stack:
    """Where what a graph first writes into one of its inputs was made; empty where it writes into none."""
    for node in module.graph.nodes:
        if node.op == "call_function" and generation.operator_names(node)[0] == "aten.copy_.default":
            into, value = node.args[:2]
            if into.op == "placeholder":
                return _stack(value)
    return ()


def _saved(node: torch.fx.Node, given: set[int], counted: set[int], unknown: list[str]) -> SavedTensor:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return SavedTensor(node.name, "symbol", stack=_stack(node))
    identity, size = generation.storage_of(value)
    known = identity in counted
    if size is None and not known:
        unknown.append(node.name)
    counted.add(identity)
    return SavedTensor(
        node.name,
        "input" if identity in given else "activation",
        str(value.dtype).removeprefix("torch."),
        tuple(str(one) for one in value.shape),
        0 if known else size or 0,
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
