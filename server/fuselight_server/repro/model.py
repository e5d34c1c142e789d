"""A small program as data: the lines of a graph, the inputs, and what is compared.

Invariant: a program is closed: each name that its lines use is that of a line, or of an input whose traits are known.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fuselight.shared.report import RecordedGraph, RecordedNode, TensorTraits


class Observed(enum.Enum):
    """What of a call is compared with eager mode."""

    OUTPUTS = "outputs"
    ARGUMENTS = "arguments"
    """The inputs after the call."""
    GRADIENTS = "gradients"
    MEMORY = "memory"
    """The inputs after the output is written to."""
    FAILURE = "failure"
    """Whether it compiles."""


class Fill(enum.Enum):
    """How an input gets its values."""

    UNIFORM = "uniform"
    """Random, in the range of the recorded tensor."""
    LOGARITHMIC = "logarithmic"
    """The same range, the same number in each power of ten."""
    GRID = "grid"
    """The same range in equal steps."""
    NORMAL = "normal"
    ONES = "ones"
    VALUES = "values"
    """The recorded values."""


@dataclass(frozen=True)
class SmallProgram:
    """A function of torch operators, called in eager mode and compiled."""

    nodes: tuple[RecordedNode, ...]
    outputs: tuple[str, ...]
    traits: Mapping[str, TensorTraits]
    observed: Observed = Observed.OUTPUTS
    fills: Mapping[str, Fill] = field(default_factory=dict)
    """By input; UNIFORM for those that are not here."""
    strided: bool = False
    """Whether inputs have the recorded strides."""
    grad: bool = False
    """Whether inputs that required gradients do."""
    dynamic: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of torch: full name to Python text."""
    backend: str = "inductor"
    tolerance: tuple[float, float] = (1e-3, 1e-5)
    """Relative and absolute."""
    versions: str = ""
    """Of torch, Python and the system."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names that the lines or the outputs use and no line defines, in the order of their use."""
        known = {node.name for node in self.nodes if not node.is_statement}
        used = [name for node in self.nodes for name in node.uses]
        return tuple(dict.fromkeys(name for name in (*used, *self.outputs) if name not in known))

    @property
    def is_closed(self) -> bool:
        """Whether each input is a tensor whose traits are known, and there is something to compile."""
        return bool(self.nodes) and all(name in self.traits for name in self.inputs)

    @property
    def foreign(self) -> tuple[str, ...]:
        """What its lines call that is not torch's."""
        return tuple(dict.fromkeys(node.foreign for node in self.nodes if node.foreign))

    def with_nodes(self, nodes: Iterable[RecordedNode]) -> SmallProgram:
        """The program with some of its lines; what it returned of them, else the results that no line uses."""
        kept = tuple(nodes)
        names = {node.name for node in kept}
        outputs = tuple(name for name in self.outputs if name in names) or tuple(_ends(kept, self.traits))
        return replace(self, nodes=kept, outputs=outputs)

    def with_closure(self, nodes: Iterable[RecordedNode]) -> SmallProgram:
        """As `with_nodes`, with the lines of this program that make what is not a tensor, as a size."""
        by_name = {node.name: node for node in self.nodes}
        wanted = {node.name for node in nodes}
        pending = [name for known in wanted for name in by_name[known].uses]
        while pending:
            name = pending.pop()
            if name in by_name and name not in wanted and name not in self.traits:
                wanted.add(name)
                pending += by_name[name].uses
        return self.with_nodes(node for node in self.nodes if node.name in wanted)


def _ends(nodes: tuple[RecordedNode, ...], traits: Mapping[str, TensorTraits]) -> Iterator[str]:
    used = {name for node in nodes for name in node.uses}
    for node in nodes:
        if node.name not in used and node.name in traits and not node.is_statement:
            yield node.name


def program_of(graph: RecordedGraph, observed: Observed, versions: str) -> SmallProgram:
    """The whole graph as a program, without the lines that torch alone cannot run."""
    outputs = tuple(dict.fromkeys(graph.outputs))
    program = SmallProgram(graph.nodes, outputs, graph.traits, observed, versions=versions)
    program = replace(program, grad=observed is Observed.GRADIENTS)
    if not program.foreign:
        return program
    return program.with_closure(_without_foreign(graph))


def _without_foreign(graph: RecordedGraph) -> Iterator[RecordedNode]:
    """The lines that torch can run: what another line makes has to be a tensor, which then is an input."""
    missing: set[str] = set()
    for node in graph.nodes:
        if node.foreign or any(name in missing for name in node.uses):
            if node.name not in graph.traits:
                missing.add(node.name)
        else:
            yield node
