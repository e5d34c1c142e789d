"""One cause, one entry: findings of one cause at several places become one finding that lists the others.

A break in a library is raised on each line of the user's that leads there, and one cure removes all of them. Findings
share a cause if their family says so (`Finding.cause`), which it does only for what is the same in place, reason and
advice. Invariant: `fold` loses no place. The first finding by rank is the full one: the worst, then the most expensive,
then the first in file order; `expand` makes the others short references to it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fuselight_server.base.finding import Related, Severity, SourceLine, rank
from fuselight_server.base.formatting import format_count, format_line_ranges, format_place
from fuselight_server.explain.findings.common.text import compose

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fuselight_server.base.finding import Finding

_MOST_LISTED = 40
"""Lines of further places that a message names."""


def group_by_cause(found: Iterable[Finding]) -> list[list[Finding]]:
    """Group findings of one cause, in the order of the first of each; within a group, by rank."""
    groups: dict[object, list[Finding]] = {}
    for one in found:
        groups.setdefault((one.code, one.cause) if one.cause else id(one), []).append(one)
    return [sorted(group, key=rank) for group in groups.values()]


def fold(found: Iterable[Finding]) -> list[Finding]:
    """One finding for each cause; that of a cause with several places names them and holds their findings."""
    return [_full(*group) for group in group_by_cause(found)]


def expand(full: Finding) -> Iterator[Finding]:
    """Yield a folded finding, then a short one of severity hint for each of its other places."""
    yield full
    for one in full.also_at:
        yield _reference(one, full)


def same_cause(full: Finding) -> tuple[Related, ...]:
    """The other places of a folded finding, as related places."""
    return tuple(Related(one.span, "same cause") for one in full.also_at)


def _full(first: Finding, *others: Finding) -> Finding:
    if not others:
        return first
    end = compose(cost=first.cost, hints=first.hints)
    head = first.message.removesuffix(end).rstrip() if end else first.message
    parts = (head, _places(first, others), end if first.message.endswith(end) else "")
    return replace(first, message=compose(*parts), also_at=others)


def _places(first: Finding, others: tuple[Finding, ...]) -> str:
    """Name the places, as `2 more places have the same cause: lines 12, 14`."""
    lines = [SourceLine(one.span.path, one.span.line) for one in others]
    listed = format_line_ranges(lines[:_MOST_LISTED], SourceLine(first.span.path, first.span.line))
    more = len(lines) - _MOST_LISTED
    verb = "has" if len(lines) == 1 else "have"
    return f"{format_count(len(lines), 'more place')} {verb} the same cause: {listed}" + (
        f" and {more:,} more." if more > 0 else "."
    )


def _reference(one: Finding, full: Finding) -> Finding:
    is_near = one.span.path == full.span.path
    where = f"line {full.span.line}" if is_near else format_place(full.span.path, full.span.line)
    return replace(
        one,
        severity=Severity.HINT,
        title=f"same cause as {where}: {one.title}",
        message=compose(f"The finding at {where} explains the cause and what to do.", cost=one.cost),
        related=(Related(full.span, "explained here"), *one.related),
        hints=(),
        fixes=(),
        data=(),
        same_as=full.span,
    )
