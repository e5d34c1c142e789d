"""What one top-level chunk says by itself, before any name is resolved.

Invariant: facts depend on the chunk's bytes alone. Rows are 0-based from the chunk's first line, columns are
0-based UTF-8 bytes, so that facts are shared by every place where the same text stands.
"""

from __future__ import annotations

from dataclasses import dataclass

Scope = tuple[str, ...]
"""Names of the definitions around something, outermost first."""


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


@dataclass(frozen=True, slots=True)
class Binding:
    """`target = value`, in any of its forms."""

    target: str
    scope: Scope
    extent: Extent
    name_extent: Extent
    value: Expression


@dataclass(frozen=True, slots=True)
class CompileExpression:
    """`owner.compile(...)`."""

    owner: str
    scope: Scope
    extent: Extent
    name_extent: Extent
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

    row: int
    column: int
    """Where its `#` stands."""
    text_column: int
    """Where `text` starts."""
    end_column: int
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
