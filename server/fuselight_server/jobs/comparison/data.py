"""A comparison of two jobs as plain data, for JSON and for a page.

Invariant: null is what the logs do not have.
"""

from __future__ import annotations

from typing import Any

from fuselight_server.jobs.comparison.model import (
    CacheChange,
    FindingChange,
    FunctionChange,
    FunctionFacts,
    JobComparison,
    TimeChange,
)


def comparison_as_data(comparison: JobComparison) -> dict[str, Any]:
    """All parts of a comparison."""
    return {
        "job": comparison.name,
        "against": comparison.base,
        "rank": comparison.rank,
        "against_rank": comparison.base_rank,
        "regressions": comparison.regressions,
        "conditions": [
            {"kind": item.kind.value, "name": item.name, "before": item.before, "after": item.after}
            for item in comparison.conditions
        ],
        "findings": [_finding_data(item) for item in comparison.findings],
        "functions": [_function_data(item) for item in comparison.functions],
        "compile_time": _time_data(comparison.time),
        "caches": [_cache_data(item) for item in comparison.caches],
        "notes": list(comparison.notes),
    }


def _finding_data(change: FindingChange) -> dict[str, Any]:
    finding = change.finding
    return {
        "state": change.state.value,
        "verdict": change.verdict.value,
        "code": finding.code,
        "severity": finding.severity.name.lower(),
        "title": finding.title,
        "path": finding.span.path,
        "line": finding.span.line,
        "line_before": None if change.before is None else change.before.span.line,
        "function": change.function,
        "text": change.text,
    }


def _function_data(change: FunctionChange) -> dict[str, Any]:
    return {
        "function": change.name,
        "is_resumed": change.is_resumed,
        "path": change.location.path,
        "line": change.location.line,
        "before": _facts_data(change.before),
        "after": _facts_data(change.after),
        "time": change.time.verdict.value,
        "recompilations": change.recompilations.value,
        "new_reasons": list(change.new_reasons),
        "fixed_reasons": list(change.fixed_reasons),
        "graphs": change.graphs.value,
        "kernels": change.kernels.value,
        "is_code_same": change.is_code_same,
    }


def _facts_data(facts: FunctionFacts | None) -> dict[str, Any] | None:
    if facts is None:
        return None
    return {
        "line": facts.location.line,
        "compiles": facts.compiles,
        "operators": list(facts.operators),
        "recompilations": facts.recompilations,
        "reasons": list(facts.reasons),
        "seconds": facts.seconds,
        "kernels": None if facts.kernels is None else list(facts.kernels),
    }


def _time_data(change: TimeChange) -> dict[str, Any]:
    return {
        "before": change.before,
        "after": change.after,
        "verdict": change.verdict.value,
        "is_noise": change.is_noise,
    }


def _cache_data(change: CacheChange) -> dict[str, Any]:
    return {
        "cache": change.cache.value,
        "is_remote": change.is_remote,
        "before": change.before.value,
        "after": change.after.value,
        "verdict": change.verdict.value,
        "function": change.function,
        "path": None if change.location is None else change.location.path,
        "line": None if change.location is None else change.location.line,
        "count": change.count,
        "lost_seconds": change.lost_seconds,
        "causes": [cause.text for cause in change.causes],
    }
