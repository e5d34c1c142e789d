"""Results of tier memory: what a target's calls or training steps allocate, on lines that move with edits.

Invariant: an estimate is about the whole call, so an edit of any file of it makes it stale. A run that failed leaves
the estimate before it as it was.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from fuselight.shared.report import EditResults, HeldMemory, MemoryEstimate, MemoryPeak, Report, TriedEdit
from fuselight_server.base.finding import SourceLine, Span
from fuselight_server.base.unified_diff import DiffError, apply_diff
from fuselight_server.editor.results.target_result import TargetResult
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.memory.words import peak_bytes, shown_peak
from fuselight_server.source.positions import Places, locations, span

LEAST_PART = 0.01
"""Of what is kept for the backward: a line that keeps less has no hint."""


@dataclass(frozen=True)
class LineMemory:
    """What one line of the forward keeps for the backward, and holds at the peak; bytes."""

    place: SourceLine
    """Where it is now."""
    saved: int
    """Of the form that is shown: compiled if that is estimated."""
    eager: int | None
    """In eager mode; None if that is not estimated."""
    at_peak: int
    """What the line made that is allocated at the peak."""


@dataclass
class MemoryResult(TargetResult):
    """What the newest estimate of a target showed."""

    MAX: ClassVar[int] = 50  # the workspace's folder has as many of them
    STALE_AFTER_FAILURE: ClassVar[bool] = False

    _lines: dict[str, tuple[LineMemory, ...]] | None = field(default=None, repr=False)

    @property
    def has_data(self) -> bool:
        """Whether a peak is known."""
        return any(shown_peak(estimate) is not None for estimate in self.report.memory)

    @property
    def largest(self) -> MemoryEstimate | None:
        """The call that needs most; the first one if none is estimated."""
        return max(self.report.memory, key=peak_bytes, default=None)

    def lines(self, path: str) -> tuple[LineMemory, ...]:
        """Return the lines of a file that keep something for the backward, from the top."""
        if self._lines is None:
            self._lines = self._place_lines()
        return self._lines.get(path, ())

    @property
    def saved_bytes(self) -> int:
        """What all lines of the shown training step keep for the backward."""
        peak = self._training_peak()
        return sum(row.bytes for row in peak.saved) if peak is not None else 0

    def _training(self) -> MemoryEstimate | None:
        trained = [estimate for estimate in self.report.memory if estimate.training]
        return max(trained, key=peak_bytes, default=None)

    def _training_peak(self) -> MemoryPeak | None:
        estimate = self._training()
        return shown_peak(estimate) if estimate is not None else None

    def _place_lines(self) -> dict[str, tuple[LineMemory, ...]]:
        estimate, peak = self._training(), self._training_peak()
        if estimate is None or peak is None:
            return {}
        saved, held = self._by_line(peak.saved), self._by_line(peak.held)
        eager = self._by_line(estimate.eager.saved) if estimate.eager is not None else None
        lines: dict[str, list[LineMemory]] = {}
        for place in sorted(saved):
            before = eager[place] if eager is not None else None
            lines.setdefault(place.path, []).append(LineMemory(place, saved[place], before, held[place]))
        return {path: tuple(of_file) for path, of_file in lines.items()}

    def _by_line(self, rows: Iterable[HeldMemory]) -> Counter[SourceLine]:
        """Bytes by line, where the lines are now; those of edited and deleted lines are left out."""
        sizes: Counter[SourceLine] = Counter()
        for row in rows:
            if row.location is None:
                continue
            there = self.places.track(span(row.location))
            if not (there.is_deleted or there.edited):
                sizes[SourceLine(there.span.path, there.span.line)] += row.bytes
        return sizes

    def edits(self, path: str) -> Iterator[tuple[MemoryEstimate, TriedEdit]]:
        """The changes of a file that need less, while every file of the estimate is as it was then."""
        if not self.stale:
            yield from (
                (estimate, edit)
                for estimate in self.report.memory
                for edit in estimate.edits
                if edit.location.path == path
            )

    def now(self, row: HeldMemory) -> Span | None:
        """Return where the line of a row is now."""
        return self.places.now(span(row.location)) if row.location is not None else None

    def _moved(self) -> None:
        self._lines = None


def memory_result_of(key: Key, generation: int, report: Report) -> MemoryResult:
    """Make the result of a new report, before any edit."""
    places = Places(span(location) for location in locations(report))
    depends = frozenset({key.path, *report.files})
    result = MemoryResult(key, generation, report, places, depends=depends)
    result.track_ends()
    return result


def with_known_edits(report: Report, earlier: Iterable[Report]) -> Report:
    """A new estimate with the edits of earlier ones of the same text and device: the editor tries none itself."""
    known = {
        (estimate.call, estimate.training): estimate.edits
        for before in earlier
        if (before.target.path, before.target.name) == (report.target.path, report.target.name)
        and before.target_device == report.target_device
        and before.files == report.files
        for estimate in before.memory
        if estimate.edits
    }
    estimates = (
        replace(estimate, edits=estimate.edits or known.get((estimate.call, estimate.training), ()))
        for estimate in report.memory
    )
    return replace(report, memory=tuple(estimates))


def changed_texts(
    results: Iterable[MemoryResult], path: str, text: str, lines: range
) -> Iterator[tuple[MemoryEstimate, TriedEdit, str]]:
    """The changes of some lines of a file that need less and have the same results, each once, with its new text.

    `text`: that of the file now. One whose diff does not apply is left out.
    """
    titles: set[tuple[int, str]] = set()
    for result in sorted((result.shown for result in results), key=lambda result: -result.generation):
        for estimate, edit in result.edits(path):
            key = edit.location.line, edit.title
            if edit.location.line not in lines or key in titles or edit.results is not EditResults.SAME:
                continue
            titles.add(key)
            with contextlib.suppress(DiffError, ValueError):  # of a damaged store
                (new,) = apply_diff(edit.diff, lambda name: text if name == path else None).values()
                yield estimate, edit, new


def saved_lines(results: Iterable[MemoryResult], path: str) -> dict[int, tuple[MemoryResult, LineMemory]]:
    """The lines of a file that keep a part of the memory worth a hint, by number, each from the newest estimate."""
    lines: dict[int, tuple[MemoryResult, LineMemory]] = {}
    for result in sorted((result.shown for result in results), key=lambda result: -result.generation):
        least = LEAST_PART * result.saved_bytes
        for line in result.lines(path):
            if line.saved >= max(least, 1):
                lines.setdefault(line.place.line, (result, line))
    return lines
