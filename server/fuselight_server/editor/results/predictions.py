"""What a run of the edited text would find, as far as it can be predicted: findings on lines that move with edits.

Invariant: a predicted finding is shown only while no edit has touched its line, and one that the last run has on that
line is not shown a second time. A finding of the run counts as gone only where its function was traced again past that
line, without it.
"""

from __future__ import annotations

import contextlib
import enum
import io
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from fuselight.shared.report import Report, Stack, Tier
from fuselight_server.base.files import split_text
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.base.formatting import format_count
from fuselight_server.commands.findings import without_ignored
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.changes import noun
from fuselight_server.execution.runs.keys import Key
from fuselight_server.source.code_changes import ChangedFunction, DeferredChange
from fuselight_server.source.positions import Places, TrackedFinding, TrackedSpan, tracked
from fuselight_server.source.reading import Reading
from fuselight_server.source.text_changes import Change

STARTING = "the tracer is starting"
"""Why nothing is traced yet: rules answer meanwhile."""
_PREDICTED = frozenset({"FL107", "FL401", "FL402", "FL404", "FL410"})
"""Codes that a trace of one function can have, besides those of graph breaks. Recompilations, specializations, guards
and frames that run in eager mode depend on the calls and on the callers."""
_SPECIALIZATIONS = frozenset({"FL301", "FL302"})
_OF_CALLERS = frozenset({"FL101"}) | _SPECIALIZATIONS
"""Codes that the trace of the target's own function can have, besides those."""
_ERRORS = frozenset({"FL401", "FL402", "FL404", "FL410"})
_LAYOUT = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})
_AT_RUN_TIME = frozenset({"FL401", "FL410"})
"""Codes whose absence from a trace shows nothing: the code may raise when it runs."""


def is_predicted(code: str) -> bool:
    """Whether findings of a code are predicted."""
    return code.startswith("GB") or code in _PREDICTED


class PredictedStatus(enum.Enum):
    """What a prediction says of a finding of the last run."""

    REPEATED = "repeated"
    REMOVED = "gone"


@dataclass
class _Predicted:
    finding: TrackedFinding
    place: TrackedSpan
    status: PredictedStatus


