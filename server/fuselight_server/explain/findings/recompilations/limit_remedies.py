"""What to do about the recompile limit, and the changes to try: those of the recompilation that exceeded it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.base.remedies import RemedyState, advice, in_order
from fuselight_server.explain.findings.advice.advice import tried_remedies
from fuselight_server.explain.findings.recompilations.recompile_limit import higher_limit, limit_of
from fuselight_server.explain.findings.recompilations.remedies import cures_of, remedies_of, root_failures

if TYPE_CHECKING:
    from fuselight.shared.report import CallCure, Recompile
    from fuselight_server.base.remedies import FindingRemedy
    from fuselight_server.explain.findings.common.context import Context


def limit_cures(context: Context, stopped: Recompile | None) -> tuple[CallCure, ...]:
    """The changes to try against what differed in the call that exceeded the recompile limit."""
    failures = root_failures(context, stopped) if stopped else ()
    cures = cures_of(context, stopped, failures[0], ()) if stopped and failures else ()
    return (*cures, *(item.cure for item in higher_limit(context, stopped, failures)))


def limit_remedies(context: Context, stopped: Recompile | None) -> tuple[FindingRemedy, ...]:
    """What to do about the recompile limit, by what differed in the call that exceeded it."""
    failures = root_failures(context, stopped) if stopped else ()
    first = remedies_of(context, stopped, failures[0]) if stopped and failures else ()
    if any("recompile_limit" in remedy.text for remedy in first):
        return first
    higher = tried_remedies(higher_limit(context, stopped, failures), context.trials)
    if any(remedy.state is not RemedyState.REFUSED for remedy in higher):
        return in_order((*higher, *first))
    limit = limit_of(context, stopped)
    last = f"Raise {limit.name}{limit.owner} only if the number of versions is bounded"
    return (*first, *advice((last,)), *higher)
