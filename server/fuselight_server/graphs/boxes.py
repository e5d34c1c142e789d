"""What a picture of graphs is made of.

Invariant: arrows lead from boxes to boxes of the same picture, and boxes stand in the order in which they were reached.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuselight_server.finding import Span


class BoxKind(str, enum.Enum):
    """What a box stands for."""

    TARGET = "target"
    """The target and the calls that were made of it."""
    GRAPH = "graph"
    """One compile of a frame that gave a graph."""
    EMPTY = "empty"
    """One compile of a frame that had nothing to compile."""
    EAGER = "eager"
    """A frame, or one compile of it, that runs in eager mode."""
    BREAK = "break"
    """A graph break."""
    MORE = "more"
    """Boxes that are counted and not drawn."""


class ArrowKind(str, enum.Enum):
    """How one box leads to another."""

    CALLS = "calls"
    BREAKS = "breaks"
    """The graph ends at the break."""
    GOES_ON = "goes on"
    """Compiled code resumes after the break."""
    AGAIN = "compiled again"
    EAGER = "runs in eager"
    """The frame has no more compiled code and runs in eager mode."""
    CAUSE = "because of"
    """The whole frame runs in eager mode because of the break."""


@dataclass(frozen=True)
class Member:
    """One of the boxes that were folded into one."""

    label: str
    at: Span | None


@dataclass(frozen=True)
class Box:
    """One box."""

    id: str
    kind: BoxKind
    name: str
    """Dynamo's id of the compile, or the code of the break; empty for others."""
    title: str
    """The function, or what broke the graph."""
    facts: tuple[str, ...] = ()
    at: Span | None = None
    """Where it is now; None where that was deleted."""
    frame: str | None = None
    """What boxes of the same frame have in common; None for those that are of none."""
    again: bool = False
    """Whether the frame had been compiled before."""
    owner: str | None = None
    """Of a break: the box that came to it first."""
    members: tuple[Member, ...] = ()
    """What was folded into it; empty for a box that stands for itself."""


@dataclass(frozen=True)
class Arrow:
    """One arrow."""

    start: str
    end: str
    kind: ArrowKind


@dataclass(frozen=True)
class Picture:
    """Boxes and arrows."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
