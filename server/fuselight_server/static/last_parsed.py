"""While a statement is half-typed, its targets are those that it had when it last parsed.

Invariant: only statements that do not parse are answered from the past; all others speak for themselves. What was
kept has moved with every edit since, and goes when its name is deleted or replaced together with other lines.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from fuselight_server.finding import Span
from fuselight_server.static.text_changes import moved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fuselight.protocol import DirectiveLine
    from fuselight_server.static.reading import Reading, StaticTarget
    from fuselight_server.static.text_changes import Change

_IMPORT = re.compile(rb"(?:import|from)\b")


def shifted(good: Reading, changes: Iterable[Change]) -> Reading:
    """Return `good` with its targets where they are after `changes`."""
    targets = good.targets
    for change in changes:
        targets = tuple(there for one in targets if (there := _after(one, change)) is not None)
    return dataclasses.replace(good, targets=targets)


def kept(good: Reading, reading: Reading, lines: list[bytes]) -> Reading:
    """Return `reading`, of `lines`, with the targets of `good` in its statements that do not parse."""
    imports = any(_IMPORT.match(lines[span.line - 1]) for span in reading.broken)
    sure = {(one.name, one.kind): one for one in reading.targets if not _overlap(one.span, reading.broken)}
    old = [
        one
        for one in good.targets
        if (
            (now := sure.get((one.name, one.kind))) is None
            and (imports or _overlap(one.span, reading.broken))
        )
        # Without an import's names what stands elsewhere cannot tell what compiles it.
        or (imports and now is not None and now.name_span == one.name_span)
    ]
    places = {(one.name, one.kind) for one in old}
    spans = tuple(one.span for one in old)
    new = [
        one
        for one in reading.targets
        if (one.name, one.kind) not in places
        and ((one.name, one.kind) in sure or not _overlap(one.name_span, spans))
    ]
    targets = sorted((*old, *new), key=lambda one: (one.name_span.line, one.name_span.column or 0))
    return dataclasses.replace(reading, targets=tuple(targets))


def _overlap(span: Span, others: tuple[Span, ...]) -> bool:
    last = span.end_line or span.line
    return any(other.line <= last and span.line <= (other.end_line or other.line) for other in others)


def _after(target: StaticTarget, change: Change) -> StaticTarget | None:
    last = target.span.end_line or target.span.line
    if change.start[0] > last + 1:
        return target
    if _replaces(change, target.name_span):
        return None
    span, name = moved(target.span, change), moved(target.name_span, change)
    line = moved(Span(target.span.path, target.def_line), change)
    if span is None or name is None or line is None:
        return None
    return dataclasses.replace(
        target,
        span=span.span,
        name_span=name.span,
        def_line=line.span.line,
        directives=tuple(_directives(target, change)),
    )


def _replaces(change: Change, name: Span) -> bool:
    start, end = (name.line, name.column or 0), (name.end_line or name.line, name.end_column or 0)
    return change.start[0] < change.end[0] and change.start <= start and end <= change.end


def _directives(target: StaticTarget, change: Change) -> Iterator[DirectiveLine]:
    for directive in target.directives:
        there = moved(Span(target.span.path, directive.line), change)
        if there is not None:
            yield dataclasses.replace(directive, line=there.span.line)
