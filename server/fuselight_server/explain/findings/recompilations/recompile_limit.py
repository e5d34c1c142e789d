"""The recompile limit: how near a function is to it, and a higher one as a cure.

Invariant: a higher limit is tried for kinds of values alone, never for a number or a size, which has no bound.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fuselight.shared.report import CallCure, CureGoal, CureKind, GuardCause, NotCompiledKind
from fuselight_server.explain.findings.advice.advice import TriedAdvice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight.shared.report import GuardFailure, Recompile
    from fuselight_server.explain.findings.common.context import Context

_DEFAULT = 8
_HIGHER = 4
"""By how much the limit that is tried is higher."""
_UNBOUNDED = frozenset({GuardCause.NUMBER, GuardCause.DIMENSION, GuardCause.RELATION, GuardCause.LENGTH})
_LIMITS = frozenset({NotCompiledKind.RECOMPILE_LIMIT, NotCompiledKind.ACCUMULATED_LIMIT})


def limit_of(context: Context) -> int:
    """The versions of a function that torch keeps."""
    given = context.report.environment.config.get("recompile_limit", "")
    return int(given) if given.isdecimal() else _DEFAULT


def about_limit(context: Context, again: Iterable[Recompile]) -> str:
    """Say that a function has as many versions as the limit allows; empty if it has fewer, or has exceeded it."""
    again = tuple(again)
    limit, versions = limit_of(context), max((len(item.entries) + 1 for item in again), default=0)
    code = again[0].location if again else None
    is_exceeded = any(
        item.kind in _LIMITS
        and code is not None
        and (item.location.path, item.location.line) == (code.path, code.line)
        for item in context.report.not_compiled
    )
    if versions != limit or is_exceeded:
        return ""
    return (
        f"All {limit} versions that torch._dynamo.config.recompile_limit allows exist: a call that matches none of "
        "them runs in eager mode, without a warning."
    )


def higher_limit(
    context: Context, stopped: Recompile | None, failures: Iterable[GuardFailure]
) -> tuple[TriedAdvice, ...]:
    """A higher limit, where what differed in the call that exceeded it is of a kind that may have few values."""
    first = next(iter(failures), None)
    if stopped is None or first is None or first.cause in _UNBOUNDED:
        return ()
    name, number = "recompile_limit", _HIGHER * limit_of(context)
    cure = CallCure(
        CureKind.SETTING,
        stopped.location.path,
        stopped.location.line,
        value=json.dumps({name: number}),
        goal=CureGoal.LIMITED,
    )
    text = f"Set torch._dynamo.config.{name} = {number} before the first call"
    return (TriedAdvice(text, cure, "Each version needs a compile"),)
