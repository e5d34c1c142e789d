"""Recompilations of the parts of a function after its graph breaks, in the user's terms.

After a graph break, compiled code resumes in a separate function, with its own guards on the values that cross the
break. So one new size at the call compiles the function again and each such part of it: one cause, one finding.
Invariant: a part is folded only into a recompilation of the same function in the same call that differs in the same
way in each of its failing guards; what differs otherwise stays a finding of its own.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from fuselight.shared.report import GuardCause, GuardFailure, Location, Mismatch, Recompile
from fuselight_server.explain.findings.common.carried_values import (
    CARRIED_VALUE,
    Resumption,
    break_on,
    carried_in_words,
    resumption,
)
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.element_names import with_element_name
from fuselight_server.explain.findings.common.library_calls import is_inside_broken_call
from fuselight_server.explain.findings.common.text import rounded
from fuselight_server.explain.findings.common.unsteady_values import without_unsteady_value

_Guarded: TypeAlias = tuple[GuardCause, str]

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


def nearest(recompilation: Recompile) -> tuple[GuardFailure, ...]:
    """The failing guards of the nearest cache entry."""
    return recompilation.entries[0].failures if recompilation.entries else ()


def resumed_at(context: Context, recompilation: Recompile) -> int | None:
    """The line of the break before the compiled part; None for a function from its start."""
    ids = (recompilation.compile_id, *(entry.compile_id for entry in recompilation.entries))
    frames = (context.frame_of(context.compile_of(name)) for name in ids)
    return next((frame.resumes_at for frame in frames if frame is not None), None)


def break_at(context: Context, recompilation: Recompile, line: int) -> Location:
    """Where the break before the part is: its exact place where the report holds it."""
    after = resumption_of(context, recompilation)
    broke = after.broke if after is not None else break_on(context, recompilation.location, line)
    return (
        broke.stack[0]
        if broke
        else Location(recompilation.location.path, line, function=recompilation.location.function)
    )


def resumption_of(context: Context, recompilation: Recompile) -> Resumption | None:
    """The break before the part that was compiled again; None for a function from its start."""
    return resumption(
        context, recompilation.compile_id, *(entry.compile_id for entry in recompilation.entries)
    )


def in_the_users_words(context: Context, recompilation: Recompile) -> Recompile:
    """The recompilation with readable numbers, and a value that a break carried over by the user's name for it."""
    if not recompilation.entries:
        return recompilation
    after = resumption_of(context, recompilation)
    frame = context.frame_of(
        context.compile_of(recompilation.compile_id or recompilation.entries[0].compile_id)
    )
    if frame is not None and frame.wrapper is not None:
        recompilation = _of_wrapped_method(recompilation)
    compared, *others = _by_cause(recompilation, _reported(context, recompilation))
    failures = tuple(
        without_unsteady_value(context, recompilation, _worded(context, failure, after))
        for failure in _without_sums(compared.failures)
    )
    first = dataclasses.replace(compared, failures=failures)
    return dataclasses.replace(recompilation, entries=(first, *others))


def _of_wrapped_method(recompilation: Recompile) -> Recompile:
    """The recompilation with `self` for `fn.__self__`, where `fn` is what torch's wrapper has of the user's method."""
    entries = [
        dataclasses.replace(entry, failures=tuple(map(_with_self, entry.failures)))
        for entry in recompilation.entries
    ]
    return dataclasses.replace(recompilation, entries=tuple(entries))


def _with_self(failure: GuardFailure) -> GuardFailure:
    source, difference = (_OF_METHOD.sub("self", text) for text in (failure.source, failure.difference))
    return dataclasses.replace(failure, source=source, difference=difference)


_OF_METHOD = re.compile(r"\b[^\W\d]\w*\.__self__\b")


def most_recent(recompilation: Recompile) -> Mismatch:
    """The compiled version that torch compares the call with first: the one used last, or the newest if unknown."""
    torchs = next(iter(recompilation.reasons), "").partition(": ")[0]
    by_id = {entry.compile_id: entry for entry in recompilation.entries}
    return by_id.get(torchs) or max(recompilation.entries, key=lambda entry: _number(entry.compile_id))


def _number(compile_id: str) -> int:
    number = compile_id.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0


def _reported(context: Context, recompilation: Recompile) -> frozenset[_Guarded]:
    """What earlier recompilations of the function differed in from the version that torch had compiled just before."""
    same = [
        item for item in context.report.recompiles if item.location == recompilation.location and item.entries
    ]
    earlier = itertools.takewhile(lambda item: item.compile_id != recompilation.compile_id, same)
    return frozenset(_guarded(failure) for item in earlier for failure in most_recent(item).failures)


def _is_of_other_mode(entry: Mismatch) -> bool:
    """Whether a mode of torch differs. A version of the same mode is nearer, however recent another one is."""
    return any(failure.cause is GuardCause.GLOBAL_STATE for failure in entry.failures)


