"""Recompilations of the parts of a function after its graph breaks, in the user's terms.

After a graph break, compiled code resumes in a separate function, with its own guards on the values that cross the
break. So one new size at the call compiles the function again and each such part of it: one cause, one finding.
Invariant: a part is folded only into a recompilation of the same function in the same call that differs in the same
way in each of its failing guards; what differs otherwise stays a finding of its own.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuselight.report import GuardCause, Location
from fuselight_server.findings.text import rounded
from fuselight_server.findings.waiting_values import waiting_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import Break, GuardFailure, Recompile
    from fuselight_server.findings.context import Context
    from fuselight_server.findings.waiting_values import WaitingValue

_CARRIED = re.compile(r"\b___stack(\d+)\b")
"""Values on Python's stack when compiled code resumes after a break."""
_CARRIED_PROPERTY = re.compile(
    r"\b___stack(?P<number>\d+)(?P<items>(?:\[\d+\])*)"
    r"(?:\.(?P<property>(?:size|stride)\(\d*\)|shape\[\d+\]|dtype|device|requires_grad|ndim|layout))?"
)
_ITEM = re.compile(r"\[(\d+)\]")
_LONGEST_EXPRESSION = 60
_OF_TENSORS = frozenset(
    {
        GuardCause.DIMENSION,
        GuardCause.RANK,
        GuardCause.DTYPE,
        GuardCause.DEVICE,
        GuardCause.REQUIRES_GRAD,
        GuardCause.STRIDE,
    }
)
"""What a tensor hands on to those made from it, whatever they are called."""


@dataclass
class Root:
    """A recompilation with a finding, and the parts of the same function that recompiled after it in the same call."""

    recompile: Recompile
    parts: list[Recompile] = field(default_factory=list)
    explained: tuple[GuardFailure, ...] = ()
    """Failed guards of it that an earlier recompilation already reports."""
    wrappers: list[Recompile] = field(default_factory=list)
    """Decorators of the function that recompiled for the same arguments in the same call."""
    unordered: Recompile | None = None
    """The recompilation before its failures that nothing else reports were put first."""


def nearest(one: Recompile) -> tuple[GuardFailure, ...]:
    """The failing guards of the nearest cache entry."""
    return one.entries[0].failures if one.entries else ()


def resumed_at(context: Context, one: Recompile) -> int | None:
    """The line of the break before the compiled part; None for a function from its start."""
    ids = (one.compile_id, *(entry.compile_id for entry in one.entries))
    frames = (context.frame_of(context.compile_of(name)) for name in ids)
    return next((frame.resumes_at for frame in frames if frame is not None), None)


def break_at(context: Context, one: Recompile, line: int) -> Location:
    """Where the break before the part is: its exact place where the report holds it."""
    broke = _break(context, one.location, line)
    return broke.stack[0] if broke else Location(one.location.path, line, function=one.location.function)


def in_the_users_words(context: Context, one: Recompile) -> Recompile:
    """The recompilation with readable numbers, and a value that a break carried over named by what made it."""
    line = resumed_at(context, one)
    if not one.entries:
        return one

    def worded(failure: GuardFailure) -> GuardFailure:
        difference, source, born = rounded(failure), failure.source, failure.born
        if line is not None and _CARRIED.search(f"{source} {difference}"):
            difference = carried_in_words(context, one.location, line, difference)
            source = carried_in_words(context, one.location, line, source)
            # What takes the value over is wherever the line goes on: its maker is what a reader looks for.
            if _break(context, one.location, line) is not None or not context.innermost_user_frame(born):
                born = (break_at(context, one, line),)
        return dataclasses.replace(failure, source=source, difference=difference, born=born)

    first = dataclasses.replace(one.entries[0], failures=tuple(map(worded, one.entries[0].failures)))
    return dataclasses.replace(one, entries=(first, *one.entries[1:]))


def carried_in_words(context: Context, function: Location, line: int, text: str) -> str:
    """`text` with what a break on `line` of the function carried over named by what made it."""
    if not _CARRIED.search(text):
        return text

    def words(found: re.Match[str]) -> str:
        items = [f"item {number}" for number in reversed(_ITEM.findall(found["items"]))]
        made = _made_by(context, function, line, int(found["number"]))
        return " of ".join((*filter(None, [found["property"]]), *items, made))

    return _CARRIED_PROPERTY.sub(words, text)


def roots(context: Context, recompiles: Iterator[Recompile]) -> list[Root]:
    """Return the recompilations to report, in order; a part that an earlier one explains is folded into it."""
    out: list[Root] = []
    for one in recompiles:
        if _take_over(context, out, one):
            continue
        former = _former(out, one) if resumed_at(context, one) is not None and nearest(one) else None
        if former is None:
            out.append(Root(one))
            continue
        known = {_change(failure) for failure in nearest(former.recompile)}
        new = [failure for failure in nearest(one) if _change(failure) not in known]
        if not new:
            former.parts.append(one)
            continue
        rest = tuple(failure for failure in nearest(one) if failure not in new)
        first = dataclasses.replace(one.entries[0], failures=(*new, *rest))
        ordered = dataclasses.replace(one, entries=(first, *one.entries[1:]))
        out.append(Root(ordered, explained=rest, unordered=one))
    return out


