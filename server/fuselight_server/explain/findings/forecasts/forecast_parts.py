"""One change of a call in all the code that it reaches: a function, and its parts after graph breaks.

After a break, compiled code resumes in a function with its own guards on the variables that cross the break, so a
change may be asked of several. Invariant: a change needs no compile only if no code that it reaches compiles again. A
part's answer counts for a change of the call where both have the same name and value, or the same size in the same
dimension; what the part made itself is a change of its own.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fuselight.shared.report import ChangeKind, Forecast, FrameForecast, GuardCause, Location
from fuselight_server.explain.findings.common.carried_values import carried_in_words, resumption_on
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.forecasts.forecast_kinds import KINDS, ChangeScope

_DIMENSION = re.compile(r"size\((\d+)\)")


@dataclass(frozen=True)
class AskedChange:
    """One change, with the function whose guard answers, or the part of one."""

    frame: FrameForecast
    change: Forecast
    named: FrameForecast
    """The function, or the part, whose variables the change names."""
    parts: tuple[FrameForecast, ...] = ()
    """Further parts of the function that compile again."""


def linked_changes(context: Context) -> Iterator[AskedChange]:
    """The changes of the report's forecasts, each once for a function and its parts."""
    frames = sorted(
        context.report.forecasts, key=lambda frame_forecast: frame_forecast.resumes_at is not None
    )
    groups: dict[tuple[object, ...], list[AskedChange]] = {}
    for frame in frames:
        for forecast in frame.changes:
            change = forecast if frame.resumes_at is None else _in_words(context, frame, forecast)
            change = dataclasses.replace(
                change, repeats=change.repeats or _is_fixed(context, frame, forecast)
            )
            groups.setdefault(_key(frame, change), []).append(AskedChange(frame, change, frame))
    for group in groups.values():
        yield from _answers(group)


def _is_fixed(context: Context, frame: FrameForecast, forecast: Forecast) -> bool:
    """Whether torch fixed a number again after it had changed in the run: each further value compiles, too."""
    if forecast.kind is not ChangeKind.NUMBER or not _EQUALITY.fullmatch(forecast.guard):
        return False
    return any(
        failure.source == forecast.source
        and failure.cause in {GuardCause.NUMBER, GuardCause.RELATION}
        and {"0", "1"}.isdisjoint((failure.was, failure.now))  # which torch compiles separately
        for recompilation in context.report.recompiles
        if (recompilation.location.path, recompilation.location.line)
        == (frame.location.path, frame.location.line)
        for entry in recompilation.entries
        for failure in entry.failures
    )


_EQUALITY = re.compile(r"L\['\w+'\] == -?[\d.]+(?:e[-+]?\d+)?")


def is_of_call(context: Context, asked: AskedChange) -> bool:
    """Whether the change is one of the target's call: of its inputs, of its `self`, of a global, or of a mode."""
    kind = KINDS[asked.change.kind]
    if kind.scope is ChangeScope.MODE:
        return True
    first = next((frame.location for frame in context.report.frames), None)
    is_targets = first in {None, asked.named.location}
    return is_targets and (asked.named.resumes_at is None or kind.crosses_breaks)


def first_break(context: Context, asked: AskedChange) -> Location | None:
    """The break without which the values of a change would be none of a separate call; None for the target's own.

    A part has its break in its function. A function that compiled code calls is compiled separately where a function
    that called it has one.
    """
    if is_of_call(context, asked):
        return None
    frame = asked.named
    if frame.resumes_at is not None:
        return Location(frame.location.path, frame.resumes_at)
    callers = {(place.path, place.function) for place in _callers(context, frame)}
    broken = [
        graph_break
        for graph_break in context.report.breaks
        if graph_break.stack and (graph_break.stack[0].path, graph_break.stack[0].function) in callers
    ]
    broken.sort(key=lambda graph_break: not graph_break.frame_skipped)
    place = context.innermost_user_frame(broken[0].stack) if broken else None
    return Location(place.path, place.line) if place is not None else None


def _callers(context: Context, frame: FrameForecast) -> Iterator[Location]:
    for record in context.report.compiles:
        of = context.report.frames[record.frame] if record.frame < len(context.report.frames) else None
        if of is not None and (of.function, of.location) == (frame.function, frame.location):
            yield from record.caller


def _in_words(context: Context, frame: FrameForecast, forecast: Forecast) -> Forecast:
    """Name what a break carried over by what made it, instead of torch's `___stack0`."""
    after = resumption_on(context, frame.location, frame.resumes_at or 0)

    def words(text: str) -> str:
        return carried_in_words(context, after, text)

    return dataclasses.replace(
        forecast, subject=tuple(map(words, forecast.subject)), source=words(forecast.source)
    )


def _key(frame: FrameForecast, forecast: Forecast) -> tuple[object, ...]:
    """What changes with the same key have in common: one change of the call makes them all."""
    scope = KINDS[forecast.kind].scope
    if scope is ChangeScope.MODE:
        return forecast.kind, forecast.was, forecast.now
    function = (frame.function, frame.location.path, frame.location.line)
    if scope is ChangeScope.DIMENSION:
        dimension = _DIMENSION.search(forecast.subject[0])
        return *function, forecast.kind, forecast.was, forecast.now, dimension and dimension[1]
    if scope is ChangeScope.TENSORS:
        return *function, forecast.kind, forecast.was, forecast.now
    return *function, forecast.kind, forecast.was, forecast.subject


def _answers(group: list[AskedChange]) -> Iterator[AskedChange]:
    again = [asked_change for asked_change in group if asked_change.change.recompiles]
    if not again:
        # A variable that only a part has is no news if it may change.
        yield from (asked_change for asked_change in group if asked_change.frame.resumes_at is None)
        return
    for same in _by_function(again):
        first, *rest = same
        parts = tuple(asked_change.frame for asked_change in rest)
        whole = next(
            (
                asked_change
                for asked_change in group
                if asked_change.frame.resumes_at is None and _is_of(asked_change, first)
            ),
            first,
        )
        change = dataclasses.replace(
            first.change,
            subject=whole.change.subject,
            was=whole.change.was,
            now=whole.change.now,
            is_likely=whole.change.is_likely,
            tried=whole.change.tried,
        )
        yield AskedChange(first.frame, change, whole.frame, parts)


def _by_function(group: Iterable[AskedChange]) -> Iterator[list[AskedChange]]:
    left = list(group)
    while left:
        yield [change for change in left if _is_of(change, left[0])]
        left = [change for change in left if not _is_of(change, left[0])]


def _is_of(change: AskedChange, other: AskedChange) -> bool:
    """Whether both are of one function."""
    return (change.frame.function, change.frame.location) == (other.frame.function, other.frame.location)
