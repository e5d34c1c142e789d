"""The result of a target's newest run of one tier, and the table of all results by run key.

Invariant: edits move lines and mark a result as stale; nothing is computed again. Where a run failed before it had
data, was canceled or is still going on, the last complete result of the target stays with the new one.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from fuselight.shared.report import Failure, Report, data_key
from fuselight_server.base.files import read_python, within
from fuselight_server.base.finding import SourceLine, Span
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import findings_of_end
from fuselight_server.explain.kernels.shares import LinePart
from fuselight_server.source.positions import Places, TrackedFinding, tracked
from fuselight_server.source.text_changes import Change

R = TypeVar("R", bound="TargetResult")

STILL_RUNNING = "partial: still running"
CANCELED = "partial: canceled"
ENDED_EARLY = "partial: ended early"


@dataclass
class TargetResult(abc.ABC):
    """What the newest run of a target found. Each tier adds its data in a subclass."""

    MAX: ClassVar[int]
    """Results of this tier that are kept."""
    STALE_AFTER_FAILURE: ClassVar[bool] = True
    """Whether the result before counts as stale once a newer run has failed."""

    key: Key
    generation: int
    report: Report
    places: Places
    depends: frozenset[str] = frozenset()
    """The files that ran, and those whose lines the result names."""
    own: tuple[TrackedFinding, ...] = ()
    """The findings of this report."""
    ends: tuple[TrackedFinding, ...] = ()
    """The findings of what ended the run, if `own` does not have them."""
    previous: Any = None
    """The last result with data, of the same tier, where this one failed or is partial."""
    unfinished: str = ""
    """In words, why this result is partial: still running, or canceled. Empty for a complete one."""
    changes: tuple[str, ...] = ()
    """In words, what differs from the run before."""
    stale: bool = False
    """Whether a file in `depends` was edited after the run began."""
    changed_files: set[str] = field(default_factory=set)
    """Files whose text differs from the text that ran."""
    restored: str = ""
    """When the run was made, in ISO 8601, if an earlier session made it. Empty for a run of this session."""
    verified: bool = False
    """Whether it comes from the verification of a fix: no run has followed since the fix was applied."""
    moves: int = 0
    """How many edits have moved lines."""

    @property
    @abc.abstractmethod
    def has_data(self) -> bool:
        """Whether the run got far enough to say anything about the code."""

    @property
    def shown(self: R) -> R:  # noqa: PYI019 - typing.Self needs Python 3.11
        """The result to show: the previous one where this has no data."""
        return self if self.has_data or self.previous is None else self.previous

    @property
    def last_complete(self: R) -> R | None:  # noqa: PYI019 - as above
        """The last result of a run that reached its end and has data: this one or a previous one."""
        if self.has_data and not self.unfinished:
            return self
        return self.previous.last_complete if self.previous is not None else None

    @property
    def reported(self: R) -> R | None:  # noqa: PYI019 - as above
        """The result whose findings are shown: a partial result reports none of its own."""
        shown = self.shown
        return shown.previous if shown.unfinished else shown

    @property
    def sources(self: R) -> tuple[R, ...]:  # noqa: PYI019 - as above
        """The results whose findings are shown."""
        return (self.reported,) if self.reported is not None else ()

    @property
    def findings(self) -> tuple[TrackedFinding, ...]:
        """The findings to show."""
        return (*(finding for source in self.sources for finding in source.own), *self.ends)

    @property
    def findings_are_stale(self) -> bool:
        """Whether an edit of any line makes every finding doubtful, not only the findings of that line."""
        return False

    def follow(self, older: TargetResult) -> None:
        """Replace the result `older`, which stays as `previous` where this one is partial or has no data."""
        if self.unfinished and not self.has_data:
            self.previous = older if older.has_data else older.previous
        elif self.unfinished or not self.has_data:
            self.previous = older.last_complete
            if self.previous is not None and not self.unfinished and self.STALE_AFTER_FAILURE:
                self.previous.stale = True

    def end_early(self, failures: Iterable[Failure]) -> None:
        """Keep what a run that failed as a whole has shown, with its failures."""
        self.report = replace(self.report, failures=(*self.report.failures, *failures))
        self.unfinished = ENDED_EARLY
        self.track_ends()

    def track_ends(self) -> None:
        """Make the findings of what ended the run."""
        self.ends = tracked(findings_of_end(self.report), self.places, self.key.path)

    def paths(self) -> frozenset[str]:
        """Return the files that the result says something about."""
        before = self.previous.paths() if self.previous is not None else frozenset()
        return self.places.paths() | {self.key.path} | before

    def apply_edit(self, path: str, change: Change) -> None:
        """Move lines for one edit of a file's text."""
        self.places.apply_edit(path, change)
        self.moves += path in self.depends and change.new_end[0] != change.end[0]
        self._differs(path)
        if self.previous is not None:
            self.previous.apply_edit(path, change)

    def compare(self, changes: tuple[str, ...]) -> None:
        """Note in words what differs from the run before."""
        self.changes = changes
        for text in changes:
            for line in self.places.mentions(self.key.path, text):
                self.places.add_line(line)

    def text_now(self, text: str, path: str | None = None) -> str:
        """Return a text about a file, else about the target's, with the lines that it names where they are now."""
        return self.places.text_now(self.key.path if path is None else path, text)

    @property
    def changes_now(self) -> tuple[str, ...]:
        """In words, what differs from the run before, with lines where they are now."""
        return tuple(map(self.text_now, self.changes))

    def drop_file(self, path: str) -> None:
        """Drop the lines of a file that was deleted."""
        self.places.drop_file(path)
        self.mark_changed(path)
        if self.previous is not None:
            self.previous.drop_file(path)

    def mark_changed(self, path: str) -> None:
        """Note that the text of a file is not the text that ran, without knowing what changed."""
        self._differs(path)

    def _differs(self, path: str) -> None:
        self.changed_files.add(path)
        if path in self.depends:
            self.stale = True
            self._moved()

    def mark_current(self, path: str) -> None:
        """Note that a file has the text that ran again."""
        self.places.reset_file(path)
        self.changed_files.discard(path)
        self.stale = not self.depends.isdisjoint(self.changed_files)
        self.moves += 1
        self._moved()

    def _moved(self) -> None:  # noqa: B027 - a tier without lines has nothing to drop
        """Drop what was computed from where lines are."""


