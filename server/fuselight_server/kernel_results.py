"""What runs of tier kernels found, on lines that move with edits, and what differs from the run before.

Invariant: what a line costs is worked out once a report; an edit moves the lines and works nothing out again. A run
that generated nothing leaves the one before it standing, marked as stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from fuselight.report import Phase
from fuselight_server.finding import Span
from fuselight_server.findings import Thresholds, findings, findings_of_kernels
from fuselight_server.kernels import Kept, LineCost, Place, costs_by_line, kept_by_line, place_of
from fuselight_server.kernels.words import line_ranges, microseconds
from fuselight_server.places import Live, Moving, Places, locations, span

if TYPE_CHECKING:
    from fuselight.report import Assembled, Report
    from fuselight_server.runs import Key

CHANGES = 50
"""Lines of which it is told that they changed, the largest changes first."""


BACKWARD_TO_COME = "so far: backward still being generated"
MORE_TO_COME = "so far: the run still goes on"
CANCELLED = "cancelled: not all was generated"

_NO_THRESHOLDS = Thresholds()

ASSEMBLED = 20
"""Kernels of one report that are kept compiled: each has half a dozen texts."""


@dataclass(frozen=True)
class Row:
    """One line with a part in kernels, where it is now."""

    place: Place
    cost: LineCost
    kept: Kept | None
    """What autograd keeps of it for backward."""
    fused_with: frozenset[Place]
    """Where the lines are now that it shares kernels with."""

    @property
    def count(self) -> int:
        """Launches that it has a part in."""
        return len(self.cost.launches)

    @property
    def us(self) -> float:
        """Its part of the estimates, microseconds."""
        return float(self.cost.us)


@dataclass
class KernelResult(Moving):
    """What the newest finished run of tier kernels of a target found."""

    key: Key
    generation: int
    report: Report
    costs: tuple[LineCost, ...]
    kept: dict[Place | None, Kept]
    places: Places
    depends: frozenset[str] = field(default_factory=frozenset)
    """Files whose lines it speaks of."""
    stale: bool = False
    """Whether one of these was edited after the run began."""
    changes: tuple[str, ...] = ()
    """In words, what became of findings and lines since the run before this one."""
    headline: str = ""
    """The same in one line, with the target as a whole."""
    own: tuple[Live, ...] = ()
    """Findings that only tier kernels has."""
    captured: tuple[Live, ...] = ()
    """Findings that a capture has as well, which is shown instead: to be compared with those of the next run."""
    earlier: KernelResult | None = None
    """The last result with kernels, where this run failed before it had any or is not at its end."""
    unfinished: str = ""
    """In words, why this is not all that there is: the run goes on, or was cancelled. Empty for all of it."""
    assembled: dict[str, Assembled] = field(default_factory=dict)
    """Kernels that were compiled since, by the `text_key` of their source."""
    differs: set[str] = field(default_factory=set)
    """Files whose text was changed since the run saw it."""
    _rows: dict[str, tuple[Row, ...]] | None = None

    def keep_assembled(self, text_key: str, made: Assembled) -> None:
        """Keep what one kernel was compiled to, with SASS rather than without; the oldest of too many goes."""
        before = self.assembled.pop(text_key, None)
        keeps = before is not None and before.disassembled and not made.disassembled
        self.assembled[text_key] = before if before is not None and keeps else made
        while len(self.assembled) > ASSEMBLED:
            del self.assembled[next(iter(self.assembled))]

    @cached_property
    def us(self) -> float:
        """Estimate of all kernels together, microseconds."""
        return float(sum(cost.us for cost in self.costs))

    @cached_property
    def count(self) -> int:
        """Launches of all graphs."""
        return sum(len(graph.kernels) for graph in self.report.generated)

    @cached_property
    def kept_bytes(self) -> int:
        """What autograd keeps for backward, parameters and inputs apart, bytes."""
        return sum(kept.bytes for kept in self.kept.values())

    @property
    def device(self) -> str:
        """The device's short name, as `fuselight.device` takes it."""
        return self.report.target_device.key if self.report.target_device else self.report.device

    @property
    def learnt(self) -> bool:
        """Whether any graph came as far as code generation."""
        return bool(self.report.generated) or not self.report.failures

    @property
    def shown(self) -> KernelResult:
        """The result whose kernels stand."""
        return self if self.learnt or self.earlier is None else self.earlier

    @property
    def whole(self) -> KernelResult | None:
        """The last result that is all of what a run found and has kernels, this one or an earlier."""
        return self if self.learnt and not self.unfinished else self.earlier

    def follow(self, older: KernelResult) -> None:
        """Come after the result of the run before; the last whole one stays where this is none, or learnt nothing."""
        if self.unfinished or not self.learnt:
            self.earlier = older.whole
            if self.earlier is not None and not self.unfinished:
                self.earlier.stale = True

    @property
    def findings(self) -> tuple[Live, ...]:
        """Findings that stand: those of an unfinished run are told when it is at its end."""
        shown = self.shown
        if not shown.unfinished:
            return shown.own
        return shown.earlier.own if shown.earlier is not None else ()

    def derive(self, thresholds: Thresholds) -> None:
        """Make its findings again; not where lines have moved since, as the report does not know it."""
        if not self.stale:
            self.own = _placed(self.report, self.places, thresholds)

    def rows(self, path: str) -> tuple[Row, ...]:
        """Return the lines of a file that have a part in kernels, from the top."""
        if self._rows is None:
            self._rows = self._place_rows()
        return self._rows.get(path, ())

    def _place_rows(self) -> dict[str, tuple[Row, ...]]:
        now = {
            cost.place: place
            for cost in self.costs
            if cost.place is not None and (place := self.now(cost.place)) is not None
        }
        rows: dict[str, list[Row]] = {}
        for cost in self.costs:
            place = now.get(cost.place) if cost.place is not None else None
            if place is not None:
                beside = frozenset(now[other] for other in cost.fused_with if other in now)
                rows.setdefault(place.path, []).append(Row(place, cost, self.kept.get(cost.place), beside))
        return {path: tuple(sorted(found, key=lambda row: row.place)) for path, found in rows.items()}

    def now(self, place: Place) -> Place | None:
        """Return where a line of the report is now; None if it was deleted."""
        there = self.places.add(Span(place.path, place.line))
        return None if there.gone else replace(place, line=there.span.line)


