"""The recompile limit: how near a function is to it, and a higher one as a cure.

Invariant: a higher limit is tried for kinds of values alone, never for a number or a size, which has no bound.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
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


@dataclass(frozen=True)
class RecompileLimit:
    """The versions of a function that torch keeps, and what says so."""

    number: int
    is_own: bool
    """Whether it is the argument `recompile_limit` of the function's torch.compile: no setting changes that."""

    @property
    def name(self) -> str:
        """What to change for another limit."""
        return f"{'' if self.is_own else 'torch._dynamo.config.'}recompile_limit"

    @property
    def owner(self) -> str:
        """Where that is, after its name; empty for the setting."""
        return " of its torch.compile" if self.is_own else ""


def limit_of(context: Context, recompilation: Recompile | None) -> RecompileLimit:
    """The limit of the function that was compiled again."""
    entries = recompilation.entries if recompilation is not None else ()
    compiles = (context.compile_of(entry.compile_id) for entry in entries)
    own = next((item.own_limit for item in compiles if item is not None and item.own_limit is not None), None)
    if own is not None:
        return RecompileLimit(own, is_own=True)
    given = context.report.environment.config.get("recompile_limit", "")
    return RecompileLimit(int(given) if given.isdecimal() else _DEFAULT, is_own=False)


def about_limit(context: Context, again: Iterable[Recompile]) -> str:
    """Say that a function has as many versions as the limit allows; empty if it has fewer, or has exceeded it."""
    again = tuple(again)
    limit = limit_of(context, next(iter(again), None))
    versions = max((len(item.entries) + 1 for item in again), default=0)
    code = again[0].location if again else None
    is_exceeded = any(failure.kind == "recompile_limit" for failure in context.report.failures) or any(
        item.kind in _LIMITS
        and code is not None
        and (item.location.path, item.location.line) == (code.path, code.line)
        for item in context.report.not_compiled
    )
    if versions != limit.number or is_exceeded:
        return ""
    end = "raises an exception" if context.report.fullgraph else "runs in eager mode, without a warning"
    return (
        f"All {limit.number} versions that {limit.name}{limit.owner} allows exist: a call that matches none of them "
        f"{end}."
    )


def higher_limit(
    context: Context, stopped: Recompile | None, failures: Iterable[GuardFailure]
) -> tuple[TriedAdvice, ...]:
    """A higher limit, where what differed in the call that exceeded it is of a kind that may have few values."""
    first = next(iter(failures), None)
    if stopped is None or first is None or first.cause in _UNBOUNDED:
        return ()
    limit = limit_of(context, stopped)
    number, at = _HIGHER * limit.number, (stopped.location.path, stopped.location.line)
    if limit.is_own:
        cure = CallCure(CureKind.LIMIT, *at, value=str(number), goal=CureGoal.LIMITED)
        text = f"Compile with torch.compile(..., recompile_limit={number})"
    else:
        value = json.dumps({"recompile_limit": number})
        cure = CallCure(CureKind.SETTING, *at, value=value, goal=CureGoal.LIMITED)
        text = f"Set {limit.name} = {number} before the first call"
    return (TriedAdvice(text, cure, "Each version needs a compile"),)