L = TypeVar("L", bound=LinePart[Any])


@dataclass(frozen=True)
class Row(Generic[L]):
    """One line of a result, where it is now."""

    place: SourceLine
    line: L
    fused_with: frozenset[SourceLine]
    """Where the lines are now that it shares kernels with."""

    @property
    def us(self) -> float:
        """Its part of the time, microseconds."""
        return float(self.line.us)

    @property
    def count(self) -> int:
        """Launches that it has a part in."""
        return len(self.line.launches)


@dataclass
class LineResult(TargetResult, Generic[L]):
    """A result that gives lines a part of the kernels' time."""

    lines: tuple[L, ...] = ()
    _rows: dict[str, tuple[Row[L], ...]] | None = None

    @cached_property
    def us(self) -> float:
        """The time of all kernels of one call, microseconds."""
        return float(sum(line.us for line in self.lines))

    def now(self, place: SourceLine) -> SourceLine | None:
        """Return where a line of the report is now; None if it was deleted."""
        there = self.places.track(Span(place.path, place.line))
        return None if there.is_deleted else replace(place, line=there.span.line)

    def rows(self, path: str) -> tuple[Row[L], ...]:
        """Return the lines of a file with a part in kernels, from the top."""
        if self._rows is None:
            self._rows = self._place_rows()
        return self._rows.get(path, ())

    def row(self, path: str, line: int) -> Row[L] | None:
        """Return one line of a file; None where it has no part in kernels."""
        return next((row for row in self.rows(path) if row.place.line == line), None)

    def _place_rows(self) -> dict[str, tuple[Row[L], ...]]:
        now = {
            line.place: place
            for line in self.lines
            if line.place is not None and (place := self.now(line.place)) is not None
        }
        rows: dict[str, list[Row[L]]] = {}
        for line in self.lines:
            place = now.get(line.place) if line.place is not None else None
            if place is not None:
                fused_with = frozenset(now[other] for other in line.fused_with if other in now)
                rows.setdefault(place.path, []).append(Row(place, line, fused_with))
        return {path: tuple(sorted(row, key=lambda row: row.place)) for path, row in rows.items()}

    def _moved(self) -> None:
        self._rows = None