def kernel_result_of(
    key: Key, generation: int, report: Report, thresholds: Thresholds = _NO_THRESHOLDS
) -> KernelResult:
    """Make the result of a report that has just arrived, with nothing moved yet."""
    costs, kept = costs_by_line(report), kept_by_line(report)
    lines = {cost.place for cost in costs} | kept.keys()
    places = Places(Span(place.path, place.line) for place in lines if place is not None)
    depends = frozenset({key.path, *places.paths()})
    for at in locations(report):
        places.add(span(at))
    for place in _told_of(report):
        places.add(Span(place.path, place.line))
    own = _placed(report, places, thresholds)
    told = {live.finding for live in own}
    captured = tuple(
        Live(finding, places.add(finding.span), ())
        for finding in findings(report, thresholds=thresholds)
        if finding not in told
    )
    return KernelResult(
        key=key,
        generation=generation,
        report=report,
        costs=costs,
        kept=kept,
        places=places,
        depends=depends,
        own=own,
        captured=captured,
    )


def _told_of(report: Report) -> Iterator[Place]:
    """Yield the lines that the report's tree names beside those of kernels: they move from the start on as well."""
    for graph in report.generated:
        stacks = [stack for refusal in graph.refusals for stack in (refusal.first, refusal.second)]
        stacks += [skip.stack for skip in graph.cudagraph_skips]
        stacks += [operator.stack for kernel in graph.kernels for operator in kernel.operators]
        for stack in stacks:
            place = place_of(stack, report.roots)
            if place is not None:
                yield place


def _placed(report: Report, places: Places, thresholds: Thresholds) -> tuple[Live, ...]:
    return tuple(
        Live(finding, places.add(finding.span), tuple(places.add(item.span) for item in finding.related))
        for finding in findings_of_kernels(report, thresholds=thresholds)
    )


def still_to_come(report: Report) -> str:
    """Say what is missing of the report of a run that goes on."""
    last = report.generated[-1] if report.generated else None
    return BACKWARD_TO_COME if last is not None and last.phase is Phase.FORWARD else MORE_TO_COME


def differences(before: KernelResult, after: KernelResult) -> tuple[str, ...]:
    """Say what became of each line, as `line 42: 7 -> 3 kernels, ~812 us -> ~430 us`: the largest change first.

    Lines are matched where the edits since have moved them. Results for different devices are not compared.
    """
    if before.report.target_device != after.report.target_device:
        return ()
    found: list[tuple[float, str]] = []
    for path in sorted(before.paths() | after.paths()):
        old, new = _by_line(before.rows(path)), _by_line(after.rows(path))
        for line in sorted(old.keys() | new.keys()):
            told = _change(old.get(line), new.get(line))
            if told is not None:
                name = line_ranges([Place(path, line)], beside=Place(after.key.path, 0))
                found.append((told[0], f"{name}: {told[1]}"))
    found.sort(key=lambda item: -item[0])
    return tuple(text for _, text in found[:CHANGES])


def _by_line(rows: Iterable[Row]) -> dict[int, Row]:
    return {row.place.line: row for row in rows}


def _change(old: Row | None, new: Row | None) -> tuple[float, str] | None:
    counts = [row.count if row else 0 for row in (old, new)]
    times = [row.us if row else 0.0 for row in (old, new)]
    words = [microseconds(us) for us in times]
    if counts[0] == counts[1] and words[0] == words[1]:
        return None
    text = f"{counts[0]} -> {counts[1]} kernels" if counts[0] != counts[1] else f"{counts[1]} kernels"
    if words[0] != words[1]:
        text += f", {words[0]} -> {words[1]}"
    return abs(times[1] - times[0]), text
