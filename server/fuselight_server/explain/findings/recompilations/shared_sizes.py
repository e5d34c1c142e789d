"""One size that varies, in every function that it compiles again: one cause, with one cure for the whole program.

A batch of another size compiles a function again, each function that torch compiles separately inside it, and those
that get its results. Invariant: functions share a cause only if one calls the other, or if the same dimension of what
they are given changed between the same two values; two inputs that vary in other ways stay two causes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fuselight.shared.report import CureGoal, CureKind, GuardCause, GuardFailure, Recompile, SizeChange
from fuselight_server.base.formatting import format_list
from fuselight_server.base.remedies import FindingRemedy, RemedyState, advice
from fuselight_server.explain.findings.advice.advice import TriedAdvice, tried_remedies
from fuselight_server.explain.findings.common.compiled_callers import is_called_by
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import Root, nearest
from fuselight_server.explain.findings.common.text import quoted
from fuselight_server.explain.findings.recompilations.remedies import (
    candidates_for,
    expected,
    is_of_other_object,
)
from fuselight_server.explain.findings.recompilations.size_remedies import branch_on_size

_OF_SIZES = frozenset({GuardCause.DIMENSION, GuardCause.STRIDE, GuardCause.RELATION})


@dataclass
class SharedSize:
    """A size that varies, in the functions that were compiled again for it, the first that was called first."""

    groups: list[list[Root]] = field(default_factory=list)

    @property
    def first(self) -> Recompile:
        """The recompilation that shows the cause."""
        return self.groups[0][0].recompile

    @property
    def key(self) -> str:
        """What identifies the cause."""
        place = self.first.location
        changes = sorted({(size.name, size.dimension, size.was, size.now) for size in _sizes(self.groups[0])})
        return f"size\0{place.path}\0{place.line}\0{changes}"


def shared_sizes(context: Context, groups: Iterable[list[Root]]) -> list[SharedSize]:
    """The sizes that more than one finding is about."""
    causes: list[SharedSize] = []
    for group in groups:
        if not _is_of_a_size(context, group):
            continue
        cause = next((cause for cause in causes if _shares(context, cause, group)), None)
        if cause is None:
            causes.append(SharedSize([group]))
        else:
            cause.groups.append(group)
    return [cause for cause in causes if len(cause.groups) > 1]


def _is_of_a_size(context: Context, group: list[Root]) -> bool:
    """Whether nothing but sizes of what the function is given changed, and no branch decides on them."""
    for root in group:
        failures = nearest(root.recompile)
        if not failures or is_of_other_object(root.recompile, failures):
            return False
        if any(failure.cause not in _OF_SIZES or failure.static is not None for failure in failures):
            return False
        if any(branch_on_size(context, root.recompile, failure) is not None for failure in failures):
            return False
    return bool(_sizes(group))


def _sizes(group: list[Root]) -> list[SizeChange]:
    """The sizes that changed when the function was first compiled again."""
    return [size for failure in nearest(group[0].recompile) for size in failure.sizes]


def _shares(context: Context, cause: SharedSize, group: list[Root]) -> bool:
    return any(_calls(context, other, group) or _is_given_the_same(other, group) for other in cause.groups)


def _calls(context: Context, outer: list[Root], inner: list[Root]) -> bool:
    """Whether a function calls the other one, with sizes in the same proportion."""
    frame = context.frame_of(context.compile_of(outer[0].recompile.compile_id))
    if frame is None or not is_called_by(frame, inner[0].recompile):
        return False
    return any(
        (a.was * b.now == a.now * b.was and {0, 1}.isdisjoint((a.was, a.now, b.was, b.now)))
        or _change(a) == _change(b)
        for a in _sizes(outer)
        for b in _sizes(inner)
    )


def _is_given_the_same(group: list[Root], other: list[Root]) -> bool:
    """Whether the same changes of the same dimension, and no others, were seen in two functions."""
    both = [_sizes(group), _sizes(other)]
    changes, dimensions = (
        [{read(size) for size in sizes} for sizes in both] for read in (_change, lambda size: size.dimension)
    )
    return changes[0] == changes[1] and not dimensions[0].isdisjoint(dimensions[1])


def _change(size: SizeChange) -> tuple[int, int]:
    return size.was, size.now


def program_cures(context: Context, cause: SharedSize) -> tuple[TriedAdvice, ...]:
    """The changes to try against a size in all functions at once: their compiles are counted together."""
    rest = [item for item in _candidates(context, cause.groups[0]) if not item.cure.subjects]
    marks = [
        (group[0].recompile, item)
        for group in cause.groups
        for item in _candidates(context, group)
        if item.cure.kind is CureKind.MARK and not item.cure.outer_path
    ]
    together = [_together(marks)] if marks else []
    return tuple(
        dataclasses.replace(item, whose="", cure=dataclasses.replace(item.cure, goal=CureGoal.ALL_COMPILES))
        for item in (*together, *rest)
    )


def program_remedies(
    context: Context, cause: SharedSize, candidates: tuple[TriedAdvice, ...]
) -> tuple[FindingRemedy, ...]:
    """What to do about the size: what was tried and cures, else what to expect."""
    tried = tried_remedies(candidates, context.trials)
    if tried and tried[0].state is RemedyState.TRIED:
        return tried
    return (*advice(expected(context, cause.first, _failure(cause.first))), *tried)


def _candidates(context: Context, group: list[Root]) -> tuple[TriedAdvice, ...]:
    recompilation = group[0].recompile
    return candidates_for(context, recompilation, _failure(recompilation))


def _failure(recompilation: Recompile) -> GuardFailure:
    """The failed guard of a size."""
    return next(failure for failure in nearest(recompilation) if failure.sizes)


def _together(marks: list[tuple[Recompile, TriedAdvice]]) -> TriedAdvice:
    """The marks of what several functions are given, as one change."""
    items = {item.cure: (recompilation, item) for recompilation, item in marks}
    first, *others = items
    if not others:
        return marks[0][1]
    texts = (
        f"in calls of {quoted(recompilation.function)}: {_marked(item)}"
        for recompilation, item in items.values()
    )
    text = f"Mark the sizes as dynamic {'; '.join(texts)}"
    return TriedAdvice(text, dataclasses.replace(first, also=tuple(others)), marks[0][1].cost)


def _marked(item: TriedAdvice) -> str:
    pairs = (subject.removesuffix(")").rpartition(".size(") for subject in item.cure.subjects)
    return ", ".join(f"torch._dynamo.mark_dynamic({name}, {dimension})" for name, _, dimension in pairs)


def compiled_too(cause: SharedSize) -> Iterator[str]:
    """The functions that were compiled again for the same size, for the finding of the first."""
    names = dict.fromkeys(quoted(group[0].recompile.function) for group in cause.groups[1:])
    own = quoted(cause.first.function)
    others = [name for name in names if name != own]
    if others:
        verb = "was" if len(others) == 1 else "were"
        yield f"{format_list(others)} {verb} compiled again for it too"