@dataclass
class Prediction:
    """What is predicted of one target from the edits of one file."""

    key: Key
    path: str
    functions: tuple[str, ...] = ()
    """Names of the functions that were traced again."""
    deferred: tuple[DeferredChange, ...] = ()
    """What the edits changed that takes a run."""
    is_current: bool = False
    """Whether the functions were traced with the text as it is now."""
    _places: Places = field(default_factory=Places)
    _traced: tuple[TrackedFinding, ...] = ()
    _new: tuple[TrackedFinding, ...] = ()
    """What the trace found and the last run has nowhere."""
    _deleted: tuple[Finding, ...] = ()
    """What the last run found on lines that are deleted."""
    _ruled: tuple[TrackedFinding, ...] = ()
    """Found by rules, where no trace has answered yet."""
    _predicted: dict[int, _Predicted] = field(default_factory=dict)
    """By the id of the finding, which is kept alive here."""

    def apply_edit(self, path: str, change: Change) -> None:
        """Move lines for one edit of a file's text."""
        self._places.apply_edit(path, change)
        self.is_current = self.is_current and path != self.path

    def findings(self) -> Iterator[Finding]:
        """Yield what is predicted, where no edit has touched its line since."""
        return _on_unedited_lines((*self._traced, *self._ruled))

    def added(self) -> Iterator[Finding]:
        """Yield of these what the last run does not have."""
        return _on_unedited_lines((*self._new, *self._ruled))

    def removed(self) -> Iterator[Finding]:
        """Yield what the last run found and the edits remove, where no later edit has touched its line."""
        predicted = (
            predicted for predicted in self._predicted.values() if predicted.status is PredictedStatus.REMOVED
        )
        yield from (predicted.finding.now() for predicted in predicted if not predicted.place.edited)
        if not self.deferred:
            yield from self._deleted

    def status(self, finding: TrackedFinding) -> PredictedStatus | None:
        """Say what is predicted of a finding of the last run; None for nothing."""
        predicted = self._predicted.get(id(finding))
        return None if predicted is None or predicted.place.edited else predicted.status

    def paths(self) -> frozenset[str]:
        """Return the files that have a line with a prediction."""
        return self._places.paths() | {self.path}

    def take_rules(self, findings: Iterable[Finding]) -> bool:
        """Show what rules found in the text as it is now; return whether anything differs."""
        before = list(self.findings())
        self._follow_from_now()
        self._ruled = tracked(findings, self._places, self.key.path)
        return before != list(self.findings())

    def _follow_from_now(self) -> None:
        """Follow lines from where they are now: a new finding may be where another one was."""
        places = Places()

        def kept(findings: tuple[TrackedFinding, ...]) -> tuple[TrackedFinding, ...]:
            kept = (
                finding.now() for finding in findings if not finding.edited and not finding.place.is_deleted
            )
            return tracked(kept, places, self.key.path)

        self._traced, self._new, self._ruled = kept(self._traced), kept(self._new), kept(self._ruled)
        self._predicted = {
            name: replace(predicted, place=places.track(predicted.place.span))
            for name, predicted in self._predicted.items()
            if not predicted.place.edited and not predicted.place.is_deleted
        }
        self._places = places

    def take_early(self, result: CaptureResult, findings: Iterable[Finding], texts: tuple[str, str]) -> bool:
        """Add the breaks that a trace has found before its end; return whether any is new.

        Nothing else is known before `take_trace`: what is shown stays, and no finding of the run is gone.
        """
        before = list(self.findings())
        self._follow_from_now()
        comparison = _FindingComparison(result, self.path, tuple(split_text(text) for text in texts))
        comparison.match([finding for finding in findings if finding.code.startswith("GB")])
        # First, as the newest of several findings on a line is the one to show.
        self._traced = (*tracked(comparison.shown, self._places, self.key.path), *self._traced)
        self._new = (*tracked(comparison.new, self._places, self.key.path), *self._new)
        for live, status in comparison.predicted:
            self._predicted[id(live)] = _Predicted(live, self._places.track(live.place.span), status)
        return before != list(self.findings())

    def take_trace(
        self,
        result: CaptureResult,
        report: Report,
        findings: Iterable[Finding],
        functions: tuple[ChangedFunction, ...],
        texts: tuple[str, str] = ("", ""),
        *,
        includes_callers: bool = False,
    ) -> None:
        """Show what tracing `functions` again found; `result` is what the last run found.

        `texts` are that of the run and that of the trace. `includes_callers`: so was the target's own function.
        """
        allowed = _OF_CALLERS if includes_callers else frozenset[str]()
        kept = [finding for finding in findings if is_predicted(finding.code) or finding.code in allowed]
        comparison = _FindingComparison(result, self.path, tuple(split_text(text) for text in texts))
        comparison.match(kept)
        comparison.match_the_rest(report, functions, _SPECIALIZATIONS if includes_callers else frozenset())
        comparison.match_same_code(functions)
        self._show(comparison)
        lines = [(function.first, function.last) for function in functions]
        self._ruled = tracked(
            (
                finding.now()
                for finding in self._ruled
                if not any(first <= finding.place.span.line <= last for first, last in lines)
            ),
            self._places,
            self.key.path,
        )
        self.functions = tuple(function.name for function in functions)

    def _show(self, comparison: _FindingComparison) -> None:
        self._places = Places()
        self._traced = tracked(comparison.shown, self._places, self.key.path)
        self._new = tracked(comparison.new, self._places, self.key.path)
        self._deleted = tuple(comparison.deleted)
        self._predicted = {
            id(live): _Predicted(live, self._places.track(live.place.span), status)
            for live, status in comparison.predicted
        }
        self.is_current = True

    def take_same_code(self, result: CaptureResult, texts: tuple[str, str]) -> None:
        """Show what the last run found on lines of which an edit changed no code, as a comment.

        `texts` are that of the run and one without any other code.
        """
        comparison = _FindingComparison(result, self.path, tuple(split_text(text) for text in texts))
        comparison.match_same_code()
        self._show(comparison)
        self._ruled, self.functions, self.deferred = (), (), ()

    def forget_trace(self) -> None:
        """Drop what a trace found: the text cannot be traced any more."""
        self._traced, self._new, self._deleted, self.functions = (), (), (), ()
        self._predicted = {}
        self.is_current = False

    def effect(self, readings: Mapping[str, Reading] = MappingProxyType({})) -> str:
        """Say what the edits would change, as `+1 break, 2 breaks gone`; empty where that is not known.

        What an ignore comment of `readings`, files by path, silences does not count.
        """
        if not self.is_current or not self.functions:
            return ""
        new = without_ignored((finding.now() for finding in self._new), readings)
        gone = without_ignored(self.removed(), readings)
        parts = [f"+{text}" for text in _counted(new)] + [f"{text} gone" for text in _counted(gone)]
        return ", ".join(parts) or "no new findings"


def gone_after_edit(finding: Finding) -> Finding:
    """Return a finding of the last run that a prediction no longer has, for its unchanged line."""
    return replace(
        finding,
        severity=min(finding.severity, Severity.INFORMATION),
        title=f"gone after your edit (predicted): {finding.title}",
        subject=finding.subject or finding.title,
        message=f"Your edit removes this finding; the next run confirms it.\n\n{finding.message}",
        fixes=(),
    )


def _on_unedited_lines(findings: Iterable[TrackedFinding]) -> Iterator[Finding]:
    seen: set[tuple[str, str, int]] = set()
    for finding in findings:
        place = (finding.finding.code, finding.place.span.path, finding.place.span.line)
        if not finding.edited and not finding.place.is_deleted and place not in seen:
            seen.add(place)
            yield finding.now()


def _counted(findings: Collection[Finding]) -> Iterator[str]:
    kinds = sorted((_kind(finding.code) for finding in findings), key=lambda kind: kind != "break")
    for kind in dict.fromkeys(kinds):
        yield format_count(kinds.count(kind), kind)


