"""FL201: a frame compiled again, on the line whose read created the guard that failed.

Each new call is compared with the nearest cache entry (the one with the fewest failing guards). Invariant:
one finding for each line and guarded value, however often it changed; the differences of the later times are
listed in order. A recompilation that the limit stopped belongs to FL102.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from fuselight.report import Location
from fuselight_server.finding import Related
from fuselight_server.findings.causes import DIMENSION, Cause, advice, cause_of, fixed_by_torch
from fuselight_server.findings.context import span_of
from fuselight_server.findings.text import compose, counted, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import GuardFailure, Recompile
    from fuselight_server.finding import Finding
    from fuselight_server.findings.context import Context

_MOST_LISTED = 12
_CARRIED = re.compile(r"\b___stack\d+\b")
"""What compiled code finds on Python's stack when it takes over behind a break: the result of the line that broke."""


def recompilation_findings(context: Context) -> Iterator[Finding]:
    """The findings of the report's recompilations."""
    groups: dict[tuple[object, ...], list[Recompile]] = {}
    for told in context.report.recompiles:
        if told.compile_id is None:
            continue
        one = _in_the_users_words(context, told)
        home, failure = birthplace(context, one)
        what = (failure.source, cause_of(failure)) if failure else ("", Cause.OTHER)
        groups.setdefault((home.path, home.line, home.column, *what), []).append(one)
    for group in groups.values():
        yield _finding(context, group)


def _in_the_users_words(context: Context, one: Recompile) -> Recompile:
    """Name a value that a break carried over by the line that made it, which is also where its guard is placed."""
    compiles = {item.id: item for item in context.report.compiles}
    after = compiles.get(one.compile_id or "")
    frames = context.report.frames
    line = frames[after.frame].resumes_at if after is not None and after.frame < len(frames) else None
    if line is None or not any(_CARRIED.search(failure.difference) for failure in nearest(one)):
        return one
    made = Location(one.location.path, line, function=one.location.function)

    def renamed(failure: GuardFailure) -> GuardFailure:
        if not _CARRIED.search(failure.difference):
            return failure
        name = f"the result of line {line}"
        return dataclasses.replace(
            failure,
            source=name,
            difference=_CARRIED.sub(name, failure.difference),
            born=failure.born if context.innermost_ours(failure.born) else (made,),
        )

    first = dataclasses.replace(one.entries[0], failures=tuple(map(renamed, one.entries[0].failures)))
    return dataclasses.replace(one, entries=(first, *one.entries[1:]))


def nearest(one: Recompile) -> tuple[GuardFailure, ...]:
    """The failing guards of the nearest cache entry."""
    return one.entries[0].failures if one.entries else ()


def difference_of(one: Recompile) -> str:
    """The smallest difference, as `x.size(0) was 4, now 7`; torch's words where there is no guard to name."""
    failures = nearest(one)
    if failures:
        return plain(failures[0].difference or failures[0].code)
    return plain(one.reasons[0]) if one.reasons else "torch gives no reason"


def birthplace(context: Context, one: Recompile) -> tuple[Location, GuardFailure | None]:
    """Where the failing guard was born in the workspace; else the `def` line, or what led to a library's."""
    failures = nearest(one)
    # A setting of torch that changed fails the guards of tensors with it: those are its consequences.
    settings = [failure for failure in failures if cause_of(failure) is Cause.GLOBAL_STATE]
    for failure in settings or failures:
        home = context.innermost_ours(failure.born)
        if home is not None:
            return home, failure
    fallback = next(iter(settings or failures), None)
    if context.is_ours(one.location):
        return one.location, fallback
    return context.innermost_ours(one.caller) or one.location, fallback


