"""One cause, one entry: findings of one cause at several places become one finding that lists the others.

A break in a library is raised on each line of the user's that leads there, and one cure removes all of them. Findings
share a cause if their family says so (`Finding.cause`), which it does only for what is the same in place, reason and
advice. Invariant: `fold` loses no place. The full one is no consequence of another, and the first of those by rank: the
worst, then the most expensive, then the first in file order; `expand` makes the others short references to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fuselight_server.base.finding import Finding, Related, Severity, SourceLine, rank
from fuselight_server.base.formatting import format_count, format_line_ranges, format_place
from fuselight_server.explain.findings.common.text import compose

_MAX_LISTED = 40
"""Lines of further places that a message names."""


def group_by_cause(ungrouped: Iterable[Finding]) -> list[list[Finding]]:
    """Group findings of one cause, in the order of the first of each; within a group, by rank."""
    groups: dict[object, list[Finding]] = {}
    for finding in ungrouped:
        groups.setdefault((finding.code, finding.cause) if finding.cause else id(finding), []).append(finding)
    return [sorted(group, key=_first) for group in groups.values()]


def _first(finding: Finding) -> tuple[object, ...]:
    return finding.is_consequence, rank(finding)


def fold(unfolded: Iterable[Finding]) -> list[Finding]:
    """One finding for each cause; that of a cause with several places names them and holds their findings."""
    return [_full(*group) for group in group_by_cause(unfolded)]


def expand(full: Finding) -> Iterator[Finding]:
    """Yield a folded finding, then a short one of severity hint for each of its other places."""
    yield full
    for finding in full.also_at:
        yield _reference(finding, full)


def same_cause(full: Finding) -> tuple[Related, ...]:
    """The other places of a folded finding, as related places."""
    return tuple(Related(finding.span, "same cause") for finding in full.also_at)


def _full(first: Finding, *others: Finding) -> Finding:
    if not others:
        return first
    end = compose(cost=first.cost, hints=first.hints)
    head = first.message.removesuffix(end).rstrip() if end else first.message
    parts = (head, _places(first, others), end if first.message.endswith(end) else "")
    return replace(first, message=compose(*parts), also_at=others)


def _places(first: Finding, others: tuple[Finding, ...]) -> str:
    """Name the places, as `2 more places have the same cause: lines 12, 14`."""
    lines = [SourceLine(finding.span.path, finding.span.line) for finding in others]
    listed = format_line_ranges(lines[:_MAX_LISTED], SourceLine(first.span.path, first.span.line))
    more = len(lines) - _MAX_LISTED
    verb = "has" if len(lines) == 1 else "have"
    return f"{format_count(len(lines), 'more place')} {verb} the same cause: {listed}" + (
        f" and {more:,} more." if more > 0 else "."
    )


def _reference(finding: Finding, full: Finding) -> Finding:
    is_near = finding.span.path == full.span.path
    where = f"line {full.span.line}" if is_near else format_place(full.span.path, full.span.line)
    return replace(
        finding,
        severity=Severity.HINT,
        title=f"same cause as {where}: {finding.title}",
        subject=finding.subject or finding.title,
        message=compose(f"The finding at {where} explains the cause and what to do.", cost=finding.cost),
        related=(Related(full.span, "explained here"), *finding.related),
        remedies=(),
        fixes=(),
        data=(),
        same_as=full.span,
    )
