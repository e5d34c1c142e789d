"""What to do about a recompilation: the advice for each failed guard, chosen by all that the report knows of it.

Invariant: what a library offers comes first, then what keeps a value from being dynamic, then the advice for the kind
of change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.shared.report import GuardCause
from fuselight_server.explain.findings.common.library_remedies import library_remedy
from fuselight_server.explain.findings.common.number_uses import Use, uses_of
from fuselight_server.explain.findings.common.resume_functions import nearest, resumed_at
from fuselight_server.explain.findings.common.text import quoted
from fuselight_server.explain.findings.recompilations.guard_causes import (
    accepts_tensor,
    advice,
    advice_after_break,
    is_of_object,
    varying_sizes,
)
from fuselight_server.explain.findings.recompilations.size_remedies import (
    size_remedy,
    starts_small,
)
from fuselight_server.explain.findings.recompilations.specializations import (
    made_dynamic,
    what_holds_it,
)
from fuselight_server.explain.findings.recompilations.value_remedies import value_remedy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fuselight.shared.report import GuardFailure, Recompile
    from fuselight_server.explain.findings.common.context import Context

_MOST_CAUSES = 3
"""Causes that get advice in one finding."""
_CONSEQUENCES = frozenset({GuardCause.RELATION, GuardCause.STRIDE})
_ROOTS = (GuardCause.GLOBAL_STATE, GuardCause.CLASS)
"""Causes that make other guards fail: the first one that occurs is what to report."""


def root_failures(recompilation: Recompile) -> tuple[GuardFailure, ...]:
    """The failed guards, those first that explain others: a setting of torch, a class, the size of a parameter."""
    failures = nearest(recompilation)
    for cause in _ROOTS:
        guard_failures = tuple(failure for failure in failures if failure.cause is cause)
        if guard_failures:
            return guard_failures
    state = tuple(
        failure
        for failure in failures
        if failure.static is not None and failure.cause is GuardCause.DIMENSION
    )
    if given := _inputs_of_other_sizes(recompilation, state):
        state = (*given, *state)
    rest = [failure for failure in failures if failure not in state]
    # A relation between values says less than a value that changed, and a stride mostly follows from one.
    return (*state, *sorted(rest, key=lambda failure: failure.cause in _CONSEQUENCES))


def _inputs_of_other_sizes(
    recompilation: Recompile, state: tuple[GuardFailure, ...]
) -> tuple[GuardFailure, ...]:
    """The inputs whose sizes changed with those of the object's own tensors, if torch's first failed guard is on one.

    They are what the user passes, as the channels of the input of a block with other channels.
    """
    if not state or not recompilation.entries or not all(map(is_of_object, state)):
        return ()
    reasons = (
        reason
        for reason in recompilation.reasons
        if reason.startswith(f"{recompilation.entries[0].compile_id}: ")
    )
    first = next(reasons, "")
    given = tuple(
        failure
        for failure in nearest(recompilation)
        if failure.cause is GuardCause.DIMENSION and failure.static is None and not is_of_object(failure)
    )
    return given if any(f"tensor '{failure.source}'" in first for failure in given) else ()


def held_by(recompilation: Recompile, failure: GuardFailure) -> GuardFailure:
    """The failure whose remedy is that of a failure too: the size of an input is fixed by the object's own tensors."""
    if failure.cause is not GuardCause.DIMENSION or failure.static is not None:
        return failure
    state = (
        other
        for other in nearest(recompilation)
        if other.cause is GuardCause.DIMENSION and other.static is not None and is_of_object(other)
    )
    sizes = {(size.was, size.now) for size in failure.sizes}
    same = (other for other in state if not sizes.isdisjoint((size.was, size.now) for size in other.sizes))
    return next(same, failure)


def hints_of(
    context: Context,
    recompilation: Recompile,
    shown: GuardFailure,
    explained: Collection[GuardFailure] = (),
) -> tuple[str, ...]:
    """The hints for the failure that is shown, then for each other cause that no other finding reports."""
    out: list[str] = []
    causes: list[GuardCause] = []
    is_free = set(made_dynamic(context, recompilation, nearest(recompilation)))
    shown = held_by(recompilation, shown)
    for item in (shown, *(other for other in nearest(recompilation) if other not in (shown, *explained))):
        cause = item.cause
        if cause in causes or len(causes) == _MOST_CAUSES or not set(_ROOTS).isdisjoint(causes):
            continue
        if item is not shown and item.source in is_free:
            continue  # no later call compiles again for it
        causes.append(cause)
        words = remedies_for(context, recompilation, item)
        if item is shown:
            out += _with_other_guards(recompilation, item, words)
        elif words:
            named = item.source and item.source not in words[0]
            out.append(f"For {quoted(item.source)}: {words[0]}" if named else words[0])
    return tuple(dict.fromkeys(out))


def _with_other_guards(
    recompilation: Recompile, shown: GuardFailure, words: tuple[str, ...]
) -> tuple[str, ...]:
    """The advice on a class, which does not help alone where objects of the class differ in other ways too."""
    if shown.cause is not GuardCause.CLASS or not words or len(nearest(recompilation)) <= 1:
        return words
    return (*words[:-1], f"{words[-1]}. Here other guards failed too")