def as_found(context: Context) -> list[Recompile]:
    """The report's recompilations, in order, each in the words of its finding and with what that shows first."""
    worded = [in_the_users_words(context, one) for one in context.report.recompiles]
    found = roots(context, (one for one in worded if one.compile_id is not None))
    ordered = {id(root.unordered): root.recompile for root in found if root.unordered is not None}
    return [ordered.get(id(one), one) for one in worded]


def _take_over(context: Context, earlier: list[Root], one: Recompile) -> bool:
    """Make a function the root in the place of the decorator that passed it the arguments that differ.

    The decorator is compiled first, and its guards are on the same values: the function's lines are what a reader
    looks for.
    """
    if resumed_at(context, one) is not None or not nearest(one):
        return False
    changes = {_change(failure) for failure in nearest(one)}
    for root in earlier:
        wrapper = root.recompile
        if wrapper.call == one.call and _wraps(context, wrapper, one):
            known = {_change(failure) for failure in nearest(wrapper)}
            if known and known <= changes:
                root.recompile, root.wrappers = one, [*root.wrappers, wrapper]
                return True
    return False


def _wraps(context: Context, wrapper: Recompile, one: Recompile) -> bool:
    """Whether a decorator of the user's passes its arguments to the function."""
    frame = context.frame_of(context.compile_of(wrapper.compile_id))
    if frame is None or frame.wraps is None or frame.resumes_at is not None:
        return False
    wrapped = frame.wraps
    return (wrapped.path, wrapped.line) == (one.location.path, one.location.line)


def _former(earlier: list[Root], one: Recompile) -> Root | None:
    """The first recompilation of the same function in the same call; without calls, the last of the function."""
    same = [
        root
        for root in earlier
        if root.recompile.call == one.call
        and root.recompile.function == one.function
        and root.recompile.location == one.location
    ]
    if not same:
        return None
    return same[0] if one.call is not None else same[-1]


def _change(failure: GuardFailure) -> tuple[object, ...]:
    """What two failures have in common that one change made."""
    cause = failure.cause
    if cause in _OF_TENSORS and failure.was is not None:
        return (cause, failure.was, failure.now)
    return (cause, failure.source, failure.difference)


def _break(context: Context, function: Location, line: int) -> Break | None:
    """The break at `line` of the function, None where the report holds none or several that differ."""
    found = {
        item.stack[0]: item
        for item in context.report.breaks
        if item.stack
        and item.stack[0].path == function.path
        and item.stack[0].line <= line <= (item.stack[0].end_line or item.stack[0].line)
    }
    return next(iter(found.values())) if len(found) == 1 else None


def _made_by(context: Context, function: Location, line: int, number: int) -> str:
    """What made the value `number` of those that the break carried over: the last one is that of the expression."""
    broke = _break(context, function, line)
    at = broke.stack[0] if broke else None
    if (
        at is not None
        and at.column is not None
        and (waiting := _waiting(context, function, line, number, at))
    ):
        return f"the bound method `{waiting.text}`" if waiting.is_method else f"the value of `{waiting.text}`"
    if at is not None and at.column is not None and _is_last(context, function, line, number):
        source = (context.read_line(at.path, at.line) or "").encode("utf-8", "surrogateescape")
        is_whole = at.end_line in {None, at.line}
        made = source[at.column : at.end_column if is_whole else None].decode("utf-8", "replace").strip()
        if made:
            is_short = is_whole and len(made) <= _LONGEST_EXPRESSION
            text = made if is_short else f"{made[: _LONGEST_EXPRESSION - 1]}\N{HORIZONTAL ELLIPSIS}"
            return f"the value of `{text}` on line {at.line}"
    return f"a value carried over the graph break on line {line}"


def _waiting(
    context: Context, function: Location, line: int, number: int, at: Location
) -> WaitingValue | None:
    """The value `number` of those that wait for the one that broke, in the statement on one line."""
    counts = _carried_counts(context, function, line)
    if len(counts) != 1 or at.column is None or at.end_column is None or at.end_line not in {None, at.line}:
        return None
    text = context.read_line(at.path, at.line)
    found = waiting_values([text.rstrip("\n")], at.column, at.end_column - at.column) if text else None
    is_whole = found is not None and {len(found) + 1} == counts
    return found[number] if found is not None and is_whole and number < len(found) else None


def _carried_counts(context: Context, function: Location, line: int) -> set[int | None]:
    return {
        one.carried
        for one in context.report.frames
        if one.resumes_at == line and (one.location.path, one.location.line) == (function.path, function.line)
    }


def _is_last(context: Context, function: Location, line: int, number: int) -> bool:
    """Whether a value is the last one that a break on a line carried over: those before it are what waits for it."""
    return _carried_counts(context, function, line) == {number + 1}
