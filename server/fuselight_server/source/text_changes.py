"""Places that move while the user types.

Invariant: a place whose text an edit does not touch points to the same text afterwards, and one whose lines were
changed says so. Pure: the document reports each edit as a `Change`, and whoever keeps spans applies it.
Lines are 1-based, columns 0-based UTF-8 bytes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from fuselight_server.base.finding import Span

Position = tuple[int, int]
"""Line and column."""


@dataclass(frozen=True)
class Change:
    """The text from `start` to `end` became text that ends at `new_end`."""

    start: Position
    end: Position
    new_end: Position
    start_at_line_end: bool
    """Whether nothing but the line's end followed `start`: the Return key there leaves the line as it was."""
    adds_line_first: bool
    """Whether the new text begins with a line end."""


@dataclass(frozen=True)
class Moved:
    """Where a span is now, and whether one of its lines was changed on the way."""

    span: Span
    edited: bool


def moved(span: Span, change: Change) -> Moved | None:
    """`span` after `change`; None when its lines were deleted with nothing in their place.

    A finding whose line is edited counts as doubtful, so an edit next to the line must not touch it: Return at the end
    of the line above, or whole lines put in before column 0. A line that is replaced, as a formatter does, is edited
    and not deleted.
    """
    last = max(span.line, span.last_line)
    adds_lines_below = change.start == change.end and change.start_at_line_end and change.adds_line_first
    if change.start[0] > last or (change.start[0] == last and adds_lines_below):
        return Moved(span, edited=False)
    if change.end[0] < span.line or (change.end == (span.line, 0) and change.new_end[1] == 0):
        return Moved(_shifted(span, change.new_end[0] - change.end[0]), edited=False)
    if change.start <= (span.line, 0) and change.end[0] > last and change.new_end == change.start:
        return None
    start = _position(span.start, change, sticks_right=True)
    end_column = span.end_column if span.end_column is not None else span.start[1]
    end = max(start, _position((last, end_column), change, sticks_right=False))
    place = dataclasses.replace(
        span,
        line=start[0],
        column=None if span.column is None else start[1],
        end_line=None if span.end_line is None else end[0],
        end_column=None if span.end_column is None else end[1],
    )
    return Moved(place, edited=True)


def _shifted(span: Span, lines: int) -> Span:
    if lines == 0:
        return span
    end_line = None if span.end_line is None else span.end_line + lines
    return dataclasses.replace(span, line=span.line + lines, end_line=end_line)


def _position(at: Position, change: Change, *, sticks_right: bool) -> Position:
    if at < change.start or (at == change.start and not (sticks_right and change.start == change.end)):
        return at
    if at < change.end:
        return change.start if sticks_right else change.new_end  # the new text counts as pointed at
    if at[0] == change.end[0]:
        return change.new_end[0], change.new_end[1] + at[1] - change.end[1]
    return at[0] + change.new_end[0] - change.end[0], at[1]
