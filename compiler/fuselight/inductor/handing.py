"""Tensors that one graph of a target makes and the next one is given: what a graph break sends through memory.

Invariant: a tensor is handed over when the real one, by its storage, came out of the graph that ran last; real tensors
are held weakly. Where AOTAutograd's inputs or outputs do not line up with Dynamo's, nothing is told.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.report import Handed
from fuselight.torch_api import generation
from fuselight.torch_api.generation import Access, Touched


@dataclass(frozen=True)
class Written:
    """An output of a graph, and the launch that writes it."""

    launch: int
    accesses: frozenset[Access]
    elements: tuple[int, int]
    generated: bool
    kept: bool
    """Whether the graph keeps it for its backward graph."""


@dataclass(frozen=True)
class Given:
    """An input of the graph at hand that the graph before it has made."""

    graph: int
    written: Written
    bytes: int


class Handing:
    """What the graphs of a target hand to each other."""

    def __init__(self) -> None:
        self._outputs: dict[int, dict[int, Written]] = {}
        self._counts: dict[int, int] = {}
        self._last: tuple[int, dict[int, weakref.ref[torch.Tensor]]] = (-1, {})

    def given(self, real: Sequence[Any]) -> dict[int, Given]:
        """Which inputs the graph that ran last has made, by position."""
        graph, alive = self._last
        made = {
            generation.storage_of(tensor)[0]: position
            for position, ref in alive.items()
            if (tensor := ref()) is not None
        }
        found = {}
        for position, tensor in enumerate(real):
            if not isinstance(tensor, torch.Tensor):
                continue
            output = made.get(generation.storage_of(tensor)[0])
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
                outputs[position] = Written(
                    writers[0], one.writes[name], one.elements, one.generated, position in kept
                )

    def noting(self, graph: int, forward: Callable[..., Any]) -> Callable[..., Any]:
        """`forward`, and what it gives counts as made by `graph`."""

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
    """What becomes of the inputs `given` in a graph, whose inputs are called `names`; `kept` are kept for backward."""
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


def _fits(written: Written, reader: Touched, name: str) -> bool:
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
