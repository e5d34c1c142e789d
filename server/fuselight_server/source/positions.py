"""Findings that stay on their lines while the user edits: each span of a report is tracked through edits.

Invariant: each edit of a file moves a tracked span once, in order. A span whose own line was edited is `edited`: its
finding may no longer hold. A span whose lines were all deleted `is_deleted`. If the file has the text of the run again
(same hash), every span returns to where the report put it. A line that a text names is tracked like a span, and the
text is shown with the number that the line has now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath

from fuselight.shared.report import Frame, Location, Report
from fuselight_server.base.finding import Finding, Related, Span
from fuselight_server.source.text_changes import Change, moved

_LINES = re.compile(
    r"`[^`]*`|(?:(?P<file>[^\s`'\"()]+\.(?:py|pyw|ipynb)) on )?\b"
    r"(?P<lines>line \d+|lines \d+(?:(?:-|, and |, | and )\d+\b(?! more))*)(?! \(deleted)"
    r"|(?P<suffix>\.\w+):(?P<line>\d+)\b"
)
"""Quoted code, and lines that a text names: `line 3`, `train.py on line 3`, `lines 12-14 and 19`, `train.py:3`."""
_NUMBER = re.compile(r"\d+")
_WORDS_OF_OTHERS = frozenset({"FL401", "FL402", "FL403"})
"""Codes whose texts repeat the exception of a program: only lines of the report are known to be meant."""


@dataclass
class TrackedSpan:
    """Where a span is now."""

    span: Span
    edited: bool = False
    is_deleted: bool = False


class Places:
    """The tracked spans of one report, by the span that the report gave."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        """Track `spans`, each from where the report puts it."""
        self._by_span: dict[Span, TrackedSpan] = {}
        self._by_path: dict[str, list[TrackedSpan]] = {}
        self._by_line: dict[tuple[str, int], TrackedSpan] = {}
        """The first tracked span of each line that the report names."""
        self._have_moved = False
        for span in spans:
            self.track(span)

    def track(self, span: Span) -> TrackedSpan:
        """Return the tracked span of `span`, which is tracked from now on."""
        place = self._by_span.get(span)
        if place is None:
            place = self._by_span[span] = TrackedSpan(span)
            self._by_path.setdefault(span.path, []).append(place)
            self._by_line.setdefault((span.path, span.line), place)
        return place

    def add_line(self, line: Span) -> None:
        """Track a line that a text names, unless a span of the report starts on it."""
        if (line.path, line.line) not in self._by_line:
            self.track(line)

    def now(self, span: Span) -> Span:
        """Return where `span` is now; a span that is not tracked has not moved."""
        place = self._by_span.get(span)
        return span if place is None else place.span

    def line_now(self, path: str, line: int) -> Span | None:
        """Return where a line of the report is now; None if it was deleted, or the report does not name it."""
        place = self._by_line.get((path, line))
        return None if place is None or place.is_deleted else place.span

    def text_now(self, path: str, text: str) -> str:
        """Return a text about a file with the lines that it names, as `line 12` or `train.py:12`, where they are now.

        Code in backticks stays; so does the number of a line without a tracked span.
        """
        if not self._have_moved:
            return text

        def words(named: re.Match[str]) -> str:
            if named["suffix"]:
                at = self._file_of(text[: named.end("suffix")], int(named["line"]))
                return named[0] if at is None else f"{named['suffix']}:{self._line_now(at, named['line'])}"
            at = self._file_of(named["file"]) if named["file"] else path
            if at is None or not named["lines"]:
                return named[0]
            lines = _NUMBER.sub(lambda number: self._line_now(at, number[0]), named["lines"])
            return named[0].removesuffix(named["lines"]) + lines

        return _LINES.sub(words, text)

    def _line_now(self, path: str, number: str) -> str:
        place = self._by_line.get((path, int(number)))
        if place is None:
            return number
        return f"{number} (deleted)" if place.is_deleted else str(place.span.line)

    def _file_of(self, words: str, line: int | None = None) -> str | None:
        """Return the file whose name `words` end with: of several the only one that has `line`, else None."""
        named = [at for at in self._by_path if _ends_with_name(words, PurePath(at).name)]
        if line is not None:
            named = [at for at in named if (at, line) in self._by_line]
        return named[0] if len(named) == 1 else None

    def mentions(self, path: str, text: str) -> Iterator[Span]:
        """Yield the lines that a text about a file names, as `line 12`."""
        for named in _LINES.finditer(text):
            at = self._file_of(named["file"]) if named["file"] else path
            if named["lines"] and at is not None:
                yield from (Span(at, int(number)) for number in _NUMBER.findall(named["lines"]))

    def paths(self) -> frozenset[str]:
        """Return the files that have tracked spans."""
        return frozenset(self._by_path)

    def drop_file(self, path: str) -> None:
        """Mark every span of a deleted file as gone."""
        self._have_moved = True
        for place in self._by_path.pop(path, ()):
            place.is_deleted = True

    def reset_file(self, path: str) -> None:
        """Return every span of `path` to where the report puts it: the file has the text of the run again."""
        there = {span: place for span, place in self._by_span.items() if span.path == path}
        for span, place in there.items():
            place.span, place.edited, place.is_deleted = span, False, False
        if there:
            self._by_path[path] = list(there.values())

    def apply_edit(self, path: str, change: Change) -> None:
        """Move every span in `path` for one change of its text."""
        self._have_moved = True
        for place in self._by_path.get(path, ()):
            if place.is_deleted:
                continue
            there = moved(place.span, change)
            if there is None:
                place.is_deleted = True
            else:
                place.span, place.edited = there.span, place.edited or there.edited


@dataclass(frozen=True)
class TrackedFinding:
    """A finding and its tracked spans."""

    finding: Finding
    place: TrackedSpan
    related: tuple[TrackedSpan, ...]
    places: Places
    """Where the lines are that its texts name."""
    home: str = ""
    """The file of its target, whose inputs its texts name."""

    @property
    def edited(self) -> bool:
        """Whether its line was edited since the run."""
        return self.place.edited

    def now(self) -> Finding:
        """Return the finding with its spans, and the lines that its texts name, where they are now."""
        full = self.finding

        def text(words: str) -> str:
            return self.places.text_now(full.span.path, words)

        related: tuple[Related, ...] = tuple(
            Related(place.span, self.places.text_now(item.span.path, item.message))
            for item, place in zip(full.related, self.related, strict=True)
            if not place.is_deleted
        )
        return replace(
            full,
            span=self.place.span,
            related=related,
            title=text(full.title),
            message=text(full.message),
            remedies=tuple(remedy.renamed(text) for remedy in full.remedies),
            cost=tuple(map(text, full.cost)),
            inputs=self.places.text_now(self.home or full.span.path, full.inputs),
        )


def tracked(findings: Iterable[Finding], places: Places, home: str = "") -> tuple[TrackedFinding, ...]:
    """Track the spans of `findings` in `places`, and the lines that their texts name; `home`: the target's file."""
    followed = []
    for finding in findings:
        related = tuple(places.track(item.span) for item in finding.related)
        followed.append(TrackedFinding(finding, places.track(finding.span), related, places, home))
        if finding.code not in _WORDS_OF_OTHERS:
            for named in _named_lines(finding, places):
                places.add_line(named)
        for named in places.mentions(home or finding.span.path, finding.inputs):
            places.add_line(named)
    return tuple(followed)


