"""Findings of caches: FL921 for a miss whose cause is known, FL922 for a compile that torch cannot cache.

Invariant: a miss without a known cause is no finding, and neither is a cache that the user switched off: both are in
the summary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fuselight.shared.report import Location, Tier
from fuselight_server.base.finding import Finding, Related, Span
from fuselight_server.base.formatting import format_count, format_estimate
from fuselight_server.explain.findings.common.catalogue import link, severity
from fuselight_server.jobs.caches.model import CacheCause, CacheResult, CacheSummary, CauseKind
from fuselight_server.jobs.caches.words import CACHE_NAMES, sentence
from fuselight_server.jobs.trace_log.model import CacheState

_CODES = {
    CauseKind.KEY_CHANGED: "FL921",
    CauseKind.SAME_KEY: "FL921",
    CauseKind.NO_BACKWARD: "FL921",
    CauseKind.GUARDS: "FL921",
    CauseKind.BYPASS: "FL922",
}
_MISSES = {
    CauseKind.KEY_CHANGED: "its cache key changed",
    CauseKind.SAME_KEY: "the cache has no entry for it",
    CauseKind.NO_BACKWARD: "its cache entry waits for a backward",
    CauseKind.GUARDS: "the cache has no entry for these sizes",
}
_MAX_RELATED = 5


@dataclass(frozen=True, slots=True)
class _CauseOnLine:
    """Results of one cause on one line."""

    cause: CacheCause
    location: Location
    results: tuple[CacheResult, ...]


def cache_findings(
    summary: CacheSummary,
    *,
    inputs: str,
    torch: str = "",
    locate: Callable[[Location], Location] = lambda location: location,
) -> list[Finding]:
    """One finding for each cause on a line, of all ranks and caches together.

    `inputs`: name of the job, as a finding names the inputs of a run; `locate`: from the job's paths to local ones.
    """
    return [_finding(group, summary, inputs, torch, locate) for group in _groups(summary.results)]


def _groups(results: Iterable[CacheResult]) -> list[_CauseOnLine]:
    groups: dict[tuple[object, ...], _CauseOnLine] = {}
    for result in results:
        for cause in result.causes:
            where = cause.location or result.location
            if cause.kind not in _CODES or where is None:
                continue
            key = (cause.kind, cause.text, where.path, where.line, result.location)
            known = groups.get(key)
            rows = (*known.results, result) if known else (result,)
            groups[key] = _CauseOnLine(cause, where, rows)
    return list(groups.values())


def _finding(
    group: _CauseOnLine,
    summary: CacheSummary,
    inputs: str,
    torch: str,
    locate: Callable[[Location], Location],
) -> Finding:
    cause, results = group.cause, group.results
    code = _CODES[cause.kind]
    where, first = locate(group.location), results[0]
    caches = [CACHE_NAMES[cache] for cache in dict.fromkeys(row.cache for row in results)]
    compared = summary.compared_with if cause.kind is CauseKind.KEY_CHANGED else None
    cost = _cost(results, caches)
    paragraphs = [
        sentence(cause.text),
        f"Cost: {'; '.join(cost)}.",
        f"Compared with {compared}." if compared else "",
        cure_text(cause),
    ]
    return Finding(
        code=code,
        severity=severity(code),
        title=_title(cause.kind, first),
        message="\n\n".join(part for part in paragraphs if part),
        span=Span(where.path, where.line),
        tier=Tier.CAPTURE,
        target=first.function or "",
        inputs=inputs,
        torch=torch,
        link=link(code),
        related=tuple(_related(group, locate)),
        count=len({(row.file, row.compile_id) for row in results}),
        cost=tuple(cost),
        subject=f"{cause.kind.value}:{cause.text}",
    )


def cure_text(cause: CacheCause) -> str:
    """What to do, and how to try it; empty if nothing is known."""
    cure = cause.cure
    if cure is None:
        return ""
    is_tried = cure.has_fix and cause.kind in {CauseKind.BYPASS, CauseKind.DISABLED}
    return (
        f"{cure.text} `fuselight fix` with a warm start tries it where the file allows."
        if is_tried
        else cure.text
    )


def _title(kind: CauseKind, result: CacheResult) -> str:
    function = f"`{result.function}`" if result.function else "a function"
    if _CODES[kind] == "FL922":
        return f"{function} cannot be read from a compile cache"
    return f"{function} was compiled again: {_MISSES[kind]}"


def _cost(results: Sequence[CacheResult], caches: Sequence[str]) -> list[str]:
    """The seconds of the slowest process, and which caches and ranks are concerned."""
    seconds: dict[str, float] = {}
    for row in results:
        seconds[row.file] = seconds.get(row.file, 0.0) + (row.lost_seconds or 0.0)
    slowest = max(seconds.values(), default=0.0)
    ranks = sorted({row.rank for row in results if row.rank is not None})
    state = "bypassed" if all(row.state is CacheState.BYPASS for row in results) else "missed"
    costs = [f"{' and '.join(caches)} {state}"]
    if slowest > 0.0:
        costs.append(f"{format_estimate(slowest * 1e6)} of {'each' if state == 'bypassed' else 'this'} start")
    if len(ranks) > 1:
        costs.append(f"on {format_count(len(ranks), 'rank')}")
    return costs


def _related(group: _CauseOnLine, locate: Callable[[Location], Location]) -> Iterable[Related]:
    """The compiled function, where the finding is on another line, and other lines of the graph that changed."""
    compiled = group.results[0].location
    places = {(group.location.path, group.location.line)}
    if compiled is not None and (compiled.path, compiled.line) not in places:
        place = locate(compiled)
        places.add((compiled.path, compiled.line))
        yield Related(Span(place.path, place.line), "the compiled function")
    lines = [line for change in group.cause.changes for line in change.lines]
    for line in lines[: _MAX_RELATED + 1]:
        if line.location is None or (line.location.path, line.location.line) in places:
            continue
        places.add((line.location.path, line.location.line))
        place = locate(line.location)
        yield Related(
            Span(place.path, place.line), f"`{line.before or 'absent'}` -> `{line.after or 'absent'}`"
        )
