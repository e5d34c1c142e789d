"""What one top-level chunk says by itself, before any name is resolved.

Invariant: facts depend on the chunk's bytes alone. Rows are 0-based from the chunk's first line, columns are
0-based UTF-8 bytes, so that facts are shared by every place where the same text stands.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight_server.base.finding import Span

Scope = tuple[str, ...]
"""Names of the definitions around something, outermost first."""
Outline = tuple[tuple[object, ...], ...]
"""What a chunk adds to the file's names, without positions."""


@dataclass(frozen=True, slots=True)
class Extent:
    """A range: rows from the chunk's start, byte columns."""

    row: int
    column: int
    end_row: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Expression:
    """As much of an expression as discovery needs. One of `dotted`, `function` or `choices` is set, or none."""

    text: str
    dotted: str = ""
    """`torch.compile`."""
    function: Expression | None = None
    """What is called, for a call."""
    arguments: tuple[Expression, ...] = ()
    keywords: tuple[tuple[str, Expression], ...] = ()
    owner: Expression | None = None
    """For an attribute of something that is not a name, as `Net().eval`: what it is an attribute of."""
    attribute: str = ""
    choices: tuple[Expression, ...] = ()
    """Both values of `a if c else b`."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A `def` or `class`."""

    name: str
    scope: Scope
    is_class: bool
    extent: Extent
    name_extent: Extent
    def_row: int
    decorators: tuple[Expression, ...] = ()
    bases: tuple[Expression, ...] = ()
    parameters: tuple[str, ...] = ()
    """All of them by name, the first of a method included; starred ones left out."""
    annotations: tuple[tuple[str, str], ...] = ()
    """Parameters whose annotation is a plain dotted name."""
    computes: bool = False
    """Whether it is a function of the file that computes with tensors among its parameters."""


@dataclass(frozen=True, slots=True)
class Binding:
    """`target = value`, in any of its forms."""

    target: str
    scope: Scope
    extent: Extent
    name_extent: Extent
    value: Expression


@dataclass(frozen=True, slots=True)
class CompileExpression(Binding):
    """`target.compile(...)`; `value` is the target."""

    as_torch: bool = True
    """Whether its arguments are ones that a module's `compile` takes: keywords of torch.compile only."""


@dataclass(frozen=True, slots=True)
class Import:
    """One name that an import binds: `from torch import nn as N` is `N` for `torch.nn`. `*` binds all of `full`."""

    name: str
    full: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment with `fuselight:` in it."""

    extent: Extent
    """From its `#`, on one row."""
    text_column: int
    """Where `text` starts."""
    text: str
    alone: bool
    """Whether nothing else stands on the line."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One chunk."""

    definitions: tuple[Definition, ...] = ()
    bindings: tuple[Binding, ...] = ()
    compile_calls: tuple[CompileExpression, ...] = ()
    imports: tuple[Import, ...] = ()
    comments: tuple[Comment, ...] = ()
    main_row: int | None = None
    """Where `if __name__ == "__main__":` stands."""
    error: Extent | None = None

    def outline(self) -> Outline:
        """All that `names.collect` reads: while the outlines of a file stay equal, so do its names."""
        return (
            *(
                (
                    definition.name,
                    definition.scope,
                    definition.is_class,
                    definition.decorators,
                    definition.bases,
                )
                for definition in self.definitions
            ),
            *((definition.parameters, definition.annotations) for definition in self.definitions),
            *((binding.target, binding.scope, binding.value) for binding in self.bindings),
            *((imported.name, imported.full, imported.scope) for imported in self.imports),
        )


@dataclass(frozen=True)
class Chunk:
    """One chunk, and where it starts in its file."""

    path: str
    line: int
    column: int
    """Bytes before the chunk's first row: 3 after a byte order mark, else 0."""
    data: bytes
    facts: Facts
    outline: Outline

    def file_column(self, row: int, column: int) -> int:
        """A column of one of its rows as a column of the file."""
        return column if row else self.column + column

    def span(self, extent: Extent) -> Span:
        """A range of the chunk as a range of the file."""
        return Span(
            self.path,
            self.line + extent.row,
            self.file_column(extent.row, extent.column),
            self.line + extent.end_row,
            self.file_column(extent.end_row, extent.end_column),
        )