def _kind(code: str) -> str:
    return "error" if code in _ERRORS else noun(code) or "finding"


class _FindingComparison:
    """Compares predicted findings with those of the last run, each at where its line is now."""

    def __init__(self, result: CaptureResult, path: str, texts: tuple[list[str], ...]) -> None:
        self._path = path
        self._ran, self._now = texts
        self._left = list(result.findings)
        self.shown: list[Finding] = []
        """What is predicted and does not stand on an unchanged line already."""
        self.new: list[Finding] = []
        """Of these, what the last run does not have."""
        self.predicted: list[tuple[TrackedFinding, PredictedStatus]] = []
        self.deleted: list[Finding] = []
        """Findings whose lines were deleted."""

    def match(self, findings: list[Finding]) -> None:
        """Find out which findings the last run has, too: on the line, else on an equal line of an edited part."""
        unmatched = [finding for finding in findings if not self._take(finding, self._is_at)]
        for finding in unmatched:
            if not self._take(finding, self._has_its_text):
                self.shown.append(_of_prediction(finding))
                self.new.append(finding)

    def match_same_code(self, traced: tuple[ChangedFunction, ...] = ()) -> None:
        """Go on with the findings of edited lines whose code is that of the run, outside of what was traced again."""
        for live in self._left:
            then, now = live.finding.span, live.place.span
            if any(function.first <= now.line <= function.last for function in traced):
                continue
            if live.edited and not live.place.is_deleted and then.path == now.path == self._path:
                code = _code(self._ran, then)
                if code and code == _code(self._now, now):
                    self.predicted.append((live, PredictedStatus.REPEATED))
                    self.shown.append(_of_prediction(live.now()))

    def match_the_rest(
        self, report: Report, functions: tuple[ChangedFunction, ...], also: Collection[str]
    ) -> None:
        """Call those findings of the run gone whose lines were traced again without them.

        `also` are codes that this trace can have besides those of any.
        """
        limits = [(function.first, _traced_to(report, self._path, function)) for function in functions]
        for live in self._left:
            code, span = live.finding.code, live.place.span
            if span.path != self._path or code in _AT_RUN_TIME:
                continue
            can_be_removed = is_predicted(code) or code in also
            if live.place.is_deleted and (can_be_removed or code in _SPECIALIZATIONS):
                self.deleted.append(live.finding)
            elif can_be_removed and any(first <= span.line <= last for first, last in limits):
                self.predicted.append((live, PredictedStatus.REMOVED))

    def _take(self, finding: Finding, is_same: Callable[[Finding, TrackedFinding], bool]) -> bool:
        same = [live for live in self._left if live.finding.code == finding.code and is_same(finding, live)]
        if not same:
            return False
        self.predicted += ((live, PredictedStatus.REPEATED) for live in same)
        taken = {id(live) for live in same}
        self._left = [live for live in self._left if id(live) not in taken]
        if any(live.edited or live.place.is_deleted for live in same):
            self.shown.append(_of_prediction(finding))
        return True

    def _is_at(self, finding: Finding, live: TrackedFinding) -> bool:
        place = live.place.span
        return not live.place.is_deleted and (place.path, place.line) == (
            finding.span.path,
            finding.span.line,
        )

    def _has_its_text(self, finding: Finding, live: TrackedFinding) -> bool:
        """Whether an edit has left the finding's line as it was, at another place."""
        then = live.finding.span
        if not (live.edited or live.place.is_deleted) or {then.path, finding.span.path} != {self._path}:
            return False
        text = _line(self._ran, then.line)
        return bool(text) and text == _line(self._now, finding.span.line)


def _line(lines: list[str], number: int) -> str:
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _code(lines: list[str], span: Span) -> list[str]:
    """The code of a span's lines by token: without comments and spaces."""
    text = "\n".join(line.strip() for line in lines[span.line - 1 : span.end_line or span.line])
    code = []
    # Lines of a statement alone may end in an open bracket.
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in _LAYOUT and token.string:
                code.append(token.string)  # noqa: PERF401 - what came before an error counts
    return code


def _of_prediction(finding: Finding) -> Finding:
    return replace(finding, tier=Tier.PREDICTED)


def _traced_to(report: Report, path: str, function: ChangedFunction) -> int:
    """Return the last line of a function up to which it was traced: a trace may end at its first break."""
    stops = [line for failure in report.failures if (line := _line_in(failure.stack, path, function))]
    resumed = [
        frame.resumes_at
        for frame in report.frames
        if frame.location.path == path and frame.function == function.name and frame.resumes_at is not None
    ]
    for graph_break in report.breaks:
        line = _line_in(graph_break.stack, path, function)
        if line and not any(at >= line for at in resumed):
            stops.append(line)
    return min(stops, default=function.last)


def _line_in(stack: Stack, path: str, function: ChangedFunction) -> int:
    """Return the outermost line of a stack that is in a function; 0 for none."""
    return next(
        (at.line for at in stack if at.path == path and function.first <= at.line <= function.last), 0
    )