class Results(dict["Key", TargetResult]):
    """The newest result of each target and tier, by run key, with a bound for each tier."""

    def of(self, kind: type[R]) -> dict[Key, R]:
        """Return the results of one tier."""
        return {key: result for key, result in self.items() if isinstance(result, kind)}

    def accept_result(self, result: TargetResult) -> frozenset[str]:
        """Replace the older result of the target; return the files that either names, or one that had to go."""
        older = self.pop(result.key, None)
        paths = set(result.paths() | result.depends)
        if older is not None:
            result.follow(older)
            paths |= older.paths()
        self[result.key] = result
        same_tier = [key for key, target_result in self.items() if type(target_result) is type(result)]
        for key in same_tier[: -result.MAX]:
            paths |= self.pop(key).paths()
        return frozenset(paths)

    def discard_partial(self, key: Key, generation: int) -> frozenset[str]:
        """Discard the partial result of a canceled run; return the files that it names.

        The previous result is back; where there is none, the partial one stays and says `CANCELED`.
        """
        result = self.get(key)
        if result is None or not result.unfinished or result.generation != generation:
            return frozenset()
        if result.previous is not None:
            self[key] = result.previous
        else:
            result.unfinished = CANCELED
        return result.paths()

    def drop_file(self, path: str) -> frozenset[str]:
        """Drop what is known of a deleted file or folder; return the files whose findings may differ."""
        paths = {path}
        for key in [key for key in self if within(key.path, path)]:
            paths |= self.pop(key).paths()
        for result in self.values():
            for file in [file for file in result.paths() | result.depends if within(file, path)]:
                result.drop_file(file)
                paths.add(file)
        return frozenset(paths)


_MARK = b"\xef\xbb\xbf"
"""UTF-8 byte order mark: a file may begin with it, and editors leave it out of the text."""


def keys_of(text: str) -> frozenset[str]:
    """Return the hashes that a file may have which an editor opens as `text`."""
    data = text.encode("utf-8", "surrogatepass")
    return frozenset({data_key(data), data_key(_MARK + data)})


def keys_on_disk(path: str) -> frozenset[str]:
    """Return the hash of a file as it lies on the disk; none where it cannot be read."""
    try:
        return frozenset({data_key(read_python(path))})
    except (OSError, ValueError):
        return frozenset()


def mark_current(
    results: Iterable[TargetResult], path: str, keys: Callable[[], frozenset[str]]
) -> list[TargetResult]:
    """Mark the results current that ran the text which the file at `path` has now; return them.

    `keys` returns the hashes of that text. It is called only where a result counts the file as changed.
    """
    changed = [
        result for result in _all(results) if path in result.changed_files and path in result.report.files
    ]
    now = keys() if changed else frozenset()
    current = [result for result in changed if result.report.files[path] in now]
    for target_result in current:
        target_result.mark_current(path)
    return current


def compare_with_disk(results: Iterable[TargetResult], path: str) -> list[TargetResult]:
    """Compare results with a file that is not open and was written; return those whose state changes."""
    dependent = [result for result in _all(results) if path in result.depends]
    now = keys_on_disk(path) if dependent else frozenset()
    changed = []
    for target_result in dependent:
        if target_result.report.files.get(path) not in now:
            target_result.mark_changed(path)
        elif path in target_result.changed_files:
            target_result.mark_current(path)
        else:
            continue  # written as it was
        changed.append(target_result)
    return changed


def _all(results: Iterable[TargetResult]) -> Iterator[TargetResult]:
    """Yield results and their previous ones."""
    for target_result in results:
        yield target_result
        if target_result.previous is not None:
            yield target_result.previous
