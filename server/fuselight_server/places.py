"""Findings that stay on their lines while the user edits: each span of a report is a place that moves.

Invariant: a place is moved by every change of its file after the text that the run saw, in order and once. A place
whose own line was touched is `edited`: what was found there may no longer hold. One whose lines were all deleted
is `gone`. Where the file has the very text again that ran, by its hash, all of this is taken back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from fuselight.report import Location
from fuselight_server.finding import Span
from fuselight_server.static.moves import moved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fuselight.report import Frame, Report
    from fuselight_server.finding import Finding, Related
    from fuselight_server.runs import Key
    from fuselight_server.static.moves import Change


@dataclass
class Place:
    """Where a span is now."""

    span: Span
    edited: bool = False
    gone: bool = False


class Places:
    """The places of one report, by the span that the report gave."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        """Start with every place where its report says."""
        self._by_span: dict[Span, Place] = {}
        self._by_path: dict[str, list[Place]] = {}
        for span in spans:
            self.add(span)

    def add(self, span: Span) -> Place:
        """Return the place of `span`, which begins to move now."""
        place = self._by_span.get(span)
        if place is None:
            place = self._by_span[span] = Place(span)
            self._by_path.setdefault(span.path, []).append(place)
        return place

    def now(self, span: Span) -> Span:
        """Return where `span` is now; a span that is not followed is where it was."""
        place = self._by_span.get(span)
        return span if place is None else place.span

    def paths(self) -> frozenset[str]:
        """Return the files that have places."""
        return frozenset(self._by_path)

    def forget(self, path: str) -> None:
        """Take in that the file at `path` is gone, and with it every place in it."""
        for place in self._by_path.pop(path, ()):
            place.gone = True

    def put_back(self, path: str) -> None:
        """Take in that the file at `path` has the text of the report again: every place in it is where that says."""
        there = {span: place for span, place in self._by_span.items() if span.path == path}
        for span, place in there.items():
            place.span, place.edited, place.gone = span, False, False
        if there:
            self._by_path[path] = list(there.values())

    def change(self, path: str, change: Change) -> None:
        """Move every place in `path` for one change of its text."""
        for place in self._by_path.get(path, ()):
            if place.gone:
                continue
            there = moved(place.span, change)
            if there is None:
                place.gone = True
            else:
                place.span, place.edited = there.span, place.edited or there.edited


@dataclass(frozen=True)
class Live:
    """A finding and its places."""

    finding: Finding
    place: Place
    related: tuple[Place, ...]

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


@dataclass
class Result:
    """What the newest finished run of a target found."""

    key: Key
    generation: int
    report: Report
    places: Places
    own: tuple[Live, ...] = ()
    """Findings of this report."""
    earlier: Result | None = None
    """The last result that learnt something, where this run failed before it could: it still stands."""
    stale: bool = False
    """Whether a file that it reads was edited after the run began."""
    depends: frozenset[str] = field(default_factory=frozenset)
    """Files of the user's whose code ran, as far as the report tells."""
    changes: tuple[str, ...] = ()
    """In words, what became of findings since the run before this one."""
    differs: set[str] = field(default_factory=set)
    """Files whose text was changed since the run saw it."""

    def change(self, path: str, change: Change) -> None:
        """Take in one change of a file's text."""
        self.places.change(path, change)
        self.differ(path)
        if self.earlier is not None:
            self.earlier.change(path, change)

    def forget(self, path: str) -> None:
        """Take in that the file at `path` is gone."""
        self.places.forget(path)
        self.differ(path)
        if self.earlier is not None:
            self.earlier.forget(path)

    def differ(self, path: str) -> None:
        """Take in that the file at `path` is another one than ran."""
        self.differs.add(path)
        self.stale = self.stale or path in self.depends

    def is_again(self, path: str) -> None:
        """Take in that the file at `path` has the text again that ran."""
        _is_again(self, path)

    @property
    def findings(self) -> tuple[Live, ...]:
        """Findings that stand, those of an earlier result included."""
        return self.own + (self.earlier.own if self.earlier else ())

    def paths(self) -> frozenset[str]:
        """Return the files that it says something about."""
        return self.places.paths() | {self.key.path} | (self.earlier.paths() if self.earlier else frozenset())

    @property
    def learnt(self) -> bool:
        """Whether the run came far enough to say anything about the code."""
        report = self.report
        return bool(report.frames or report.breaks or report.not_compiled or not report.failures)


def result_of(key: Key, generation: int, report: Report, findings: Iterable[Finding]) -> Result:
    """Make the result of a report that has just arrived, with nothing moved yet."""
    places = Places(span(location) for location in locations(report))
    live = tuple(
        Live(
            finding=finding,
            place=places.add(finding.span),
            related=tuple(places.add(item.span) for item in finding.related),
        )
        for finding in findings
    )
    return Result(
        key=key,
        generation=generation,
        report=report,
        places=places,
        own=live,
        depends=frozenset({key.path, *(frame.location.path for frame in report.frames)}),
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


class Moving:
    """What a run told of lines, which move with edits; of an unfinished run the last whole result stays with it.

    Mixed into results: it brings no state of its own.
    """

    key: Any
    places: Places
    depends: frozenset[str]
    stale: bool
    earlier: Any
    generation: int
    unfinished: str
    report: Report
    differs: set[str]
    _rows: Any

    def paths(self) -> frozenset[str]:
        """Return the files that it says something about."""
        return self.places.paths() | {self.key.path} | (self.earlier.paths() if self.earlier else frozenset())

    def change(self, path: str, change: Change) -> None:
        """Take in one change of a file's text."""
        self.places.change(path, change)
        self.differ(path)
        if self.earlier is not None:
            self.earlier.change(path, change)

    def forget(self, path: str) -> None:
        """Take in that the file at `path` is gone."""
        self.places.forget(path)
        self.differ(path)
        if self.earlier is not None:
            self.earlier.forget(path)

    def differ(self, path: str) -> None:
        """Take in that the file at `path` is another one than ran."""
        self.differs.add(path)
        if path in self.depends:
            self.stale, self._rows = True, None

    def is_again(self, path: str) -> None:
        """Take in that the file at `path` has the text again that ran."""
        _is_again(self, path)
        self._rows = None


def _is_again(result: Result | Moving, path: str) -> None:
    result.places.put_back(path)
    result.differs.discard(path)
    result.stale = not result.depends.isdisjoint(result.differs)


MovingKind = TypeVar("MovingKind", bound=Moving)


def take_back(kept: dict[Key, MovingKind], key: Key, generation: int, cancelled: str) -> frozenset[str]:
    """Take back what a run that was cancelled has shown so far; return the files whose results are others now.

    The last whole result stands again; where there is none, what there is of this one stays, as `cancelled` says.
    """
    result = kept.get(key)
    if result is None or not result.unfinished or result.generation != generation:
        return frozenset()
    if result.earlier is not None:
        kept[key] = result.earlier
    else:
        result.unfinished = cancelled
    return result.paths()
