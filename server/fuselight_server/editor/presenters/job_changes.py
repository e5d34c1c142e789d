"""A job against an earlier one, as rows of its page: regressions first, then improvements, then other changes.

Invariant: compile times are of one run each, so a difference within the noise is no row.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuselight_server.base.formatting import format_count, format_time
from fuselight_server.editor.presenters.job_page_types import JobChange, JobChanges
from fuselight_server.editor.presenters.job_sections import JobView
from fuselight_server.jobs.comparison.model import (
    CacheChange,
    ChangeVerdict,
    FindingChange,
    FindingState,
    FunctionChange,
    FunctionFacts,
    JobComparison,
)

MAX_CHANGES = 200
_ORDER = (ChangeVerdict.REGRESSION, ChangeVerdict.IMPROVEMENT, ChangeVerdict.CHANGE)


def changes_section(comparison: JobComparison, view: JobView) -> JobChanges:
    """The differences from an earlier job."""
    rows = [row for row in _rows(comparison, view) if row[0] in _ORDER]
    rows.sort(key=lambda row: _ORDER.index(row[0]))
    return JobChanges(
        name=comparison.base,
        statements=tuple(_statements(comparison, [verdict for verdict, _ in rows])),
        changes=tuple(row for _, row in rows[:MAX_CHANGES]),
        more=max(len(rows) - MAX_CHANGES, 0),
        notes=comparison.notes,
    )


def _statements(comparison: JobComparison, verdicts: list[ChangeVerdict]) -> Iterator[str]:
    regressions = format_count(verdicts.count(ChangeVerdict.REGRESSION), "regression")
    improvements = format_count(verdicts.count(ChangeVerdict.IMPROVEMENT), "improvement")
    yield f"{regressions}, {improvements}"
    before, after = comparison.time.before, comparison.time.after
    if before is not None and after is not None:
        noise = ", within the noise of two single runs" if comparison.time.is_noise else ""
        yield f"compile time: {_seconds(before)} before, {_seconds(after)} now{noise}"


def _rows(comparison: JobComparison, view: JobView) -> Iterator[tuple[ChangeVerdict, JobChange]]:
    for finding in comparison.findings:
        yield finding.verdict, _finding_row(finding, view)
    for function in comparison.functions:
        yield from _function_rows(function, view)
    for cache in comparison.caches:
        yield cache.verdict, _cache_row(cache, view)
    for condition in comparison.conditions:
        yield (
            ChangeVerdict.CHANGE,
            JobChange(
                kind=condition.kind.value.replace("_", " "),
                is_regression=False,
                text=condition.name,
                at=None,
                before=condition.before or "not recorded",
                after=condition.after or "not recorded",
            ),
        )


_FINDINGS = {
    FindingState.NEW: "new finding",
    FindingState.FIXED: "fixed finding",
    FindingState.MOVED: "moved finding",
    FindingState.SAME: "same finding",
}


def _finding_row(change: FindingChange, view: JobView) -> JobChange:
    span = change.finding.span
    before = change.before.span.line if change.state is FindingState.MOVED and change.before else None
    return JobChange(
        kind=_FINDINGS[change.state],
        is_regression=change.verdict is ChangeVerdict.REGRESSION,
        text=f"{change.finding.code}: {change.finding.title}",
        at=view.line(span.path, span.line),
        before=f"line {before}" if before is not None else "",
        after=f"line {span.line}" if before is not None else "",
    )


def _function_rows(change: FunctionChange, view: JobView) -> Iterator[tuple[ChangeVerdict, JobChange]]:
    """Yield what differs of a function: recompilations, graphs, kernels, compile time."""

    def row(verdict: ChangeVerdict, kind: str, text: str, before: str, after: str) -> JobChange:
        at = view.line(change.location.path, change.location.line)
        is_regression = verdict is ChangeVerdict.REGRESSION
        words = f"{change.name}: {text}" if text else change.name
        return JobChange(
            kind=kind, is_regression=is_regression, text=words, at=at, before=before, after=after
        )

    before, after = change.before, change.after
    if change.recompilations is not ChangeVerdict.SAME:
        reasons = change.new_reasons or change.fixed_reasons
        counts = [str(facts.recompilations if facts else 0) for facts in (before, after)]
        yield (
            change.recompilations,
            row(change.recompilations, "recompilations", reasons[0] if reasons else "", counts[0], counts[1]),
        )
    if change.graphs is not ChangeVerdict.SAME:
        yield change.graphs, row(change.graphs, "graphs", "", _graphs(before), _graphs(after))
    if change.kernels is not ChangeVerdict.SAME:
        yield change.kernels, row(change.kernels, "kernels", "", _kernels(before), _kernels(after))
    time = change.time
    if change.is_in_both and time.before is not None and time.after is not None:
        yield time.verdict, row(time.verdict, "compile time", "", _seconds(time.before), _seconds(time.after))


def _graphs(facts: FunctionFacts | None) -> str:
    if facts is None:
        return "not compiled"
    return f"{format_count(facts.graphs, 'graph')}, {format_count(sum(facts.operators), 'operator')}"


def _kernels(facts: FunctionFacts | None) -> str:
    return str(len(facts.kernels)) if facts is not None and facts.kernels is not None else ""


def _cache_row(change: CacheChange, view: JobView) -> JobChange:
    remote = " (remote)" if change.is_remote else ""
    causes = "; ".join(dict.fromkeys(cause.text for cause in change.causes))
    where = change.location
    return JobChange(
        kind=f"{change.cache.value.replace('_', ' ')}{remote} cache",
        is_regression=change.verdict is ChangeVerdict.REGRESSION,
        text=": ".join(part for part in (change.function, causes) if part),
        at=view.line(where.path, where.line) if where is not None else None,
        before=change.before.value,
        after=change.after.value,
    )


def _seconds(value: float) -> str:
    return format_time(value * 1e6)
