"""What a graph shares with others: saved tensors, recomputed operators, mutated inputs, and tensors of other graphs.

A graph break sends tensors through memory; a later graph may keep its inputs for backward, and autograd then keeps them
like any other saved tensor. Invariant: a storage is counted once. What a graph takes as input (parameters, inputs, and
views of them) exists in any case and is counted separately. A tensor crosses graphs if its storage came out of an
earlier graph. Real tensors are held by weak reference. If AOTAutograd's inputs or outputs do not match Dynamo's,
nothing is reported.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.adapters.virtual_gpu import partitioner, scheduler_nodes
from fuselight.adapters.virtual_gpu.scheduler_nodes import Touched
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import Handed, Recomputed, SavedTensor, Stack


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
                stack = stack or next(filter(None, map(_stack, placeholder.users)), ())
        if first and size is None:
            unknown.append(node.name)
        dtype, shape = str(value.dtype).removeprefix("torch."), tuple(str(number) for number in value.shape)
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


def _stack(node: torch.fx.Node) -> Stack:
    """Where a tensor was made; a node without a trace of its own takes that of what it was made of."""
    seen: set[torch.fx.Node] = set()
    while node not in seen:
        seen.add(node)
        if locations := stacks.of_node(node):
            return locations
        node = next(iter(node.all_input_nodes), node)
    return ()


@dataclass(frozen=True)
class Given:
    """A result of a graph that the graph after it takes, and the launch that writes it."""

    graph: int
    name: str
    """Its name in the graph that writes it."""
    launch: int
    writer: Touched
    """What that launch touches."""
    kept: bool
    """Whether the graph keeps it for its backward graph."""
    bytes: int = 0


class PassedTensors:
    """The tensors that pass between the graphs of a target."""

    def __init__(self) -> None:
        self._created: list[weakref.ref[torch.Tensor]] = []
        """What the graphs have returned up to now."""
        self._counted: list[weakref.ref[torch.Tensor]] = []
        self._written: dict[int, list[Given | None]] = {}
        """The results of each graph that are Dynamo's; None for one that no single launch writes."""
        self._last: tuple[int, dict[int, weakref.ref[torch.Tensor]]] = (-1, {})
        """The graph that ran last, and its results by position."""

    def inputs(self, real: Sequence[Any]) -> tuple[dict[int, int], dict[int, Given]]:
        """Return the inputs of a graph that the target made itself and those that the graph before it returned.

        Both by position; of the former the bytes, 0 where they are counted.
        """
        storages, counted = _storages(self._created), _storages(self._counted)
        graph, results = self._last
        last = {
            partitioner.storage_of(tensor)[0]: self._written[graph][position]
            for position, ref in results.items()
            if (tensor := ref()) is not None
        }
        own: dict[int, int] = {}
        given: dict[int, Given] = {}
        for position, tensor in enumerate(real):
            if not isinstance(tensor, torch.Tensor):
                continue
            identity, size = partitioner.storage_of(tensor)
            if identity in storages or partitioner.made_by_autograd(tensor):
                own[position] = 0 if identity in counted else size or 0
            if (written := last.get(identity)) is not None:
                given[position] = replace(written, bytes=tensor.numel() * tensor.element_size())
        return own, given

    def count(self, tensor: torch.Tensor) -> None:
        """Mark a kept tensor as counted."""
        self._counted = [*_alive(self._counted), weakref.ref(tensor)]

    def wrote(
        self, graph: int, names: Sequence[str], touched: Sequence[Touched], kept: frozenset[int]
    ) -> None:
        """Code of `graph` is generated; `names` are those of its outputs that are Dynamo's."""
        written: list[Given | None] = []
        for position, name in enumerate(names):
            writers = [
                index
                for index, touched_buffers in enumerate(touched)
                if name and name in touched_buffers.writes
            ]
            given = Given(graph, name, writers[0], touched[writers[0]], position in kept) if writers else None
            written.append(given if len(writers) == 1 else None)
        self._written[graph] = written

    def noting(self, graph: int, forward: Callable[..., Any], saved: Saved) -> Callable[..., Any]:
        """`forward`, wrapped to remember that `graph` made its results, some of which its graph saves in any case."""

        def run(*args: Any) -> Any:
            outputs = forward(*args)
            results = outputs if isinstance(outputs, (tuple, list)) else ()
            tensors = {
                index: result for index, result in enumerate(results) if isinstance(result, torch.Tensor)
            }
            refs = {index: weakref.ref(tensor) for index, tensor in tensors.items()}
            self._created = [*_alive(self._created), *refs.values()]
            if len(results) == saved.num_outputs:  # else AOTAutograd has others, in an order of its own
                for index in saved.outputs & tensors.keys():
                    self.count(tensors[index])
            aligned = len(results) == len(self._written.get(graph, ()))
            self._last = (graph, refs if aligned else {})
            return outputs

        return run


def read_handed(
    given: Mapping[int, Given], names: Sequence[str], touched: Sequence[Touched], kept: frozenset[str]
) -> tuple[Handed, ...]:
    """How a graph with inputs `names` uses the inputs `given`; those in `kept` are saved for backward."""
    out = []
    for position, other_given in sorted(given.items()):
        name = names[position]
        readers = tuple(index for index, launch in enumerate(touched) if name in launch.reads)
        fusible = tuple(index for index in readers if _fits(other_given, touched[index], name))
        if readers:
            out.append(
                Handed(
                    name, other_given.bytes, other_given.graph, other_given.launch, readers, fusible,
                    kept=other_given.kept or name in kept,
                )
            )  # fmt: skip
    return tuple(out)


def _fits(given: Given, reader: Touched, name: str) -> bool:
    """Whether Inductor could have fused the two: its scheduler's own rule, for equal ways through the tensor."""
    writer, accesses = given.writer, given.writer.writes[given.name]
    if not (writer.generated and reader.generated) or len(accesses) != 1:
        return False
    if not accesses <= reader.reads[name]:
        return False
    (results, each), (others, others_each) = writer.elements, reader.elements
    if (each == 1) == (others_each == 1):
        return (results, each) == (others, others_each)
    if each == 1:
        return results in {others, others * others_each}
    return others in {results, results * each}


def _alive(held: list[weakref.ref[torch.Tensor]]) -> list[weakref.ref[torch.Tensor]]:
    return [reference for reference in held if reference() is not None]


def _storages(held: list[weakref.ref[torch.Tensor]]) -> set[int]:
    return {partitioner.storage_of(tensor)[0] for reference in held if (tensor := reference()) is not None}
