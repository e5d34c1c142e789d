"""The data of the page of graphs, as the editor draws it.

Invariant: no field has a default, so that every page has every key; None is unknown. After a change, run
`scripts/message_types.py`, which writes the same types for the editor.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight_server.explain.graphs.picture import ArrowKind, BoxKind


@dataclass(frozen=True)
class LinePosition:
    """A position in a file, as LSP counts."""

    line: int
    character: int


@dataclass(frozen=True)
class LineRange:
    """A part of a file."""

    start: LinePosition
    end: LinePosition


@dataclass(frozen=True)
class GraphPlace:
    """The current position of something; without a URI, an edit removed it."""

    place: str
    """For example `model.py:12`."""
    uri: str | None
    range: LineRange | None


@dataclass(frozen=True)
class GraphMember(GraphPlace):
    """A box that was folded into another one."""

    label: str


@dataclass(frozen=True)
class GraphBox(GraphPlace):
    """A box of the picture."""

    id: str
    kind: BoxKind
    name: str
    """Dynamo's id of the compile, or the code of the break."""
    title: str
    facts: tuple[str, ...]
    frame: str | None
    """The same for all boxes of one frame."""
    again: bool
    count: int
    """How many boxes were folded into this one."""
    members: tuple[GraphMember, ...]
    """The first of the folded boxes."""


@dataclass(frozen=True)
class GraphArrow:
    """An arrow of the picture."""

    start: str
    end: str
    kind: ArrowKind


@dataclass(frozen=True)
class OfferedTarget:
    """A target whose graphs can be shown."""

    uri: str
    target: str
    label: str


@dataclass(frozen=True)
class GraphPicture:
    """The graphs of a target as a picture."""

    found: bool
    title: str
    description: str
    message: str
    """What to do, while there is no picture."""
    boxes: tuple[GraphBox, ...]
    arrows: tuple[GraphArrow, ...]
    targets: tuple[OfferedTarget, ...]
