"""FL911 to FL915, FL918: where ranks compile other code, or would wait for each other, before the job is started.

Invariant: only a report of a world of ranks has such findings, and what the first rank does not have is said to be of
the ranks that have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from fuselight.shared.report import EqualRanks, Report
from fuselight_server.base.finding import Finding, Related
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.explain.findings.common.context import Context, span_of
from fuselight_server.explain.findings.common.recompilation_hints import recompilation_hints
from fuselight_server.explain.ranks.rank_differences import WorldDifference, world_differences

_SAME_CODE = "Take the branch outside of the compiled function, or give all ranks the same shapes"
_HINTS = {
    "FL911": (_SAME_CODE,),
    "FL912": ("Move the collective out of the branch, or take the branch on a value that all ranks share",),
    "FL918": ("Set the mode on all ranks, or undo it before ranks call the same function",),
}
_STAGES = "Or nothing, if these ranks are stages of a pipeline: they compile different code on purpose"
_POINT_TO_POINT = frozenset({"send", "recv"})


def rank_findings(context: Context) -> Iterator[Finding]:
    """The differences between the ranks."""
    world = context.report.world
    if world is None:
        return
    kinds = {collective.kind for group in world.groups for collective in group.collectives}
    has_stages = bool(kinds & _POINT_TO_POINT)
    for difference in world_differences(world, context.roots):
        yield context.finding(
            difference.code,
            difference.title,
            difference.text,
            at=difference.location
            if difference.location is not None and context.is_user_file(difference.location.path)
            else None,
            hints=_hints(difference, has_stages=has_stages),
            related=tuple(Related(span_of(place), words) for place, words in difference.related),
        )


def _hints(difference: WorldDifference, *, has_stages: bool) -> tuple[str, ...]:
    if difference.hint:
        return (difference.hint,)
    if difference.code == "FL913":
        return recompilation_hints(difference.cause)
    stages = (_STAGES,) if has_stages and difference.code == "FL911" else ()
    return (*_HINTS.get(difference.code, ()), *stages)


def of_further_ranks(
    context: Context, families: tuple[Callable[[Context], Iterator[Finding]], ...], known: list[Finding]
) -> Iterator[Finding]:
    """The findings of `families` that ranks have which the first rank has not."""
    world = context.report.world
    seen = {(finding.code, finding.span, finding.title) for finding in known}
    for group in world.groups[1:] if world is not None else ():
        further = replace(context, report=report_of(context.report, group))
        for family in families:
            for finding in family(further):
                key = (finding.code, finding.span, finding.title)
                if key not in seen:
                    seen.add(key)
                    where = f"Only on {ranks_in_words(group.ranks)}."
                    yield replace(finding, message=f"{where}\n{finding.message}")


def report_of(report: Report, group: EqualRanks) -> Report:
    """The report of other ranks than the first."""
    return replace(
        report,
        world=None,
        frames=group.frames,
        compiles=group.compiles,
        breaks=group.breaks,
        recompiles=group.recompiles,
        not_compiled=group.not_compiled,
        failures=group.failures,
    )
