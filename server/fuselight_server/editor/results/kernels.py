"""Results of tier kernels: costs of kernels on lines that move with edits, and what differs from the run before.

Invariant: the cost of a line is computed once a report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from fuselight.shared.report import Assembled, Failure, GeneratedGraph, Kernel, Phase, Report
from fuselight_server.base.finding import SourceLine, Span
from fuselight_server.base.formatting import format_estimate, format_line_ranges
from fuselight_server.editor.results.target_result import STILL_RUNNING, LineResult, Row
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import Thresholds, findings, findings_of_kernels
from fuselight_server.explain.kernels.shares import Kept, LineCost, costs_by_line, kept_by_line, place_of
from fuselight_server.explain.kernels.summary import one_call
from fuselight_server.source.positions import Places, TrackedFinding, locations, span, tracked

CHANGES = 50
"""Lines that a list of differences has, the largest changes first."""

BACKWARD_MISSING = "partial: backward still being generated"

_NO_THRESHOLDS = Thresholds()

ASSEMBLED = 20
"""Kernels of one report that are kept compiled: each has half a dozen texts."""


KernelRow = Row[LineCost]


@dataclass
class KernelResult(LineResult[LineCost]):
    """What the newest generation of a target's kernels found."""

    MAX: ClassVar[int] = 20  # a report with the source of a thousand kernels has some megabytes

    all_lines: dict[SourceLine | None, LineCost] = field(default_factory=dict)
    """The lines of every compile; `lines` are those of one call, and what only recompiled graphs reach."""
    saved: dict[SourceLine | None, Kept] = field(default_factory=dict)
    """What autograd saves for backward, by line."""
    captured: tuple[TrackedFinding, ...] = ()
    """Findings that a capture has as well, which shows them: for comparison with the next run."""
    headline: str = ""
    """The first of `changes`, with the target as a whole."""
    assembled: dict[str, Assembled] = field(default_factory=dict)
    """Kernels that were compiled since, by the `text_key` of their source."""

    def keep_assembled(self, text_key: str, assembled_kernel: Assembled) -> None:
        """Keep what one kernel was compiled to, with SASS rather than without; the oldest of too many goes."""
        before = self.assembled.pop(text_key, None)
        keeps = before is not None and before.disassembled and not assembled_kernel.disassembled
        self.assembled[text_key] = before if before is not None and keeps else assembled_kernel
        while len(self.assembled) > ASSEMBLED:
            del self.assembled[next(iter(self.assembled))]

    def saved_on(self, row: KernelRow) -> Kept | None:
        """Return what autograd saves of a line for backward."""
        return self.saved.get(row.line.place)

    def launches_on(self, row: KernelRow) -> list[tuple[GeneratedGraph, Kernel]]:
        """Return the launches of a line in every compile."""
        return self.all_lines[row.line.place].launches

    @cached_property
    def _call(self) -> Report:
        return one_call(self.report)

    @cached_property
    def us(self) -> float:
        """The estimate of one call, microseconds."""
        return sum(kernel.estimate_us or 0.0 for graph in self._call.generated for kernel in graph.kernels)

    @cached_property
    def count(self) -> int:
        """Launches of one call."""
        return sum(len(graph.kernels) for graph in self._call.generated)

    @cached_property
    def kept_bytes(self) -> int:
        """What autograd saves for the backward of one call, without parameters and inputs, bytes."""
        return sum(kept.bytes for kept in kept_by_line(self._call).values())

    @property
    def device(self) -> str:
        """The device's short name, as `fuselight.device` takes it."""
        return self.report.target_device.key if self.report.target_device else self.report.device

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What ended the run."""
        return self.report.failures

    @property
    def has_data(self) -> bool:
        """Whether any graph came as far as code generation."""
        return bool(self.report.generated) or not self.report.failures

    def derive(
        self, thresholds: Thresholds, _read_line: Callable[[str, int], str | None] | None = None
    ) -> None:
        """Make the findings again, unless lines have moved since: the report does not know where to."""
        if not self.stale:
            self.own = tracked(
                findings_of_kernels(self.report, thresholds=thresholds), self.places, self.key.path
            )


def kernel_result_of(
    key: Key, generation: int, report: Report, thresholds: Thresholds = _NO_THRESHOLDS
) -> KernelResult:
    """Make the result of a new report, before any edit."""
    call, every = one_call(report), costs_by_line(report)
    lines = every if call is report else costs_by_line(call)
    reached = {line.place for line in lines}
    lines += tuple(line for line in every if line.place not in reached)
    saved = {**kept_by_line(report), **kept_by_line(call)}
    named = {line.place for line in lines} | saved.keys()
    places = Places(Span(place.path, place.line) for place in named if place is not None)
    depends = frozenset({key.path, *places.paths()})
    for at in locations(report):
        places.track(span(at))
    for place in kernel_lines(report):
        places.track(Span(place.path, place.line))
    own = findings_of_kernels(report, thresholds=thresholds)
    captured = [finding for finding in findings(report, thresholds=thresholds) if finding not in own]
    result = KernelResult(
        key,
        generation,
        report,
        places,
        depends=depends,
        own=tracked(own, places, key.path),
        lines=lines,
        all_lines={line.place: line for line in every},
        saved=saved,
        captured=tracked(captured, places, key.path),
    )
    result.track_ends()
    return result


def kernel_lines(report: Report) -> Iterator[SourceLine]:
    """Yield the lines that kernels compute, and those that the report's tree names besides."""
    yield from (line.place for line in costs_by_line(report) if line.place is not None)
    for graph in report.generated:
        stacks = [stack for refusal in graph.refusals for stack in (refusal.first, refusal.second)]
        stacks += [skip.stack for skip in graph.cudagraph_skips]
        stacks += [operator.stack for kernel in graph.kernels for operator in kernel.operators]
        for stack in stacks:
            place = place_of(stack, report.roots)
            if place is not None:
                yield place


