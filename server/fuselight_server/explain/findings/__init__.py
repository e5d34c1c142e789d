"""Turns a report into findings: one finding per cause and line, folded into one per cause where they are shown.

Invariant: `findings` is a pure function of the report and of the source lines that it may read. Every break,
recompilation, frame that runs in eager mode and failure in the report has a finding; the exception of a call whose
directive does not fit is that of the directive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fuselight.shared.report import Report, Tier
from fuselight_server.base.finding import Finding
from fuselight_server.base.thresholds import Thresholds
from fuselight_server.explain.findings.breaks.breaks import break_findings
from fuselight_server.explain.findings.breaks.not_compiled import not_compiled_findings
from fuselight_server.explain.findings.breaks.unguarded_changes import unseen_findings
from fuselight_server.explain.findings.collective_values import collective_value_findings
from fuselight_server.explain.findings.common.causes import expand, fold
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.notes import note_findings
from fuselight_server.explain.findings.failures import failure_findings
from fuselight_server.explain.findings.kernels.kernels import kernel_findings
from fuselight_server.explain.findings.kernels.own_kernels import own_kernel_findings
from fuselight_server.explain.findings.kernels.repeated_compiles import repeated_compile_findings
from fuselight_server.explain.findings.kernels.tuning_changes import tuning_change_findings
from fuselight_server.explain.findings.launches import launch_findings
from fuselight_server.explain.findings.non_finite import non_finite_findings
from fuselight_server.explain.findings.ranks import of_further_ranks, rank_findings
from fuselight_server.explain.findings.recompilations.guards import guard_findings
from fuselight_server.explain.findings.recompilations.ignored_caches import ignored_cache_findings
from fuselight_server.explain.findings.recompilations.recompilations import recompilation_findings
from fuselight_server.explain.findings.recompilations.specializations import specialization_findings
from fuselight_server.explain.findings.results import result_findings
from fuselight_server.explain.findings.static import (
    after_capture,
    apply_ignores,
    nothing_ran,
    static_findings,
)

__all__ = [
    "Thresholds",
    "after_capture",
    "apply_ignores",
    "expand",
    "findings",
    "findings_of_end",
    "findings_of_kernels",
    "findings_of_measured",
    "findings_of_results",
    "fold",
    "nothing_ran",
    "static_findings",
]

_FAMILIES = (
    failure_findings,
    break_findings,
    not_compiled_findings,
    recompilation_findings,
    specialization_findings,
    unseen_findings,
    guard_findings,
    ignored_cache_findings,
    note_findings,
    kernel_findings,
    launch_findings,
    repeated_compile_findings,
    tuning_change_findings,
    own_kernel_findings,
    rank_findings,
    collective_value_findings,
    result_findings,
    non_finite_findings,
)
_OF_FURTHER_RANKS = (failure_findings, break_findings, not_compiled_findings, recompilation_findings)
_OF_PREDICTIONS = (failure_findings, break_findings, not_compiled_findings)
"""What a trace of edited functions alone says as a run does. Specializations need a trace of the target's own function.
Recompilations depend on all calls of the target: half of those predicted were wrong (docs/results/live.md)."""
_OF_PREDICTIONS_OF_TARGETS = (*_OF_PREDICTIONS, specialization_findings)
_NO_THRESHOLDS = Thresholds()


def findings(
    report: Report,
    *,
    thresholds: Thresholds = _NO_THRESHOLDS,
    read_line: Callable[[str, int], str | None] | None = None,
    includes_callers: bool = False,
) -> tuple[Finding, ...]:
    """All findings of a report, by place. `read_line(path, line)` gives a source line (1-based) or None.

    A report of tier predicted has breaks, failures and functions that are not compiled, and specializations only if
    it `includes_callers`: the target's own function was traced, too.
    """
    context = Context.of(report, thresholds, read_line)
    families: tuple[Callable[[Context], Iterator[Finding]], ...] = _FAMILIES
    if report.tier is Tier.PREDICTED:
        families = _OF_PREDICTIONS_OF_TARGETS if includes_callers else _OF_PREDICTIONS
    of_report = [finding for family in families for finding in family(context)]
    if report.world is not None:
        of_report += of_further_ranks(context, _OF_FURTHER_RANKS, of_report)
    return tuple(sorted(of_report, key=_order))


def findings_of_kernels(report: Report, *, thresholds: Thresholds = _NO_THRESHOLDS) -> tuple[Finding, ...]:
    """Of those, the ones that only tier kernels has, by place: a capture of the same target has all others."""
    return tuple(sorted(kernel_findings(Context.of(report, thresholds)), key=_order))


def findings_of_end(report: Report) -> tuple[Finding, ...]:
    """What ended a run of kernels, a benchmark, a search or a comparison of results, by place."""
    return tuple(sorted(failure_findings(Context.of(report)), key=_order))


def findings_of_measured(report: Report) -> tuple[Finding, ...]:
    """What a benchmark alone can find, by place."""
    from fuselight_server.explain.findings.kernels.measured import measured_findings  # noqa: PLC0415 - a check measures nothing

    return tuple(sorted(measured_findings(Context.of(report)), key=_order))


def findings_of_results(
    report: Report, *, read_line: Callable[[str, int], str | None] | None = None
) -> tuple[Finding, ...]:
    """What the comparison of a program's calls with eager mode has found, by place; `read_line` as in `findings`."""
    context = Context.of(report, read_line=read_line)
    return tuple(sorted((*result_findings(context), *non_finite_findings(context)), key=_order))


def _order(finding: Finding) -> tuple[str, int, int, str, str]:
    return (finding.span.path, finding.span.line, finding.span.column or 0, finding.code, finding.title)
