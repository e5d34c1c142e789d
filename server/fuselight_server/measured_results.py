"""What benchmarks found, on lines that move with edits.

Invariant: what a line takes is worked out once a report; an edit moves the lines and marks the result as stale for as
long as the text is not what was measured. A run that measured nothing leaves the one before it standing as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from fuselight_server.finding import Span
from fuselight_server.findings import findings_of_measured
from fuselight_server.kernels import Place
from fuselight_server.measured.comparing import has_times, shown_of
from fuselight_server.measured.lines import LineTime, times_by_line
from fuselight_server.measured.page import places_of
from fuselight_server.places import Live, Moving, Places, locations, span

if TYPE_CHECKING:
    from fuselight.report import Failure, MeasuredConfiguration, Report
    from fuselight_server.measured.history import Run
    from fuselight_server.measured.page import Drawn
    from fuselight_server.runs import Key
    from fuselight_server.static.moves import Change

SO_FAR = "so far: the benchmark still goes on"
CANCELLED = "cancelled: not all was measured"
ENDED = "ended early: not all was measured"


@dataclass(frozen=True)
class MeasuredRow:
    """One line with a part in what ran on the device, where it is now."""

    place: Place
    time: LineTime
    fused_with: frozenset[Place]
    """Where the lines are now that it shares kernels with."""

    @property
    def us(self) -> float:
        """Its part of the time, microseconds."""
        return float(self.time.us)


@dataclass
class MeasuredResult(Moving):
    """What the newest benchmark of a target found."""

    key: Key
    generation: int
    report: Report
    lines: tuple[LineTime, ...]
    """Of the configuration that stands on the lines."""
    places: Places
    depends: frozenset[str] = field(default_factory=frozenset)
    """Files whose lines it speaks of, and that were run."""
    stale: bool = False
    """Whether one of these was edited after the run began."""
    own: tuple[Live, ...] = ()
    """Its findings."""
    notes: tuple[str, ...] = ()
    """In words, what went on beside it."""
    earlier: MeasuredResult | None = None
    """The last whole result, where this run measured nothing or is not at its end."""
    unfinished: str = ""
    """In words, why this is not all: the run goes on, or was cancelled. Empty for all of it."""
    told: frozenset[Place] = frozenset()
    """Every line that its page names."""
    run: Run | None = None
    """What is kept and exported of it, with its lines as they were when it ran; None where nothing was measured."""
    kept: bool = False
    """Whether that lies in the history, under its id."""
    drawn: Drawn | None = None
    """Its page as it was made last."""
    moves: int = 0
    """How many edits have moved lines since: places that its page tells are others then."""
    differs: set[str] = field(default_factory=set)
    """Files whose text was changed since the run saw it."""
    _rows: dict[str, tuple[MeasuredRow, ...]] | None = None

    @cached_property
    def us(self) -> float:
        """Of all that ran on the device in one call, microseconds."""
        return float(sum(line.us for line in self.lines))

    @cached_property
    def configuration(self) -> MeasuredConfiguration | None:
        """The configuration that stands on the lines; None where none was profiled."""
        return shown_of(self.report.measured) if self.report.measured is not None else None

    @property
    def learnt(self) -> bool:
        """Whether anything has a time."""
        return has_times(self.report.measured)

    @property
    def seconds(self) -> float:
        """How long the benchmark had taken when this was known: another number for each part of it."""
        return self.report.measured.seconds if self.report.measured is not None else 0.0

    @property
    def has_begun(self) -> bool:
        """Whether anything is known of a configuration: its first call, or that it failed."""
        rows = self.report.measured.configurations if self.report.measured is not None else ()
        return any(one.first_us is not None or one.failure is not None for one in rows)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What failed: the target as a whole first, then configurations."""
        measured = self.report.measured
        rows = measured.configurations if measured is not None else ()
        return (*self.report.failures, *(one.failure for one in rows if one.failure is not None))

    @property
    def shown(self) -> MeasuredResult:
        """The result whose times stand."""
        return self if self.learnt or self.earlier is None else self.earlier

    @property
    def whole(self) -> MeasuredResult | None:
        """The last result that is all of what a benchmark measured, this one or an earlier."""
        if self.learnt and not self.unfinished:
            return self
        return self.earlier.whole if self.earlier is not None else None

    def change(self, path: str, change: Change) -> None:
        """Take in one change of a file's text."""
        super().change(path, change)
        self.moves += path in self.depends and change.new_end[0] != change.end[0]

    def is_again(self, path: str) -> None:
        """Take in that the file at `path` has the text again that ran."""
        super().is_again(path)
        self.moves += 1

    def follow(self, older: MeasuredResult) -> None:
        """Come after the result of the run before; the last whole one stays where this is none, or learnt nothing.

        So does one that ended early, until there are times again.
        """
        if self.unfinished and not self.learnt:
            self.earlier = older if older.learnt else older.earlier
        elif self.unfinished or not self.learnt:
            self.earlier = older.whole

    @property
    def told_of(self) -> MeasuredResult | None:
        """The result whose findings stand: those of an unfinished benchmark are told when it is at its end."""
        shown = self.shown
        return shown.earlier if shown.unfinished else shown

    @property
    def findings(self) -> tuple[Live, ...]:
        """Findings that stand."""
        return self.told_of.own if self.told_of is not None else ()

    @property
    def outdated(self) -> bool:
        """Whether these are of code that was edited since, on whichever line: they speak of all of a call."""
        return self.told_of is not None and self.told_of.stale

    def rows(self, path: str) -> tuple[MeasuredRow, ...]:
        """Return the lines of a file with a part in what ran, from the top."""
        if self._rows is None:
            self._rows = self._place_rows()
        return self._rows.get(path, ())

    def _place_rows(self) -> dict[str, tuple[MeasuredRow, ...]]:
        now = {
            line.place: place
            for line in self.lines
            if line.place is not None and (place := self.now(line.place)) is not None
        }
        rows: dict[str, list[MeasuredRow]] = {}
        for line in self.lines:
            place = now.get(line.place) if line.place is not None else None
            if place is not None:
                beside = frozenset(now[other] for other in line.fused_with if other in now)
                rows.setdefault(place.path, []).append(MeasuredRow(place, line, beside))
        return {path: tuple(sorted(found, key=lambda row: row.place)) for path, found in rows.items()}

    def now(self, place: Place) -> Place | None:
        """Return where a line of the report is now; None if it was deleted."""
        there = self.places.add(Span(place.path, place.line))
        return None if there.gone else replace(place, line=there.span.line)


def measured_result_of(
    key: Key, generation: int, report: Report, *, notes: tuple[str, ...] = ()
) -> MeasuredResult:
    """Make the result of a report that has just arrived, with nothing moved yet; texts of kernels are let go of."""
    report = replace(report, texts={})
    shown = shown_of(report.measured) if report.measured is not None else None
    lines = times_by_line(shown, report.roots) if shown is not None else ()
    told = frozenset(places_of(report))
    places = Places(Span(place.path, place.line) for place in told)
    depends = frozenset({key.path, *places.paths(), *report.files})
    for at in locations(report):
        places.add(span(at))
    own = tuple(
        Live(finding, places.add(finding.span), tuple(places.add(item.span) for item in finding.related))
        for finding in findings_of_measured(report)
    )
    return MeasuredResult(key, generation, report, lines, places, depends, own=own, notes=notes, told=told)