def what_is_missing(report: Report) -> str:
    """Say what is missing in the report of a run that is still going on."""
    last = report.generated[-1] if report.generated else None
    return BACKWARD_MISSING if last is not None and last.phase is Phase.FORWARD else STILL_RUNNING


def differences(before: KernelResult, after: KernelResult) -> tuple[str, ...]:
    """Say what became of each line, as `line 42: 7 -> 3 kernels, ~812 us -> ~430 us`: the largest change first.

    Lines are matched where the edits since have moved them. Results for different devices are not compared.
    """
    if before.report.target_device != after.report.target_device:
        return ()
    changes: list[tuple[float, str]] = []
    for path in sorted(before.paths() | after.paths()):
        old, new = (
            {row.place.line: row for row in kernel_result.rows(path)} for kernel_result in (before, after)
        )
        for line in sorted(old.keys() | new.keys()):
            change = _change(old.get(line), new.get(line))
            if change is not None:
                name = format_line_ranges([SourceLine(path, line)], reference=SourceLine(after.key.path, 0))
                changes.append((change[0], f"{name}: {change[1]}"))
    changes.sort(key=lambda item: -item[0])
    return tuple(text for _, text in changes[:CHANGES])


def _change(old: KernelRow | None, new: KernelRow | None) -> tuple[float, str] | None:
    counts = [row.count if row else 0 for row in (old, new)]
    times = [row.us if row else 0.0 for row in (old, new)]
    words = [format_estimate(us) for us in times]
    if counts[0] == counts[1] and words[0] == words[1]:
        return None
    text = f"{counts[0]} -> {counts[1]} kernels" if counts[0] != counts[1] else f"{counts[1]} kernels"
    if words[0] != words[1]:
        text += f", {words[0]} -> {words[1]}"
    return abs(times[1] - times[0]), text