def _is_of_other_function(entry: Mismatch) -> bool:
    """Whether a wrapper was compiled for another function: no argument of it says why this one compiles."""
    return any(failure.cause is GuardCause.WRAPPED for failure in entry.failures)


def is_other_class(failure: GuardFailure) -> bool:
    """Whether the function belongs to an object of another class than the compiled version."""
    return failure.cause is GuardCause.TYPE and failure.source == "self"


def _by_cause(recompilation: Recompile, reported: frozenset[_Guarded]) -> tuple[Mismatch, ...]:
    """The entries, first the nearest one with the cause: of the most recent one's guards, what failed in most entries.

    The nearest of all entries may be one of a size that varied once, while a counter failed in each of the others.
    What failed in most entries may differ only from old versions, while the most recent one differs in a new value.
    Where that is in turn a value that is `reported`, and no other version differs in it, the nearest one with a value
    that is not has the cause: a dtype goes back to the first one, and the number of dimensions is new. If all are
    reported, a counter that alone keeps the nearest version from serving the call has it.
    """
    entries = recompilation.entries
    recent = most_recent(recompilation)
    if _is_of_other_function(recent):
        recent = entries[0]
    if recent.other_object and not entries[0].other_object:
        recent = entries[0]
    if _is_of_other_mode(recent):
        recent = next((entry for entry in entries if entry.failures and not _is_of_other_mode(entry)), recent)
    counts = Counter(key for entry in entries for key in {_guarded(failure) for failure in entry.failures})
    most = max((counts[_guarded(failure)] for failure in recent.failures), default=0)
    causes = {key for key in map(_guarded, recent.failures) if counts[key] == most}
    if most == 1 and causes <= reported:
        new = (set(map(_guarded, entry.failures)) for entry in entries if entry is not recent)
        causes = next((keys for keys in new if keys.isdisjoint(reported | causes)), causes)
    if causes <= reported:
        causes = _of_nearest(entries, causes)
    shown = next((entry for entry in entries if causes.intersection(map(_guarded, entry.failures))), None)
    if shown is None:
        return entries
    failures = sorted(shown.failures, key=lambda failure: _guarded(failure) not in causes)
    first = dataclasses.replace(shown, failures=tuple(failures)) if len(entries) > 1 else shown
    return (first, *(entry for entry in entries if entry is not shown))


def _of_nearest(entries: tuple[Mismatch, ...], causes: set[_Guarded]) -> set[_Guarded]:
    """The number that alone failed in the nearest version; `causes` if something else failed there."""
    failures = entries[0].failures
    is_number = len(failures) == 1 and failures[0].cause is GuardCause.NUMBER
    return set(map(_guarded, failures)) if is_number else causes


def _guarded(failure: GuardFailure) -> _Guarded:
    return failure.cause, failure.source


def _worded(context: Context, failure: GuardFailure, after: Resumption | None) -> GuardFailure:
    difference, source, born = rounded(failure), failure.source, failure.born
    if after is not None and CARRIED_VALUE.search(f"{source} {difference}"):
        difference = carried_in_words(context, after, difference)
        source = carried_in_words(context, after, source)
        # What takes the value over is wherever the line goes on: its maker is what a reader looks for.
        if after.broke is not None:
            born = (after.broke.stack[0],)
        elif not context.innermost_user_frame(born):
            born = (Location(after.function.path, after.line, function=after.function.function),)
    worded = dataclasses.replace(failure, source=source, difference=difference, born=born)
    worded = with_element_name(context, worded)
    return _of_hook(context, worded) if "_hooks[" in source else worded


def _of_hook(context: Context, failure: GuardFailure) -> GuardFailure:
    """The failure with the name that the hook itself has for its value: `Probe.calls`, as no call has a name for it."""
    at = context.innermost_user_frame(failure.born)
    attribute = failure.source.rpartition(".")[2]
    if at is None or not attribute.isidentifier():
        return failure
    line = context.read_line(at.path, at.line) or ""
    names = set(re.findall(rf"(?<![\w.\])])[^\W\d][\w.]*\.{re.escape(attribute)}\b", line))
    owner, _, method = (at.function or "").rpartition(".")
    if len(names) != 1 or not method:
        return failure
    name = names.pop()
    name = f"{owner}{name.removeprefix('self')}" if name.startswith("self.") and owner else name
    difference = failure.difference.replace(failure.source, name)
    return dataclasses.replace(failure, source=name, difference=difference)


def _without_sums(failures: tuple[GuardFailure, ...]) -> tuple[GuardFailure, ...]:
    """The failures without relations between carried values of which one changed: that is the cause of both.

    As `5 + ___stack0[3] + ___stack0[0] == 32` beside `___stack0[1] == 5`: torch wrote the value that it fixed as 5.
    """
    is_changed = any(
        _is_carried(failure) and failure.cause is not GuardCause.RELATION for failure in failures
    )
    return tuple(failure for failure in failures if not (is_changed and _is_sum(failure)))