def _finding(context: Context, group: list[Recompile]) -> Finding:
    one = group[0]
    home, failure = birthplace(context, one)
    difference = plain(failure.difference or failure.code) if failure else difference_of(one)
    cost = (f"`{plain(one.function)}` was compiled {_again(len(group))}", *_seconds(context, group))
    hints = advice(failure) if failure else (_no_guard_advice(one),)
    fixes, data = _fix(failure)
    span = span_of(home)
    if (home.path, home.line) == (context.report.target.path, context.report.target.line):
        span = context.target_span() if home.column is None else span
    return context.finding(
        "FL201",
        title=f"recompiled: {difference}",
        message=compose(
            f"`{plain(one.function)}` was compiled again because a guard of its compiled code failed: "
            f"{difference}.",
            _others(one, failure),
            _later(group),
            cost=cost,
            hints=hints,
        ),
        span=span,
        call=one.call,
        hints=hints,
        related=tuple(_related(context, one, home)),
        count=len(group),
        cost=cost,
        fixes=fixes,
        data=data,
    )


def _again(times: int) -> str:
    return "once more" if times == 1 else f"{times} more times"


def _seconds(context: Context, group: list[Recompile]) -> Iterator[str]:
    ids = {one.compile_id for one in group}
    spent = [item.seconds for item in context.report.compiles if item.id in ids and item.seconds is not None]
    if spent and sum(spent) >= 0.1:  # noqa: PLR2004 - below a tenth of a second the tracing time is noise
        yield f"{sum(spent):.1f} s of tracing alone; a real backend then generates code on top"


def _others(one: Recompile, shown: GuardFailure | None) -> str:
    """The other failing guards of the nearest entry, and how many entries there were."""
    rest = [failure for failure in nearest(one) if failure is not shown]
    lines = [f"- {plain(failure.difference or failure.code)}" for failure in rest[:_MOST_LISTED]]
    if len(rest) > _MOST_LISTED:
        lines.append(f"- and {len(rest) - _MOST_LISTED} more")
    head = "These guards failed too:\n" + "\n".join(lines) if lines else ""
    entries = len(one.entries)
    if entries > 1:
        note = f"{counted(entries, 'compiled version')} existed; this compares with the nearest."
        return f"{head}\n\n{note}" if head else note
    return head


def _later(group: list[Recompile]) -> str:
    later = [difference_of(one) for one in group[1:]]
    if not later:
        return ""
    lines = [f"- {text}" for text in later[:_MOST_LISTED]]
    if len(later) > _MOST_LISTED:
        lines.append(f"- and {len(later) - _MOST_LISTED} more")
    return "It changed again:\n" + "\n".join(lines)


def _no_guard_advice(one: Recompile) -> str:
    text = " ".join(one.reasons)
    if "backend" in text or "mode" in text:
        return "Compile with one backend, mode and options; compile once and keep the result"
    return "Call it the same way each time; where that cannot be, expect one compile for each way"


def _fix(failure: GuardFailure | None) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """`mark_dynamic` where a named argument's size varied."""
    if failure is None or cause_of(failure) is not Cause.DIMENSION or fixed_by_torch(failure):
        return (), ()
    found = DIMENSION.match(failure.difference)
    if found is None or not found["name"].isidentifier():
        return (), ()
    return ("mark_dynamic",), (("parameter", found["name"]), ("dimension", found["size"] or found["shape"]))


def _related(context: Context, one: Recompile, home: Location) -> Iterator[Related]:
    """The call that brought the new value, the compile that it was compared with, the function itself."""
    call = context.innermost_ours(one.caller)
    calls = context.report.inputs.calls if context.report.inputs else ()
    made = next((item for item in calls if item.index == one.call), None)
    if call is not None and (call.path, call.line) != (home.path, home.line):
        yield Related(span_of(call), "this call brought the new value")
    elif made is not None and made.location is not None:
        yield Related(span_of(made.location), f"this call brought the new value, {made.text}")
    if one.entries:
        earlier = next(
            (item for item in context.report.compiles if item.id == one.entries[0].compile_id), None
        )
        before = context.innermost_ours(earlier.caller) if earlier else None
        first = next((item for item in calls if earlier is not None and item.index == earlier.call), None)
        if before is None and first is not None and earlier is not None and earlier.call != one.call:
            before = first.location
        if before is not None and (before.path, before.line) != (home.path, home.line):
            yield Related(
                span_of(before), f"the earlier compile [{one.entries[0].compile_id}] was for this call"
            )
    if (one.location.path, one.location.line) != (home.path, home.line):
        yield Related(span_of(one.location), f"`{plain(one.function)}` is what was compiled again")
