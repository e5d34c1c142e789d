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
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.dynamo import stacks
from fuselight.report import Handed, Recomputed, SavedTensor, Stack
from fuselight.virtual_gpu import partitioner, scheduler_nodes
from fuselight.virtual_gpu.scheduler_nodes import Access, Touched


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


def _stack(node: torch.fx.Node) -> Stack:
    """Where a tensor was made; a node without a trace of its own takes that of what it was made of."""
    seen: set[torch.fx.Node] = set()
    while node not in seen:
        seen.add(node)
        if found := stacks.of_node(node):
            return found
        node = next(iter(node.all_input_nodes), node)
    return ()


@dataclass(frozen=True)
class WrittenTensor:
    """An output of a graph, and the launch that writes it."""

    launch: int
    accesses: frozenset[Access]
    elements: tuple[int, int]
    generated: bool
    kept: bool
    """Whether the graph keeps it for its backward graph."""


@dataclass(frozen=True)
class Given:
    """An input of the current graph that the graph before it returned."""

    graph: int
    written: WrittenTensor
    bytes: int


class HandedTensors:
    """The tensors that pass between the graphs of a target."""

    def __init__(self) -> None:
        self._outputs: dict[int, dict[int, WrittenTensor]] = {}
        self._counts: dict[int, int] = {}
        self._last: tuple[int, dict[int, weakref.ref[torch.Tensor]]] = (-1, {})

    def given(self, real: Sequence[Any]) -> dict[int, Given]:
        """The inputs that the graph that ran last returned, by position."""
        graph, alive = self._last
        made = {
            partitioner.storage_of(tensor)[0]: position
            for position, ref in alive.items()
            if (tensor := ref()) is not None
        }
        found = {}
        for position, tensor in enumerate(real):
            if not isinstance(tensor, torch.Tensor):
                continue
            output = made.get(partitioner.storage_of(tensor)[0])
            written = None if output is None else self._outputs.get(graph, {}).get(output)
            if written is not None:
                found[position] = Given(graph, written, tensor.numel() * tensor.element_size())
        return found

    def wrote(
        self, graph: int, names: Sequence[str], touched: Sequence[Touched], kept: frozenset[int]
    ) -> None:
        """Code of `graph` is generated; `names` are those of its outputs that are Dynamo's."""
        self._counts[graph] = len(names)
        outputs = self._outputs[graph] = {}
        for position, name in enumerate(names):
            writers = [index for index, one in enumerate(touched) if name and name in one.writes]
            if len(writers) == 1:
                one = touched[writers[0]]
                outputs[position] = WrittenTensor(
                    writers[0], one.writes[name], one.elements, one.generated, position in kept
                )

    def noting(self, graph: int, forward: Callable[..., Any]) -> Callable[..., Any]:
        """`forward`, wrapped to record that `graph` made its results."""

        def run(*args: Any) -> Any:
            made = forward(*args)
            outputs = made if isinstance(made, (tuple, list)) else ()
            aligned = outputs if len(outputs) == self._counts.get(graph) else ()
            self._last = (
                graph,
                {
                    index: weakref.ref(one)
                    for index, one in enumerate(aligned)
                    if isinstance(one, torch.Tensor)
                },
            )
            return made

        return run


def read_handed(
    given: Mapping[int, Given], names: Sequence[str], touched: Sequence[Touched], kept: frozenset[str]
) -> tuple[Handed, ...]:
    """How a graph with inputs `names` uses the inputs `given`; those in `kept` are saved for backward."""
    out = []
    for position, one in sorted(given.items()):
        name = names[position]
        readers = tuple(index for index, launch in enumerate(touched) if name in launch.reads)
        fusible = tuple(index for index in readers if _fits(one.written, touched[index], name))
        if readers:
            out.append(
                Handed(
                    name, one.bytes, one.graph, one.written.launch, readers, fusible,
                    kept=one.written.kept or name in kept,
                )
            )  # fmt: skip
    return tuple(out)


def _fits(written: WrittenTensor, reader: Touched, name: str) -> bool:
    """Whether Inductor could have fused the two: its scheduler's own rule, for equal ways through the tensor."""
    if not (written.generated and reader.generated) or len(written.accesses) != 1:
        return False
    if not written.accesses <= reader.reads[name]:
        return False
    (results, each), (others, others_each) = written.elements, reader.elements
    if (each == 1) == (others_each == 1):
        return (results, each) == (others, others_each)
    if each == 1:
        return results in {others, others * others_each}
    return others in {results, results * each}


class SavedInputs:
    """The tensors that the graphs of a target have returned up to now."""

    def __init__(self) -> None:
        self._made: list[weakref.ref[torch.Tensor]] = []
        self._counted: list[weakref.ref[torch.Tensor]] = []

    def inputs(self, real: Sequence[Any]) -> dict[int, int]:
        """Bytes of the inputs of a graph that the target made itself, by position; 0 where they are counted."""
        made, counted = _storages(self._made), _storages(self._counted)
        found = {}
        for position, tensor in enumerate(real):
            if isinstance(tensor, torch.Tensor):
                identity, size = partitioner.storage_of(tensor)
                if identity in made or partitioner.made_by_autograd(tensor):
                    found[position] = 0 if identity in counted else size or 0
        return found

    def count(self, tensor: torch.Tensor) -> None:
        """Mark a kept tensor as counted."""
        self._counted = [*_alive(self._counted), weakref.ref(tensor)]

    def noting(self, forward: Callable[..., Any], kept: frozenset[int], outputs: int) -> Callable[..., Any]:
        """`forward`, wrapped to remember its results; `kept` are the positions that its graph saves in any case."""

        def run(*args: Any) -> Any:
            made = forward(*args)
            if isinstance(made, (tuple, list)):
                tensors = [(index, one) for index, one in enumerate(made) if isinstance(one, torch.Tensor)]
                self._made = [*_alive(self._made), *(weakref.ref(one) for _, one in tensors)]
                if len(made) == outputs:  # else AOTAutograd has others, in an order of its own
                    for index, one in tensors:
                        if index in kept:
                            self.count(one)
            return made

        return run


def _alive(held: list[weakref.ref[torch.Tensor]]) -> list[weakref.ref[torch.Tensor]]:
    return [one for one in held if one() is not None]


def _storages(held: list[weakref.ref[torch.Tensor]]) -> set[int]:
    return {partitioner.storage_of(tensor)[0] for one in held if (tensor := one()) is not None}
