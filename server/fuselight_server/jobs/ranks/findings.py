"""Findings of ranks: FL911 to FL916.

Invariant: only the first difference is a warning, since the others can follow from it. A finding recommends and has
tried nothing; it says so. That a rank waits is said only with a dump of torch's flight recorder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fuselight.shared.report import Location, Tier
from fuselight_server.base.finding import Finding, Related, Severity, Span
from fuselight_server.explain.findings.common.catalogue import link, severity
from fuselight_server.explain.findings.common.recompilation_hints import (
    GUARD_COLLECTIVES,
    recompilation_hints,
)
from fuselight_server.explain.findings.common.text import compose, sentence
from fuselight_server.jobs.ranks.cures import SAME_MODULE_MODE
from fuselight_server.jobs.ranks.model import CollectiveWait, DifferenceKind, RankDifference, RankTable
from fuselight_server.jobs.reports.machine_failures import machine_failure

_CODES = {
    DifferenceKind.GRAPH: "FL911",
    DifferenceKind.GRAPH_BREAK: "FL911",
    DifferenceKind.COMPILE: "FL911",
    DifferenceKind.COLLECTIVES: "FL912",
    DifferenceKind.RECOMPILATION: "FL913",
    DifferenceKind.RECOMPILE_LIMIT: "FL913",
    DifferenceKind.FAILURE: "FL914",
    DifferenceKind.UNFINISHED: "FL914",
    DifferenceKind.CONSTANT: "FL915",
    DifferenceKind.SHAPES: "FL915",
    DifferenceKind.GUARDS: "FL915",
    DifferenceKind.CACHE: "FL915",
}
_SHARED_BRANCH = (
    "Take the same branch on all ranks: decide by what all ranks share, not by the rank or its data"
)
_HINTS: dict[DifferenceKind, tuple[str, ...]] = {
    DifferenceKind.GRAPH: (
        _SHARED_BRANCH,
        f"If the modules are in other modes: {SAME_MODULE_MODE[0].lower()}{SAME_MODULE_MODE[1:]}",
        "Or nothing, if these ranks are stages of a pipeline: they compile different code on purpose",
    ),
    DifferenceKind.GRAPH_BREAK: (
        "Move what only some ranks do (printing, logging, saving) out of the compiled function",
        _SHARED_BRANCH,
    ),
    DifferenceKind.COMPILE: (
        "Compile the function on all ranks before training starts, or leave it uncompiled where only some ranks run it",
    ),
    DifferenceKind.RECOMPILE_LIMIT: (
        "Remove the cause of the recompilations: mark sizes as dynamic, or pass changing numbers as tensors",
        GUARD_COLLECTIVES,
    ),
    DifferenceKind.COLLECTIVES: (
        "Call the same collectives in the same order on all ranks of a process group",
        _SHARED_BRANCH,
    ),
    DifferenceKind.FAILURE: ("Read the traceback of the rank that failed: the others are not the cause",),
    DifferenceKind.UNFINISHED: (
        "Look at the end of this rank's output: a log ends in a compile if the process was killed, hangs or still runs",
    ),
    DifferenceKind.CONSTANT: (
        "Pass the value as a tensor, so that all ranks compile the same graph and share its cache entry",
    ),
    DifferenceKind.SHAPES: (
        "Pad to equal sizes, or mark the size as dynamic before the first call, so that all ranks compile one graph",
    ),
    DifferenceKind.GUARDS: ("Use the same modes and values on all ranks, if a later call depends on them",),
    DifferenceKind.CACHE: ("Give all ranks one warm cache: a shared `TORCHINDUCTOR_CACHE_DIR`",),
}
_COSTS: dict[DifferenceKind, str] = {
    DifferenceKind.COLLECTIVES: "collectives that do not match hang until the timeout, or mix up data",
    DifferenceKind.FAILURE: "the other ranks cannot pass the next collective without this rank",
    DifferenceKind.UNFINISHED: "the other ranks cannot pass the next collective without this rank",
}
_ANY_COST = "while a rank compiles, the others cannot pass the next collective"
_NO_WAIT_COST = frozenset({DifferenceKind.CONSTANT, DifferenceKind.SHAPES, DifferenceKind.GUARDS})


def rank_findings(
    table: RankTable,
    *,
    inputs: str,
    torch: str = "",
    locate: Callable[[Location], Location] = lambda location: location,
) -> list[Finding]:
    """The differences and the waits that have a line.

    `inputs`: name of the job, as a finding names the inputs of a run; `locate`: from the job's paths to local ones.
    """
    has_caches = any(row.cache_hits or row.cache_misses or row.cache_bypasses for row in table.rows)
    context = _JobContext(inputs, torch, locate, has_caches=has_caches)
    warned = False
    out = []
    ends = {row.rank for row in table.rows if row.unfinished}
    for difference in table.differences:
        if difference.kind is DifferenceKind.UNFINISHED and ends.issuperset(difference.groups[0].ranks):
            warned = True  # by the finding of the logs' ends
        elif difference.location is not None:
            level = Severity.INFORMATION if warned else severity(_CODES[difference.kind])
            first = table.first if warned else None
            out.append(context.difference(difference, difference.location, level, first))
            warned |= level >= Severity.WARNING
    out += [finding for wait in table.waits for finding in context.wait(wait)]
    return out


class _JobContext:
    """What all findings of a job share."""

    def __init__(
        self, inputs: str, torch: str, locate: Callable[[Location], Location], *, has_caches: bool
    ) -> None:
        self._inputs, self._torch, self._locate = inputs, torch, locate
        self._has_caches = has_caches
        """Whether the backend keeps what it compiles: the log then has lookups."""

    def difference(
        self, difference: RankDifference, location: Location, level: Severity, first: RankDifference | None
    ) -> Finding:
        code = _CODES[difference.kind]
        title = difference.message if difference.is_exact else f"near this line: {difference.message}"
        cost = list(_cost(difference, has_caches=self._has_caches))
        paragraphs = [sentence(title)]
        if not difference.is_exact:
            paragraphs.append(
                "torch names only its own source for a collective: this is the nearest line of yours."
            )
        if first is not None:
            paragraphs.append("Ranks differ earlier in this job: this can follow from the first difference.")
        paragraphs.append("Fuselight has compared logs and has not tried the advice.")
        return self._finding(
            code,
            level,
            title,
            compose(*paragraphs, cost=cost, hints=_hints(difference)),
            location,
            target=difference.function or "",
            subject=f"{difference.kind.value}:{difference.function}",
            cost=tuple(cost),
            related=tuple(self._related(difference, first)),
        )

    def _related(self, difference: RankDifference, first: RankDifference | None) -> Iterator[Related]:
        for location, text in difference.related:
            yield Related(self._span(location), text)
        if first is not None and first.location is not None:
            yield Related(self._span(first.location), f"the first difference: {first.message}")

    def wait(self, wait: CollectiveWait) -> Iterator[Finding]:
        if wait.location is None:
            return
        hints = (
            "Find out why the other ranks do not reach it: they have failed, still compile, or take another branch",
        )
        source = (
            "the Python stacks of the ranks"
            if wait.sequence is None
            else "the dump of torch's flight recorder"
        )
        message = compose(sentence(wait.message), f"From {source}.", hints=hints)
        yield self._finding(
            "FL916",
            severity("FL916"),
            wait.message,
            message,
            wait.location,
            target=wait.location.function or "",
            subject=f"{wait.group}:{wait.collective}:{wait.sequence}",
            related=tuple(Related(self._span(place), words) for place, words in wait.related),
        )

    def _finding(
        self,
        code: str,
        level: Severity,
        title: str,
        message: str,
        location: Location,
        *,
        target: str,
        subject: str,
        cost: tuple[str, ...] = (),
        related: tuple[Related, ...] = (),
    ) -> Finding:
        return Finding(
            code=code,
            severity=level,
            title=title,
            message=message,
            span=self._span(location),
            tier=Tier.CAPTURE,
            target=target,
            inputs=self._inputs,
            torch=self._torch,
            link=link(code),
            related=related,
            cost=cost,
            subject=subject,
        )

    def _span(self, location: Location) -> Span:
        place = self._locate(location)
        return Span(place.path, place.line)


def _hints(difference: RankDifference) -> tuple[str, ...]:
    if difference.kind is DifferenceKind.RECOMPILATION:
        return recompilation_hints(difference.cause)
    if difference.kind is DifferenceKind.FAILURE:
        texts = [group.behavior for group in difference.groups]
        machines = [machine_failure(text, is_of_compiler="torch._" in text) for text in texts]
        steps = dict.fromkeys(f"{item.title}: {item.next_step}" for item in machines if item is not None)
        return (*steps, *_HINTS[difference.kind])
    return (difference.cure,) if difference.cure else _HINTS[difference.kind]


def _cost(difference: RankDifference, *, has_caches: bool) -> Iterator[str]:
    if difference.kind is DifferenceKind.CACHE:
        yield f"the others cannot pass the next collective before: {difference.seconds or 0.0:.1f} s"
        return
    if difference.kind in _NO_WAIT_COST:
        yield (
            "the ranks cannot share one entry of the compile cache"
            if has_caches
            else "each compiles code of its own"
        )
        return
    yield _COSTS.get(difference.kind, _ANY_COST)
    if difference.seconds and difference.kind not in _COSTS:
        yield f"{difference.seconds:.1f} s of compile time that not all ranks spend"
