"""Findings that stay on their lines while the user edits: each span of a report is tracked through edits.

Invariant: each edit of a file moves a tracked span once, in order. A span whose own line was edited is `edited`: its
finding may no longer hold. A span whose lines were all deleted is `gone`. When the file has the text of the run again
(same hash), every span returns to where the report put it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fuselight.report import Location
from fuselight_server.finding import Span
from fuselight_server.static.text_changes import moved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fuselight.report import Frame, Report
    from fuselight_server.finding import Finding, Related
    from fuselight_server.static.text_changes import Change

_LINES = re.compile(r"`[^`]*`|\blines? \d+(?:(?:, and |, | and )\d+)*")
"""Quoted code, and lines that a text names."""
_NUMBER = re.compile(r"\d+")


@dataclass
class TrackedSpan:
    """Where a span is now."""

    span: Span
    edited: bool = False
    gone: bool = False


class Places:
    """The tracked spans of one report, by the span that the report gave."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        """Track `spans`, each from where the report puts it."""
        self._by_span: dict[Span, TrackedSpan] = {}
        self._by_path: dict[str, list[TrackedSpan]] = {}
        self._by_line: dict[tuple[str, int], TrackedSpan] = {}
        """The first tracked span of each line that the report names."""
        for span in spans:
            self.add(span)

    def add(self, span: Span) -> TrackedSpan:
        """Return the tracked span of `span`, which is tracked from now on."""
        place = self._by_span.get(span)
        if place is None:
            place = self._by_span[span] = TrackedSpan(span)
            self._by_path.setdefault(span.path, []).append(place)
            self._by_line.setdefault((span.path, span.line), place)
        return place

    def now(self, span: Span) -> Span:
        """Return where `span` is now; a span that is not tracked has not moved."""
        place = self._by_span.get(span)
        return span if place is None else place.span

    def text_now(self, path: str, text: str) -> str:
        """Return a text about a file with the lines that it names, as `on line 12`, where they are now.

        Code in backticks stays; so does the number of a line without a tracked span.
        """

        def line(number: re.Match[str]) -> str:
            place = self._by_line.get((path, int(number[0])))
            return number[0] if place is None else str(place.span.line)

        def words(found: re.Match[str]) -> str:
            return found[0] if found[0].startswith("`") else _NUMBER.sub(line, found[0])

        return _LINES.sub(words, text)

    def paths(self) -> frozenset[str]:
        """Return the files that have tracked spans."""
        return frozenset(self._by_path)

    def drop_file(self, path: str) -> None:
        """Mark every span of a deleted file as gone."""
        for place in self._by_path.pop(path, ()):
            place.gone = True

    def reset_file(self, path: str) -> None:
        """Return every span of `path` to where the report puts it: the file has the text of the run again."""
        there = {span: place for span, place in self._by_span.items() if span.path == path}
        for span, place in there.items():
            place.span, place.edited, place.gone = span, False, False
        if there:
            self._by_path[path] = list(there.values())

    def change(self, path: str, change: Change) -> None:
        """Move every span in `path` for one change of its text."""
        for place in self._by_path.get(path, ()):
            if place.gone:
                continue
            there = moved(place.span, change)
            if there is None:
                place.gone = True
            else:
                place.span, place.edited = there.span, place.edited or there.edited


@dataclass(frozen=True)
class TrackedFinding:
    """A finding and its tracked spans."""

    finding: Finding
    place: TrackedSpan
    related: tuple[TrackedSpan, ...]

    @property
    def edited(self) -> bool:
        """Whether its line was edited since the run."""
        return self.place.edited

    def now(self) -> Finding:
        """Return the finding with its spans where they are now."""
        related: tuple[Related, ...] = tuple(
            replace(item, span=place.span)
            for item, place in zip(self.finding.related, self.related, strict=True)
            if not place.gone
        )
        return replace(self.finding, span=self.place.span, related=related)


def tracked(findings: Iterable[Finding], places: Places) -> tuple[TrackedFinding, ...]:
    """Track the spans of `findings` in `places`."""
    return tuple(
        TrackedFinding(one, places.add(one.span), tuple(places.add(item.span) for item in one.related))
        for one in findings
    )


def span(location: Location) -> Span:
    """Drop the function's name from a report's location."""
    return Span(location.path, location.line, location.column, location.end_line, location.end_column)


def resumption(frame: Frame) -> Location:
    """Return the line from which a resume function goes on; where it starts, for any other frame."""
    if frame.resumes_at is None:
        return frame.location
    return replace(frame.location, line=frame.resumes_at, column=None, end_line=None, end_column=None)


def locations(report: Report) -> Iterator[Location]:  # noqa: C901 - one loop a kind of entry
    """Yield every location of `report` that the editor can show or jump to."""
    yield Location(report.target.path, max(report.target.line, 1))
    for frame in report.frames:
        yield frame.location
        if frame.resumes_at is not None:
            yield resumption(frame)
    for compile_ in report.compiles:
        for guard in compile_.guards:
            yield from guard.born[-1:]
        for symbol in compile_.symbols:
            yield from symbol.stack[-1:]
    for break_ in report.breaks:
        yield from break_.stack
        yield from break_.above
    for recompile in report.recompiles:
        yield recompile.location
        yield from recompile.caller
        yield from (at for entry in recompile.entries for failed in entry.failures for at in failed.born)
    for frame_left in report.not_compiled:
        yield frame_left.location
    for failure in report.failures:
        yield from failure.stack
    for note in report.notes:
        if note.location is not None:
            yield note.location
    for forecast in report.forecasts:
        yield from (at for change in forecast.changes for at in change.born)
