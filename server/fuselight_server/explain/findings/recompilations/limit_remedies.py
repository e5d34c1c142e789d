"""What to do about the recompile limit, and the changes to try: those of the recompilation that exceeded it."""

from __future__ import annotations

from fuselight.shared.report import CallCure, CureKind, GuardCause, GuardFailure, Recompile
from fuselight_server.base.remedies import FindingRemedy, RemedyState, advice, in_order
from fuselight_server.explain.findings.advice.advice import tried_remedies, worded
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import in_the_users_words
from fuselight_server.explain.findings.common.text import quoted
from fuselight_server.explain.findings.recompilations.changed_values import changed_values, move_out
from fuselight_server.explain.findings.recompilations.recompile_limit import (
    growth_of,
    higher_limit,
    limit_of,
    own_versions,
)
from fuselight_server.explain.findings.recompilations.remedies import cures_of, remedies_of, root_failures


def limit_cures(context: Context, stopped: Recompile | None) -> tuple[CallCure, ...]:
    """The changes to try against what differed in the call that exceeded the recompile limit."""
    failures = root_failures(context, stopped) if stopped else ()
    cures = cures_of(context, stopped, failures[0], ()) if stopped and failures else ()
    is_counted = bool(_counted(context, stopped))
    limits = (
        *own_versions(context, stopped),
        *higher_limit(context, stopped, () if is_counted else failures),
    )
    return (*cures, *worded(limits))


def limit_remedies(context: Context, stopped: Recompile | None) -> tuple[FindingRemedy, ...]:
    """What to do about the recompile limit, by what differed in the call that exceeded it."""
    failures = root_failures(context, stopped) if stopped else ()
    first = remedies_of(context, stopped, failures[0]) if stopped and failures else ()
    # What is only to be expected of each version does nothing about the limit.
    first = tuple(remedy for remedy in first if remedy.is_step or remedy.state is RemedyState.REFUSED)
    own = tried_remedies(own_versions(context, stopped), context.trials)
    if own and not own[0].is_pending:  # what it does is known then
        first = tuple(remedy for remedy in first if CureKind.ISOLATE.value not in remedy.text)
        first = in_order((*own, *first)) if own[0].state is RemedyState.TRIED else (*first, *own)
    if any("recompile_limit" in remedy.text for remedy in first):
        return first
    if counted := _counted(context, stopped):
        return (*first, *(item for item in advice(move_out(context, counted)) if item not in first))
    higher = tried_remedies(higher_limit(context, stopped, failures), context.trials)
    if any(remedy.state is not RemedyState.REFUSED for remedy in higher):
        return in_order((*higher, *first))
    if growth_of(context, stopped) is not None:
        return (*first, *higher)
    limit = limit_of(context, stopped)
    bound = "the number of versions is bounded"
    if failures and failures[0].cause in _VALUES and failures[0].source:
        values = _values_of(context, stopped, failures[0].source)
        bound = f"{quoted(failures[0].source)} has a bounded number of values: it had {len(values)} in these calls"
    last = f"Raise {limit.name}{limit.owner} only if {bound}"
    return (*first, *advice((last,)), *higher)


def _counted(context: Context, stopped: Recompile | None) -> tuple[GuardFailure, ...]:
    """The first number that made a version and that the code changes in each call: no limit is enough for it."""
    for item in context.report.recompiles:
        if stopped is not None and (item.function, item.location) == (stopped.function, stopped.location):
            changed = changed_values(context, in_the_users_words(context, item))
            if numbers := tuple(failure for failure in changed if failure.cause is GuardCause.NUMBER):
                return numbers[:1]
    return ()


_VALUES = frozenset({GuardCause.NUMBER, GuardCause.VALUE})


def _values_of(context: Context, stopped: Recompile | None, source: str) -> set[str]:
    """The values that a guarded value had in the compiles of a function, and in the call that exceeded the limit."""
    failures = (
        failure
        for item in context.report.recompiles
        if stopped is not None and (item.function, item.location) == (stopped.function, stopped.location)
        for entry in in_the_users_words(context, item).entries
        for failure in entry.failures
        if failure.source == source
    )
    return {
        _known(value) for failure in failures for value in (failure.was, failure.now) if value is not None
    }


def _known(value: str) -> str:
    """A value as torch's symbols have it: these keep 12 digits of a float, and the call has them all."""
    try:
        return f"{float(value):.12g}"
    except ValueError:
        return value
