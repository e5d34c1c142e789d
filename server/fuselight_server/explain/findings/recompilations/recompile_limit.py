"""The recompile limit: how near a function is to it, and a higher one as a cure.

Invariant: a higher limit is tried for kinds of values alone, never for a number or a size, which has no bound, nor
where something grew at each compile.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fuselight.shared.report import (
    CallCure,
    CureGoal,
    CureKind,
    GuardCause,
    GuardFailure,
    Location,
    NotCompiledKind,
    Recompile,
)
from fuselight.shared.version import release
from fuselight_server.explain.findings.advice.advice import TriedAdvice
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import in_the_users_words, nearest
from fuselight_server.explain.findings.common.text import quoted

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


def stopped_by_limit(context: Context) -> Iterator[Recompile]:
    """The recompilations that a limit stopped."""
    for recompilation in context.report.recompiles:
        if recompilation.compile_id is None:
            yield in_the_users_words(context, recompilation)


def stopped_at(context: Context, code: Location) -> Recompile | None:
    """The recompilation of a function that a limit stopped, by the line of its `def`."""
    at = (code.path, code.line)
    return next(
        (item for item in stopped_by_limit(context) if (item.location.path, item.location.line) == at), None
    )


@dataclass(frozen=True)
class Growth:
    """A number, a size or a length that was greater at each compile of a function."""

    name: str
    first: int
    last: int


def growth_of(context: Context, stopped: Recompile | None) -> Growth | None:
    """What grew from compile to compile until the limit; None where nothing did."""
    if stopped is None:
        return None
    growing = _growing(context, stopped)
    return next((growing[name] for name, *_ in _changes(stopped) if name in growing), None)


def growing_with(context: Context, last: Recompile, recompilation: Recompile) -> tuple[str, ...]:
    """The values, and the lengths, that differed in a recompilation and grew at each compile of `last`'s function."""
    growing = _growing(context, last)
    return tuple(dict.fromkeys(name for name, *_ in _changes(recompilation) if name in growing))


def _growing(context: Context, stopped: Recompile) -> dict[str, Growth]:
    changes: dict[str, list[tuple[int, int]]] = {}
    for item in context.report.recompiles:
        if (item.function, item.location) == (stopped.function, stopped.location):
            if item.entries and item.entries[0].other_object:
                return {}  # there are as many versions as objects
            for name, was, now in _changes(in_the_users_words(context, item)):
                changes.setdefault(name, []).append((was, now))
    return {
        name: Growth(name, pairs[0][0], pairs[-1][1])
        for name, pairs in changes.items()
        if len(pairs) >= _MANY
        and all(was < now for was, now in pairs)
        and all(before[1] < after[1] for before, after in itertools.pairwise(pairs))
    }


def _changes(recompilation: Recompile) -> Iterator[tuple[str, int, int]]:
    """The whole numbers that differed, and the lengths of containers that may have been empty."""
    for failure in nearest(recompilation):
        match = _CHANGE.match(failure.difference)
        filled = _FILLED.match(failure.difference)
        if match is not None:
            yield match["name"], int(match["was"]), int(match["now"])
        elif filled is not None:
            yield f"len({filled['name']})", 0, int(filled["now"])


_CHANGE = re.compile(r"(?P<name>.+) was (?P<was>\d+), now (?P<now>\d+)$")
_FILLED = re.compile(r"(?P<name>\S+) was empty, now a \w+ of (?P<now>\d+)$")
_MANY = 3
"""Changes from which on a value that was greater each time is said to grow."""


def about_growth(context: Context, stopped: Recompile | None) -> str:
    """Say that no number of versions is enough, where a value grew each time; empty where nothing did."""
    growth = growth_of(context, stopped)
    if growth is None:
        return ""
    return (
        f"Nothing in the run bounds the number of versions: {quoted(growth.name)} was greater at each compile, from "
        f"{growth.first} to {growth.last}."
    )


def own_versions(context: Context, stopped: Recompile | None) -> tuple[TriedAdvice, ...]:
    """Versions of its own for each torch.compile, where the call that exceeded the limit has another object."""
    failures = nearest(stopped) if stopped is not None else ()
    is_other = stopped is not None and bool(stopped.entries) and stopped.entries[0].other_object
    is_other = is_other or any(failure.cause in _OF_OTHERS for failure in failures)
    if stopped is None or not is_other or not isolates(context):
        return ()
    place = stopped.location
    cure = CallCure(CureKind.ISOLATE, place.path, place.line, goal=CureGoal.LIMITED)
    text = "Compile each object with torch.compile(..., isolate_recompiles=True)"
    return (TriedAdvice(text, cure, "Objects of the same sizes and values then share no compiled code"),)


_OF_OTHERS = frozenset({GuardCause.CLASS, GuardCause.WRAPPED})
_ISOLATES = (2, 13)
"""The release from which on torch.compile has isolate_recompiles."""


def isolates(context: Context) -> bool:
    """Whether torch.compile can give an object compiled versions of its own."""
    return release(context.report.versions.torch or "") >= _ISOLATES


def higher_limit(
    context: Context, stopped: Recompile | None, failures: Iterable[GuardFailure]
) -> tuple[TriedAdvice, ...]:
    """A higher limit, where what differed in the call that exceeded it is of a kind that may have few values."""
    first = next(iter(failures), None)
    if stopped is None or first is None or first.cause in _UNBOUNDED or growth_of(context, stopped):
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