def remedies_for(context: Context, recompilation: Recompile, failure: GuardFailure) -> tuple[str, ...]:
    """What to do about one failed guard: the first that is known, from the most special to the cause alone."""
    uses = number_uses(context, recompilation, failure)
    is_free = not uses or accepts_tensor(uses)
    return (
        library_remedy(failure, recompilation.location)
        or size_remedy(context, recompilation, failure)
        or value_remedy(context, recompilation, failure, uses)
        or (what_holds_it(context, recompilation, failure) if is_free else ())
        or _by_read(context, failure)
        or _by_cause(context, recompilation, failure, uses)
    )


def _by_read(context: Context, failure: GuardFailure) -> tuple[str, ...]:
    """The advice for a value that a library reads, or a container that the line that reads it changes."""
    if failure.cause is GuardCause.NUMBER and _is_of_library(context, failure):
        return (
            f"Keep {quoted(failure.source)} the same: a library reads it, and each value needs its own compile",
        )
    if failure.cause is GuardCause.LENGTH and _is_grown_by_the_line(context, failure):
        grown = quoted(failure.source)
        return (f"Change {grown} outside the compiled code: return the value, and append it after the call",)
    return ()


def _by_cause(
    context: Context, recompilation: Recompile, failure: GuardFailure, uses: frozenset[Use]
) -> tuple[str, ...]:
    """The advice for the cause of a failed guard."""
    line = resumed_at(context, recompilation)
    is_other = bool(recompilation.entries) and recompilation.entries[0].other_object
    if line is not None:
        return advice_after_break(
            failure, line, _parameters(context, recompilation), uses=uses, other_object=is_other
        )
    also = other_sizes(context, recompilation, failure)
    return advice(
        failure,
        ours=context.is_user_file(recompilation.location.path),
        also=also,
        unmarked=unmarked_sizes(context, recompilation, failure, *also),
        uses=uses,
        other_object=is_other,
    )


def unmarked_sizes(
    context: Context, recompilation: Recompile, *failures: GuardFailure
) -> frozenset[tuple[str, int]]:
    """The sizes that were 0 or 1 at the first compile: a mark does not help."""
    return frozenset(size for size in varying_sizes(*failures) if starts_small(context, recompilation, size))


def number_uses(context: Context, recompilation: Recompile, failure: GuardFailure) -> frozenset[Use]:
    """What the user's function does with the number of a failed guard; empty if that is not known."""
    if failure.cause is not GuardCause.NUMBER or not failure.born:
        return frozenset()
    read = context.innermost_user_frame(failure.born)
    if read is None:
        return frozenset()
    names = tuple(
        filter(None, (failure.source, _text_at(context, read.path, read.line, read.column, read.end_column)))
    )
    is_within = read.path == recompilation.location.path and read.function == recompilation.location.function
    function = recompilation.location if is_within else context.def_above(read)
    return frozenset() if function is None else uses_of(context.read_line, function, names)


def _text_at(context: Context, path: str, line: int, column: int | None, end: int | None) -> str:
    if column is None or end is None:
        return ""
    source = (context.read_line(path, line) or "").encode("utf-8", "surrogateescape")
    return source[column:end].decode("utf-8", "replace").strip()


def _is_grown_by_the_line(context: Context, failure: GuardFailure) -> bool:
    """Whether the line that reads a container changes its length."""
    read = context.innermost_user_frame(failure.born)
    text = context.read_line(read.path, read.line) if read is not None else None
    return any(f"{failure.source}.{method}(" in (text or "") for method in _GROWING)


_GROWING = (
    "append",
    "extend",
    "insert",
    "appendleft",
    "pop",
    "popleft",
    "add",
    "update",
    "setdefault",
    "clear",
)


def _is_of_library(context: Context, failure: GuardFailure) -> bool:
    """Whether a library reads the value, so that no code of the user's can take a tensor instead."""
    return bool(failure.born) and not context.is_user_file(failure.born[-1].path)


def other_sizes(context: Context, recompilation: Recompile, shown: GuardFailure) -> tuple[GuardFailure, ...]:
    """The sizes that changed with the one that is shown, less those that something keeps fixed."""
    return tuple(
        other
        for other in nearest(recompilation)
        if other is not shown
        and other.cause is GuardCause.DIMENSION
        and other.static is None
        and not what_holds_it(context, recompilation, other)
    )


def is_of_other_object(recompilation: Recompile, failures: Collection[GuardFailure]) -> bool:
    """Whether nothing but another object of the class, with other sizes or parts, made the guards fail."""
    if not recompilation.entries or not recompilation.entries[0].other_object:
        return False
    sizes = {(size.was, size.now) for failure in failures if is_of_object(failure) for size in failure.sizes}
    own = [
        failure
        for failure in failures
        if not failure.sizes
        or not {(size.was, size.now) for size in failure.sizes} <= sizes
        or is_of_object(failure)
    ]  # an input has the size that the object's own tensors have
    return bool(own) and all(
        is_of_object(failure) and failure.cause not in {GuardCause.NUMBER, GuardCause.VALUE, GuardCause.CLASS}
        for failure in own
    )


def _parameters(context: Context, recompilation: Recompile) -> tuple[str, ...]:
    frames: Iterator[tuple[str, ...]] = (
        frame.parameters
        for frame in context.report.frames
        if (frame.function, frame.location) == (recompilation.function, recompilation.location)
    )
    return next(frames, ())
