"""Whether a changed text compiles more than the text before it: progress is not a regression.

Invariant: operators are compared on lines that the change leaves alone, each with the user's lines that lead to it. A
text compiles more only if no operator that was compiled before is lost, and no function newly runs in eager mode.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from fuselight.shared.report import NotCompiled, NotCompiledKind, Outcome, Report, Stack, is_user_file
from fuselight_server.base.finding import Finding
from fuselight_server.source.line_map import LineMap

_LIMITS = frozenset({NotCompiledKind.RECOMPILE_LIMIT, NotCompiledKind.ACCUMULATED_LIMIT})
_ON_PURPOSE = frozenset({NotCompiledKind.DISABLED, NotCompiledKind.NO_TENSORS})
_FULLGRAPH = "fullgraph"
"""Kind of the failure of a graph break under `fullgraph=True`."""
_RECOMPILED = ("FL2", "FL102")
_Function = tuple[str, str]
"""Path and name."""
_Place = tuple[str, int]
"""Path and line of the old text."""
_OldLine = Callable[[str, int], int]
_Way = tuple[_Place, ...]
"""The user's lines that lead to an operator, outermost first, as lines of the old text."""


@dataclass(frozen=True)
class CompileProgress:
    """What the new text compiles, against the old one."""

    old: Report
    new: Report
    lines: Mapping[str, LineMap]
    """By path, for the files that differ."""
    as_read: Callable[[Finding], Finding] = lambda finding: finding
    """Gives a finding of the new text its place in the file as it was read, before any fix."""

    @cached_property
    def lost(self) -> int:
        """How many operators were in a graph before, and are in none now."""
        return (self._compiled_before - self._compiled_now).total()

    @cached_property
    def gained(self) -> int:
        """How many operators are in a graph now, and were in none before."""
        return (self._compiled_now - self._compiled_before).total()

    @property
    def is_more_compiled(self) -> bool:
        """Whether operators are gained, and nothing is lost."""
        return self.gained > 0 and not self._is_less_compiled

    @cached_property
    def traced(self) -> tuple[int, int] | None:
        """How many lines torch traced before and now, if it only gets further, up to the next break; else None.

        Nothing may be lost, and the break on which it stops has to be on a line that it did not reach before.
        """
        before, now = self._traced(self.old, self._line_kept), self._traced(self.new, self._line_before)
        if self.gained or self._is_less_compiled or not before <= now:
            return None
        known = before | _stops(self.old, self._line_kept)
        reached = _stops(self.new, self._line_before)
        return (len(before), len(now)) if before < now or not reached <= known else None

    @property
    def fails_later(self) -> bool:
        """Whether `fullgraph=True` refuses the code as before, and at a break that torch did not reach before."""
        return _is_refused(self.old) and _is_refused(self.new) and self.traced is not None

    @cached_property
    def compared(self) -> Report:
        """The new report with the calls that count: if compiled ones are refused as before, those in eager mode."""
        verification = self.new.verification
        if not self.fails_later or verification is None:
            return self.new
        calls = (
            replace(comparison, differences=()) if comparison.compiled else comparison
            for comparison in verification.comparisons
        )
        return replace(self.new, failures=(), verification=replace(verification, comparisons=tuple(calls)))

    def uncovers(self, finding: Finding) -> bool:
        """Whether a finding of the new text is in code that the old text left in eager mode."""
        if finding.code.startswith(_RECOMPILED):
            before = {(again.location.path, _last(again.function)) for again in self.old.recompiles}
            again = {(again.location.path, _last(again.function)) for again in self.new.recompiles} - before
            return bool(again) and again <= self._eager_before
        stacks = self._stacks_to((finding.span.path, finding.span.line))
        return any(
            (frame.path, _last(frame.function or "")) in self._eager_before
            for stack in stacks
            for frame in stack
        )

    @cached_property
    def recompiles_less(self) -> bool:
        """Whether no function is compiled again more often than before, and one less often.

        A recompilation that is left may then have another cause first: several guards failed in it before.
        """
        before, now = _recompilations(self.old), _recompilations(self.new)
        return now <= before and now != before

    @property
    def recompiles_more(self) -> bool:
        """Whether a function is compiled again more often than before."""
        return not _recompilations(self.new) <= _recompilations(self.old)

    def keeps_static(self, source: str) -> bool:
        """Whether a size or a number that the new text fixes was a constant of the old text's code, too."""
        return not any(
            symbol.source == source and symbol.specialized_to is None
            for record in self.old.compiles
            for symbol in record.symbols
        )

    @property
    def _is_less_compiled(self) -> bool:
        return self.lost > 0 or not _eager(self.new) <= self._eager_before

    @cached_property
    def _eager_before(self) -> frozenset[_Function]:
        return _eager(self.old)

    def _stacks_to(self, place: tuple[str, int]) -> Iterator[Stack]:
        for graph_break in self.new.breaks:
            stack = (*graph_break.above, *graph_break.stack)
            if any((frame.path, frame.line) == place for frame in stack):
                yield stack
        for failure in self.new.failures:
            if any((frame.path, frame.line) == place for frame in failure.stack):
                yield failure.stack
        for code in self.new.not_compiled:
            if any((frame.path, frame.line) == place for frame in (code.location, *code.stack)):
                yield (*code.caller, *code.stack, *_as_frame(code))

    @cached_property
    def _compiled_before(self) -> collections.Counter[_Way]:
        return _compiled(self.old, self._line_kept)

    @cached_property
    def _compiled_now(self) -> collections.Counter[_Way]:
        return _compiled(self.new, self._line_before)

    def _line_kept(self, path: str, line: int) -> int:
        """A line of the old text; 0 if the new one does not have it."""
        known = self.lines.get(path)
        places = known.places(line) if known is not None else ()
        return line if known is None or any(known.then(place) == line for place in places) else 0

    def _line_before(self, path: str, line: int) -> int:
        """The line of the old text that a line of the new one is; 0 if there is none."""
        known = self.lines.get(path)
        return line if known is None else known.then(line)

    @staticmethod
    def _traced(report: Report, old_line: _OldLine) -> set[_Place]:
        """The lines that torch traced, of those that both texts have."""
        return {
            (path, old_line(path, fact.line))
            for path, of_file in report.facts.files.items()
            for fact in of_file.facts
            if old_line(path, fact.line)
        }


