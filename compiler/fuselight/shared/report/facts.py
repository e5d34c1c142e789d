"""What the expressions of the user's files were while Dynamo traced them.

Invariant: an expression that was not traced has no fact, and a fact is what Dynamo saw, never a guess. Positions are
those of `report`: 1-based lines, 0-based UTF-8 byte columns. Bounds: `MAX_EXPRESSIONS` a report, `MAX_VALUES` each.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from fuselight.shared.report.place import LineNumber

MAX_EXPRESSIONS = 20_000
"""Expressions of one report; later ones are dropped, and a Problem says so."""
MAX_VALUES = 8
"""Different values of one expression; `Fact.omitted` counts the others."""


class FactKind(str, enum.Enum):
    """The kind of a traced value. A value of another kind (a function, a class) has no fact."""

    TENSOR = "tensor"
    NUMBER = "number"
    """A number that the graph computes, or a symbolic size."""
    CONSTANT = "constant"
    """A Python value that the compiled code contains, as `12` or `'relu'`."""
    MODULE = "module"
    CONTAINER = "container"


@dataclass(frozen=True)
class TracedValue:
    """One value that an expression had. Equal values are one: the 12 layers of a model usually share theirs."""

    kind: FactKind
    text: str
    """`bf16[4, 12, s0, 64]`, `s0`, `12`, `Linear`, `(f32[4, 8], f32[4, 8])`."""
    device: str | None = None
    """Tensors only, as `cuda:0`."""
    strides: str | None = None
    """Tensors only: `contiguous`, `channels_last` or `strided`; None if a size is symbolic."""
    requires_grad: bool | None = None
    """Tensors only."""

    @property
    def rank(self) -> int:
        """How many dimensions the text of a tensor has."""
        sizes = self.text.partition("[")[2].rstrip("]")
        return sizes.count(",") + 1 if sizes else 0


@dataclass(frozen=True)
class Fact:
    """An expression, or the target of an assignment, that was traced."""

    line: LineNumber
    column: int
    end_line: LineNumber
    end_column: int
    values: tuple[tuple[int, int], ...]
    """Index in `TracedFacts.values`, and how often it was seen; the most frequent one first."""
    assigned: bool = False
    """Whether this is a name that an assignment binds."""
    omitted: int = 0
    """Further values, beyond `MAX_VALUES`."""


@dataclass(frozen=True)
class Branch:
    """A condition on which a jump depends, and how often each side was traced."""

    line: LineNumber
    column: int
    end_line: LineNumber
    end_column: int
    true: int
    false: int


@dataclass(frozen=True)
class FileFacts:
    """The facts of one file; `Report.files` has the hash of the text that they hold for."""

    facts: tuple[Fact, ...] = ()
    """In the order of their positions."""
    branches: tuple[Branch, ...] = ()
    untraced: tuple[tuple[LineNumber, LineNumber], ...] = ()
    """First and last lines, inclusive, of code that no trace reached, in functions that were traced to a `return`."""
    computed: tuple[tuple[LineNumber, int, LineNumber, int], ...] = ()
    """Spans of attributes and operators for which code of the user's ran: a property, `__getattr__`, `__eq__`. First
    line and column, last line and column."""


@dataclass(frozen=True)
class TracedFacts:
    """The facts of one report, by path."""

    values: tuple[TracedValue, ...] = ()
    files: dict[str, FileFacts] = field(default_factory=dict)
