"""What a graph shares with others: tensors saved for backward, recomputed operators, and mutated inputs.

Invariant: a storage is counted once. What the graph takes as input (parameters, inputs, and views of them) exists in
any case and is counted separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.dynamo import stacks
from fuselight.report import Recomputed, SavedTensor, Stack
from fuselight.virtual_gpu import partitioner, scheduler_nodes


@dataclass(frozen=True)
class Saved:
    """What a forward graph keeps."""

    tensors: tuple[SavedTensor, ...] = ()
    unknown: tuple[str, ...] = ()
    """Names of the tensors whose size depends on data: it is unknown, so they are not counted."""
    carried: tuple[int, ...] = ()
    """Positions of inputs that are kept, and that the target has made itself."""
    outputs: frozenset[int] = frozenset()
    """Positions of outputs that are kept, too."""
    num_outputs: int = 0


def read_saved(forward: torch.fx.GraphModule, num_outputs: int, carried: Mapping[int, int]) -> Saved:
    """Read what a partitioned forward graph saves: its outputs after the first `num_outputs`.

    `carried` holds the bytes of the inputs that the target made itself, by position.
    """
    outputs: Any = forward.graph.find_nodes(op="output")
    every = next(iter(outputs)).args[0]
    given: dict[int, tuple[int, torch.fx.Node]] = {}
    for position, node in enumerate(forward.graph.find_nodes(op="placeholder")):
        if isinstance(value := node.meta.get("val"), torch.Tensor):
            given.setdefault(partitioner.storage_of(value)[0], (position, node))
    counted: set[int] = set()
    unknown: list[str] = []
    kept_inputs: dict[int, None] = {}
    tensors = []
    for node in every[num_outputs:]:
        if not isinstance(node, torch.fx.Node):
            continue
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            tensors.append(SavedTensor(node.name, "symbol", stack=_stack(node)))
            continue
        identity, size = partitioner.storage_of(value)
        first = identity not in counted
        counted.add(identity)
        kind, stack = "activation", _stack(node)
        if identity in given:
            position, placeholder = given[identity]
            kind, size = ("carried", carried[position]) if position in carried else ("input", 0)
            if kind == "carried":
                kept_inputs.setdefault(position)
                stack = stack or _first_use(placeholder)
        if first and size is None:
            unknown.append(node.name)
        dtype, shape = str(value.dtype).removeprefix("torch."), tuple(str(one) for one in value.shape)
        tensors.append(SavedTensor(node.name, kind, dtype, shape, size or 0 if first else 0, stack))
    return Saved(
        tuple(tensors), tuple(unknown), tuple(kept_inputs), _among(every[:num_outputs], counted), num_outputs
    )


def read_recomputed(forward: torch.fx.GraphModule, backward: torch.fx.GraphModule) -> tuple[Recomputed, ...]:
    """The operators of the forward graph that the backward graph computes again."""
    return tuple(
        Recomputed(node.name, scheduler_nodes.operator_names(node)[0], _stack(node))
        for node in partitioner.duplicated(forward, backward)
    )


def first_mutation(module: torch.fx.GraphModule) -> Stack:
    """Where the first value that a graph writes into one of its inputs was made; empty if it mutates none."""
    for node in module.graph.nodes:
        if node.op == "call_function" and scheduler_nodes.operator_names(node)[0] == "aten.copy_.default":
            into, value = node.args[:2]
            if into.op == "placeholder":
                return _stack(value)
    return ()


def _among(outputs: Sequence[Any], kept: set[int]) -> frozenset[int]:
    return frozenset(
        index
        for index, node in enumerate(outputs)
        if isinstance(node, torch.fx.Node)
        and isinstance(value := node.meta.get("val"), torch.Tensor)
        and partitioner.storage_of(value)[0] in kept
    )


def _first_use(node: torch.fx.Node) -> Stack:
    """The first line that computes with a tensor."""
    return next((stack for user in node.users if (stack := _stack(user))), ())


def _stack(node: torch.fx.Node) -> Stack:
    """Where a tensor was made; a node without a trace of its own takes that of what it was made of."""
    seen: set[torch.fx.Node] = set()
    while node not in seen:
        seen.add(node)
        if found := stacks.of_node(node):
            return found
        node = next(iter(node.all_input_nodes), node)
    return ()