def _compiled(report: Report, old_line: _OldLine) -> collections.Counter[_Way]:
    """The operators of all graphs on lines that both texts have, by the way to each; recompilations add none.

    `old_line`: the line of the old text, 0 for one that only one text has.
    """
    limited = {
        (code.location.path, code.location.line) for code in report.not_compiled if code.kind in _LIMITS
    }
    by_frame: dict[int, collections.Counter[_Way]] = collections.defaultdict(collections.Counter)
    for record in report.compiles:
        if (
            record.graph is None
            or record.outcome is not Outcome.COMPILED
            or record.frame >= len(report.frames)
        ):
            continue
        at = report.frames[record.frame].location
        if (at.path, at.line) in limited:  # later calls run in eager mode
            continue
        ways: collections.Counter[_Way] = collections.Counter()
        for stack in record.graph.lines:
            user = [frame for frame in (*record.caller, *stack) if is_user_file(frame.path, report.roots)]
            if user and old_line(user[-1].path, user[-1].line):
                places = ((frame.path, old_line(frame.path, frame.line)) for frame in user)
                ways[tuple(place for place in places if place[1])] += 1
        by_frame[record.frame] |= ways
    total: collections.Counter[_Way] = collections.Counter()
    for ways in by_frame.values():
        total += ways
    return total


def _recompilations(report: Report) -> collections.Counter[_Function]:
    return collections.Counter((again.location.path, _last(again.function)) for again in report.recompiles)


def _eager(report: Report) -> frozenset[_Function]:
    """The functions that run in eager mode, as a whole or from some line on, or that `fullgraph=True` refuses."""
    skipped = [
        (code.location.path, _last(code.function))
        for code in report.not_compiled
        if code.kind not in _ON_PURPOSE
    ]
    refused = [
        (frame.path, _last(frame.function or ""))
        for failure in report.failures
        if failure.kind == _FULLGRAPH
        for frame in failure.stack
    ]
    return frozenset(place for place in (*skipped, *refused) if is_user_file(place[0], report.roots))


def _is_refused(report: Report) -> bool:
    return bool(report.failures) and all(failure.kind == _FULLGRAPH for failure in report.failures)


def _as_frame(code: NotCompiled) -> Stack:
    return (type(code.location)(code.location.path, code.location.line, function=_last(code.function)),)


def _stops(report: Report, old_line: _OldLine) -> set[_Place]:
    """The lines on which torch gives up a function, of those that both texts have."""
    skipped = (graph_break.stack for graph_break in report.breaks if graph_break.frame_skipped)
    refused = (failure.stack for failure in report.failures if failure.kind == _FULLGRAPH)
    ends = [stack[-1] for stack in (*skipped, *refused) if stack]
    return {(end.path, line) for end in ends if (line := old_line(end.path, end.line))}


def _last(function: str) -> str:
    return function.rpartition(".")[2]
