"""The findings of a file from every source, each once: runs here, failed tests, and open jobs.

Invariant: a finding of several sources is one entry that names each of them. It stays while one of them has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fuselight.shared.report.visible import visible
from fuselight_server.editor.presenters import convert

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lsprotocol import types

    from fuselight_server.base.finding import Finding

RUN = "fuselight"
"""The source of what runs here found."""
_MOST_NAMED = 3
"""Further sources that an entry names."""


@dataclass(frozen=True)
class ListedFinding:
    """A finding of one source, and the other sources that have the same."""

    finding: Finding
    edited: bool = False
    """Whether its line was edited since."""
    label: str = ""
    """Its source: a job or a failed test. Empty: a run here."""
    source: str = RUN
    """The source of its diagnostic while no other one has the same finding."""
    prefix: str = ""
    """Words before its message."""
    others: tuple[ListedFinding, ...] = ()

    @property
    def is_of_run(self) -> bool:
        """Whether a run here found it."""
        return not self.label

    def diagnostic(self, client: convert.Client) -> types.Diagnostic:
        """Show it with all of its sources."""
        shown = convert.diagnostic(self.finding, client, edited=self.edited)
        shown.source = visible(", ".join((self.source, *_named(self.others))))
        shown.message = visible(self.prefix) + shown.message
        return shown


def _named(others: tuple[ListedFinding, ...]) -> Iterator[str]:
    yield from (other.label for other in others[:_MOST_NAMED])
    if len(others) > _MOST_NAMED:
        yield f"{len(others) - _MOST_NAMED:,} more"


def each_once(listed: Iterable[ListedFinding]) -> list[ListedFinding]:
    """Make one entry of the same finding of several sources: that of the first, with the others."""
    groups: dict[tuple[object, ...], list[list[ListedFinding]]] = {}
    for item in listed:
        same = groups.setdefault(_identity(item.finding), [])
        of_other_sources = [group for group in same if all(known.label != item.label for known in group)]
        group = min(
            of_other_sources, key=lambda known: known[0].finding.span != item.finding.span, default=[]
        )
        if not group:
            same.append(group)
        group.append(item)
    return [replace(first, others=tuple(others)) for same in groups.values() for first, *others in same]


def _identity(finding: Finding) -> tuple[object, ...]:
    """What a finding is known by on its line; the columns may be unknown to one of the sources."""
    return finding.code, finding.span.path, finding.span.line, finding.subject or finding.title