def _named_lines(finding: Finding, places: Places) -> Iterator[Span]:
    for text in (finding.title, finding.message, *finding.hints, *finding.cost):
        yield from places.mentions(finding.span.path, text)


def _ends_with_name(words: str, name: str) -> bool:
    """Whether words end with the name of a file, and not with a longer name."""
    before = words.removesuffix(name)
    return words.endswith(name) and not re.search(r"[\w.-]$", before)


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
    yield from _of_inputs(report)
    yield from _of_results(report)
    yield from _of_memory(report)
    for note in report.notes:
        if note.location is not None:
            yield note.location
    for forecast in report.forecasts:
        yield from (at for change in forecast.changes for at in change.born)
    yield from _of_own_kernels(report)


def _of_own_kernels(report: Report) -> Iterator[Location]:
    """Every line of a kernel: those of its compiled forms come from any of them. Of a library's, also the call."""
    for kernel in report.own_kernels:
        if kernel.library:
            yield from kernel.launched_at
        lines = range(kernel.location.line, kernel.last_line + 1)
        yield from (Location(kernel.location.path, line) for line in lines)
        if kernel.decorator is not None:
            yield kernel.decorator


def _of_results(report: Report) -> Iterator[Location]:
    for call in report.results.calls if report.results is not None else ():
        yield from (at for at in (call.location, call.caller) if at is not None)
        yield from call.accuracy.first


def _of_memory(report: Report) -> Iterator[Location]:
    for estimate in report.memory:
        for peak in (peak for peak in (estimate.eager, estimate.compiled) if peak is not None):
            at = (peak.location, *(row.location for row in (*peak.held, *peak.saved)))
            yield from (location for location in at if location is not None)


def _of_inputs(report: Report) -> Iterator[Location]:
    directives = (failure.directive_line for failure in report.failures)
    yield from (Location(report.target.path, line) for line in directives if line is not None)
    if report.inputs is None:
        return
    if report.inputs.line is not None:
        yield Location(report.inputs.path or report.target.path, report.inputs.line)
    yield from (call.location for call in report.inputs.calls if call.location is not None)