def _is_sum(failure: GuardFailure) -> bool:
    """Whether it is a relation between nothing but carried values."""
    names = _VARIABLE.findall(failure.code)
    is_all = bool(names) and all(CARRIED_VALUE.fullmatch(name) for name in names)
    return failure.cause is GuardCause.RELATION and is_all


def _is_carried(failure: GuardFailure) -> bool:
    return CARRIED_VALUE.search(failure.code or failure.source) is not None


_VARIABLE = re.compile(r"\b[LG]\['(\w+)'\]")


def _follows_grad_mode(failure: GuardFailure, former: Recompile) -> bool:
    """Whether a carried tensor needs gradients or not because the whole call was made in another grad mode."""
    modes = [other.difference for other in nearest(former) if other.cause is GuardCause.GLOBAL_STATE]
    changes = {("True", "False"): "grad mode was on, now off", ("False", "True"): "grad mode was off, now on"}
    mode = changes.get((failure.was or "", failure.now or ""), "")
    return failure.cause is GuardCause.REQUIRES_GRAD and bool(mode) and any(mode in text for text in modes)


def roots(context: Context, recompiles: Iterator[Recompile]) -> list[Root]:
    """Return the recompilations to report, in order; a part that an earlier one explains is folded into it.

    A part that also differs in a value of its own stays a finding, with that value first: the others have their advice
    where they were first reported. Those of a library inside a call that breaks the graph go with that break.
    """
    out: list[Root] = []
    for recompilation in recompiles:
        is_inner = is_inside_broken_call(context, (recompilation.location,), recompilation.caller)
        if is_inner or _take_over(context, out, recompilation):
            continue
        former = (
            _former(out, recompilation)
            if resumed_at(context, recompilation) is not None and nearest(recompilation)
            else None
        )
        if former is None:
            out.append(Root(recompilation))
            continue
        known = {_change(failure) for failure in nearest(former.recompile)}
        new = [
            failure
            for failure in nearest(recompilation)
            if _change(failure) not in known and not _follows_grad_mode(failure, former.recompile)
        ]
        if not new:
            former.parts.append(recompilation)
            continue
        rest = tuple(failure for failure in nearest(recompilation) if failure not in new)
        first = dataclasses.replace(recompilation.entries[0], failures=(*new, *rest))
        ordered = dataclasses.replace(recompilation, entries=(first, *recompilation.entries[1:]))
        out.append(Root(ordered, explained=rest, unordered=recompilation))
    return out


def worded_recompilations(context: Context) -> list[Recompile]:
    """The report's recompilations, in order, each in the words of its finding and with what that shows first."""
    worded = [in_the_users_words(context, recompilation) for recompilation in context.report.recompiles]
    first_of_each = roots(
        context, (recompilation for recompilation in worded if recompilation.compile_id is not None)
    )
    ordered = {id(root.unordered): root.recompile for root in first_of_each if root.unordered is not None}
    return [ordered.get(id(recompilation), recompilation) for recompilation in worded]


def _take_over(context: Context, earlier: list[Root], recompilation: Recompile) -> bool:
    """Make a function the root in the place of the decorator that passed it the arguments that differ.

    The decorator is compiled first, and its guards are on the same values: the function's lines are what a reader
    looks for.
    """
    if resumed_at(context, recompilation) is not None or not nearest(recompilation):
        return False
    changes = {_change(failure) for failure in nearest(recompilation)}
    for root in earlier:
        wrapper = root.recompile
        if wrapper.call == recompilation.call and _wraps(context, wrapper, recompilation):
            known = {_change(failure) for failure in nearest(wrapper)}
            if known and known <= changes:
                root.recompile, root.wrappers = recompilation, [*root.wrappers, wrapper]
                return True
    return False


def _wraps(context: Context, wrapper: Recompile, recompilation: Recompile) -> bool:
    """Whether a decorator of the user's passes its arguments to the function."""
    frame = context.frame_of(context.compile_of(wrapper.compile_id))
    if frame is None or frame.wraps is None or frame.resumes_at is not None:
        return False
    wrapped = frame.wraps
    return (wrapped.path, wrapped.line) == (recompilation.location.path, recompilation.location.line)


def _former(earlier: list[Root], recompilation: Recompile) -> Root | None:
    """The first recompilation of the same function in the same call; without calls, the last of the function."""
    same = [
        root
        for root in earlier
        if root.recompile.call == recompilation.call
        and root.recompile.function == recompilation.function
        and root.recompile.location == recompilation.location
    ]
    if not same:
        return None
    return same[0] if recompilation.call is not None else same[-1]


def _change(failure: GuardFailure) -> tuple[object, ...]:
    """What two failures have in common that one change made."""
    cause = failure.cause
    if cause in _OF_TENSORS and failure.was is not None:
        return (cause, failure.was, failure.now)
    return (cause, failure.source, failure.difference)
