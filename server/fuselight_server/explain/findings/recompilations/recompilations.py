"""FL201: a frame compiled again, on the line whose read created the guard that failed.

Each new call is compared with the nearest cache entry (the one with the fewest failing guards) in which a guard failed
that failed in the most recent one, too: torch compares with that first. Invariant: one finding for each line and
guarded value, and for each named number of a function, however often it changed, and one for all that follows from one
graph break or one container; the differences of the later times are listed in order. A recompilation that the limit
stopped belongs to FL102.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator

from fuselight.shared.report import (
    Call,
    CallCure,
    Compile,
    CureKind,
    GuardCause,
    GuardFailure,
    Location,
    Recompile,
    Rung,
)
from fuselight_server.base.finding import Finding, Related, Severity
from fuselight_server.base.formatting import format_count, format_list
from fuselight_server.base.remedies import advised
from fuselight_server.explain.findings.advice.advice import with_joint_changes, worded
from fuselight_server.explain.findings.advice.duck_sizes import about_equal_sizes, fixed_as_one
from fuselight_server.explain.findings.advice.expectations import CARRIED, fixed_by_torch, is_of_object
from fuselight_server.explain.findings.common.changing_lines import changing_line
from fuselight_server.explain.findings.common.compiled_callers import is_called_in_compiled_code
from fuselight_server.explain.findings.common.context import Context, span_of
from fuselight_server.explain.findings.common.resume_functions import (
    Root,
    break_at,
    in_the_users_words,
    is_other_class,
    most_recent,
    nearest,
    resumed_at,
)
from fuselight_server.explain.findings.common.text import place, plain, rounded
from fuselight_server.explain.findings.common.unsteady_values import is_unsteady
from fuselight_server.explain.findings.common.value_writes import write_of
from fuselight_server.explain.findings.recompilations.dynamic_values import about_calculated, about_dynamic
from fuselight_server.explain.findings.recompilations.group_remedies import (
    cures_of_group,
    only_later,
    remedies_of_group,
)
from fuselight_server.explain.findings.recompilations.guard_explanations import (
    about_cached,
    about_dropped,
    about_static,
    freed_by,
    read_elsewhere,
    static_call,
)
from fuselight_server.explain.findings.recompilations.left_out import without_function
from fuselight_server.explain.findings.recompilations.own_state import state_step
from fuselight_server.explain.findings.recompilations.recompilation_groups import (
    RecompilationGroup,
    birthplace,
    read_place,
    recompilation_groups,
    recompile_seconds,
)
from fuselight_server.explain.findings.recompilations.recompile_limit import about_limit
from fuselight_server.explain.findings.recompilations.relation_words import difference_words, other_version
from fuselight_server.explain.findings.recompilations.remedies import (
    held_by,
    is_of_other_object,
    other_sizes,
    root_failures,
    unmarked_sizes,
)
from fuselight_server.explain.findings.recompilations.root_breaks import root_break
from fuselight_server.explain.findings.recompilations.shared_sizes import (
    compiled_too,
    program_cures,
    program_remedies,
)
from fuselight_server.explain.findings.recompilations.size_remedies import branch_on_size, varying_sizes
from fuselight_server.explain.findings.recompilations.specializations import fixing_line, is_held
from fuselight_server.explain.findings.recompilations.value_remedies import is_expected

_MAX_LISTED, _MAX_NAMED = 12, 3


def recompilation_findings(context: Context) -> Iterator[Finding]:
    """The findings of the report's recompilations."""
    return (_finding(context, group) for group in recompilation_groups(context))


def difference_of(context: Context, recompilation: Recompile, failure: GuardFailure | None = None) -> str:
    """The smallest difference or that of `failure`, as `x.size(0) was 4, now 7`; without a guard, torch's words."""
    failures = (failure,) if failure else nearest(recompilation)
    if failures:
        return difference_words(context, failures[0])
    return plain(recompilation.reasons[0]) if recompilation.reasons else "torch gives no reason"


def limit_filled_by(context: Context, stopped: Recompile | None) -> Recompile | None:
    """The last recompilation for what most versions differ in, which filled the limit; `stopped` if that differs too.

    The call that exceeds a limit may differ in what it needs once, as an evaluation after a counter had seven values.
    """
    if stopped is None:
        return None
    earlier = _earlier_versions(context, stopped)
    counts = Counter(_named_guard(context, item) for item in earlier)
    most, times = next(iter(counts.most_common(1)), ("", 0))
    if not most or 2 * times <= len(earlier) or most == _named_guard(context, stopped):
        return stopped
    return next(item for item in reversed(earlier) if _named_guard(context, item) == most)


def _earlier_versions(context: Context, stopped: Recompile) -> list[Recompile]:
    part = (stopped.location, resumed_at(context, stopped))
    versions = (item for item in context.report.recompiles if item.compile_id is not None)
    same = (item for item in versions if (item.location, resumed_at(context, item)) == part)
    return [in_the_users_words(context, item) for item in same]


def _named_guard(context: Context, recompilation: Recompile) -> str:
    failure = read_place(context, recompilation)[1]
    return subject_of(failure) if failure is not None else ""


def about_limit_call(context: Context, stopped: Recompile | None) -> str:
    """What differed in the call that exceeded the limit, after what filled it; empty for no such call."""
    if stopped is None:
        return ""
    exceeded = f"The call that exceeded it: {difference_of(context, stopped)}."
    filled = limit_filled_by(context, stopped)
    if filled is None or filled is stopped:
        return exceeded
    earlier, name = _earlier_versions(context, stopped), _named_guard(context, filled)
    times, words = (
        sum(_named_guard(context, item) == name for item in earlier),
        difference_of(context, filled),
    )
    if len(earlier) > 1:
        words = f"{words}; this value differed in {times} of {len(earlier)} recompilations"
    return f"What filled it: {words}. {exceeded}"


def _finding(context: Context, recompilations: RecompilationGroup) -> Finding:
    """One finding for the recompilations of a group.

    A batch of another size compiles several functions again. The first of their findings has the cure, counted in
    compiles of the program: with a cure for each, one change was shown several times and counted for one function.
    """
    group, shared, is_first = recompilations.roots, recompilations.shared, recompilations.is_first
    recompilation = group[0].recompile
    home, failure = read_place(context, recompilation)
    causes = (static_call(context, *_guard_of(context, root)) for root in group)
    home = next(filter(None, causes), home)
    difference = difference_of(context, recompilation, failure) + freed_by(context, failure)
    line = resumed_at(context, recompilation)
    what = _compiled_code(recompilation, failure, line)
    fixes, data = _fix(context, recompilation, failure)
    expected = all(is_expected_root(context, root) for root in group)
    candidates = program_cures(context, shared) if shared is not None else ()
    remedies = (
        program_remedies(context, shared, candidates)
        if shared is not None and candidates
        else remedies_of_group(context, group, failure)
    )
    cures = cures_of_group(context, group, failure) if shared is None else ()
    before = root_break(context, recompilation, failure)
    cures = worded(candidates) if candidates and is_first else cures
    remedies = with_joint_changes(remedies, cures, context.trials)
    if all(cure in context.trials for cure in cures):
        remedies, more = without_function(context, recompilation, failure, remedies)
        cures = (*cures, *more)
    return context.finding(
        "FL201",
        f"recompiled: {difference}",
        f"{what[0].upper()}{what[1:]} was compiled again because {_why(failure)}.",
        _about_object(recompilation, failure),
        before.about_part() if before is not None else "",
        about_cached(context, failure),
        about_dropped(failure),
        _about_unsteady(failure),
        about_static(context, home),
        _about_equal_sizes(context, recompilation, failure),
        about_limit(context, recompilations.own),
        about_dynamic(context, [root.recompile for root in group]),
        about_calculated(root.recompile for root in group),
        *_others(context, recompilation, failure),
        _later(context, group, home, difference_of(context, recompilation, failure)),
        _listed("Guards that failed with them", _unlisted(context, group)),
        at=home,
        severity=Severity.INFORMATION if expected else None,
        cost=_costs(context, recompilations, what),
        hints=remedies,
        call=recompilation.call,
        related=tuple(_related(context, recompilation, home)),
        subject=subject_of(failure) if failure is not None else "",
        cause=shared.key if shared else _shared_cause(context, recompilation, failure, advised(remedies)),
        is_consequence=not is_first,
        follows=Related(span_of(before.at), before.words(home)) if before is not None else None,
        count=_times(context, group),
        recompilations=len(recompilations.counted) if is_first else 0,
        recompile_seconds=recompile_seconds(context, recompilations.counted) if is_first else 0.0,
        fixes=fixes,
        data=(*data, *_cured_by(context, cures), *_is_inner(context, recompilation)),
        cures=cures,
    )


def _guard_of(context: Context, root: Root) -> tuple[Recompile, GuardFailure | None]:
    return root.recompile, read_place(context, root.recompile)[1]


def _is_inner(context: Context, recompilation: Recompile) -> tuple[tuple[str, str], ...]:
    """Whether it is a function that the target calls: its variables are none of the target's call."""
    first = next((frame.location for frame in context.report.frames), recompilation.location)
    return (("frame", "inner"),) if first != recompilation.location else ()


def _compiled_code(recompilation: Recompile, failure: GuardFailure | None, resumed_line: int | None) -> str:
    """What was compiled again, in words."""
    if failure is not None and failure.cause is GuardCause.WRAPPED:
        return f"the wrapper around `{failure.now}`"
    name = f"`{plain(recompilation.function)}`"
    return (
        name if resumed_line is None else f"the part of {name} after the graph break on line {resumed_line}"
    )


def _why(failure: GuardFailure | None) -> str:
    if failure is not None and failure.cause is GuardCause.WRAPPED:
        return f"its compiled code is for another function, `{failure.was}`"
    if failure is not None and failure.cause is GuardCause.DELETED:
        return "torch dropped its compiled code, which is valid only while that object exists"
    return "a guard failed: a condition that its compiled code relies on"


def _about_object(recompilation: Recompile, failure: GuardFailure | None) -> str:
    """What a reader needs to know of the object that the function belongs to."""
    if failure is not None and failure.cause is GuardCause.CLASS and failure.defined is not None:
        return f"The class is created again by each run of its `class` statement, on line {failure.defined.line}."
    if failure is not None and failure.cause is GuardCause.WRAPPED:
        return "Functions under one decorator share the compiled versions of its wrapper, and one recompile limit."
    is_other = bool(recompilation.entries) and recompilation.entries[0].other_object
    if any(map(is_other_class, nearest(recompilation))):
        return "It was called on an object of another class than the compiled version."
    is_carried = failure is not None and CARRIED in failure.code
    if is_other and failure is not None and not is_carried and is_of_object(held_by(recompilation, failure)):
        return "It was called on another object than the compiled version: the class is the same."
    return ""


def _about_equal_sizes(context: Context, recompilation: Recompile, failure: GuardFailure | None) -> str:
    """Say that the size was taken for one with others, which the version before fixed."""
    if failure is None or not recompilation.entries:
        return ""
    before = context.compile_of(recompilation.entries[0].compile_id)
    return about_equal_sizes(before, fixed_as_one(context, recompilation, failure))


def _about_unsteady(failure: GuardFailure | None) -> str:
    """Two short examples of a number that differs in each call."""
    if failure is None or not is_unsteady(failure) or "." not in f"{failure.was}{failure.now}":
        return ""  # digits of an address say nothing
    values = rounded(dataclasses.replace(failure, difference=f"{failure.was} and {failure.now}"))
    return f"Two of its values are {values}."


def _later(context: Context, group: list[Root], home: Location, first: str) -> str:
    """The later differences, equal ones once; that of the title in words of its own."""
    again = "the same change, for another compiled version"
    texts = []
    for root in group[1:]:
        at, failure = birthplace(context, root.recompile)
        where = "" if (at.path, at.line) == (home.path, home.line) else f" (read on {_line_words(at, home)})"
        version = other_version(context, root.recompile, failure)
        texts.append(difference_of(context, root.recompile, failure) + where + version)
    if any(map(is_unsteady, root_failures(context, group[0].recompile)[:1])):
        texts = [text for text in texts if text != first]  # which the title says
    counted = Counter(again if text == first else text for text in texts)
    return _listed("Later changes", [f"{text} ({n} times)" if n > 1 else text for text, n in counted.items()])


def _line_words(at: Location, home: Location) -> str:
    return f"line {at.line}" if at.path == home.path else place(at)


def _cured_by(context: Context, cures: tuple[CallCure, ...]) -> tuple[tuple[str, str], ...]:
    """What an example in the hover needs to know: which kinds of change were tried, and cure."""
    tried = (context.trials.get(cure) for cure in cures)
    kinds = dict.fromkeys(trial.cure.kind for trial in tried if trial is not None and trial.cures)
    accepts = (("accepts", "tensor"),) if CureKind.TENSOR in kinds else ()
    return (*accepts, *(("cured", kind.value) for kind in kinds))


def _shared_cause(
    context: Context, recompilation: Recompile, failure: GuardFailure | None, hints: tuple[str, ...]
) -> str:
    """What recompilations on several lines share where one read in a library made the guards that failed.

    The same code was compiled again, for the same guarded value, with the same advice.
    """
    if failure is None or not failure.born or context.innermost_user_frame(failure.born) is not None:
        return ""
    read, code = failure.born[-1], recompilation.location
    parts = (
        read.path,
        read.line,
        read.column,
        code.path,
        code.line,
        recompilation.function,
        resumed_at(context, recompilation),
    )
    guard = (failure.source, failure.cause.value, failure.kind)
    return "\0".join(map(str, (context.report.target.path, *parts, *guard, *hints)))


def subject_of(failure: GuardFailure) -> str:
    """The guarded value and what differed; a value that a break carried over has no name that stays."""
    if CARRIED in failure.code:
        return failure.cause.value
    size = failure.sizes[0] if failure.sizes else None
    return f"{failure.cause.value} {f'{size.name}.size({size.dimension})' if size else failure.source}"


def is_expected_root(context: Context, root: Root) -> bool:
    """Whether nothing differs but what has to be compiled separately.

    A size of 0 or 1, a side of a branch, a grad mode, the first state of an optimizer, the object of the class.
    """
    recompilation = root.recompile
    if state_step(context, recompilation) is not None:
        return False
    failures = [failure for failure in nearest(recompilation) if failure not in root.explained]
    if is_of_other_object(recompilation, failures):
        return True
    shown = root_failures(context, recompilation)
    if shown and all(is_expected(recompilation, failure) for failure in shown):
        return True
    return bool(failures) and all(
        (fixed_by_torch(failure) and failure.count == 1)
        or branch_on_size(context, recompilation, failure) is not None
        or is_expected(recompilation, failure)
        for failure in failures
    )


def _costs(context: Context, recompilations: RecompilationGroup, what: str) -> Iterator[str]:
    """What was compiled again, how often in all, and how long that took."""
    group, shared = recompilations.roots, recompilations.shared
    times, total = _times(context, group), len(recompilations.counted)
    yield f"{what} was compiled {'once more' if times == 1 else f'{times} more times'}"
    yield from _parts(context, group)
    yield from _wrappers(group)
    if shared is not None and recompilations.is_first:
        yield from compiled_too(shared)
    if total > times:
        yield f"{format_count(total, 'recompilation')} in all"
    yield from _seconds(context, recompilations.counted)


def _times(context: Context, group: list[Root]) -> int:
    """How often the function was compiled again, or the part of it that the group is about."""
    own = resumed_at(context, group[0].recompile)
    return len(group) + sum(resumed_at(context, part) == own for root in group for part in root.parts)


def _parts(context: Context, group: list[Root]) -> Iterator[str]:
    """The parts after breaks that had to follow."""
    own = resumed_at(context, group[0].recompile)
    resumed = (resumed_at(context, part) for root in group for part in root.parts)
    lines = sorted({line for line in resumed if line is not None} - {own})
    if lines:
        is_one = len(lines) == 1
        whose = "its" if own is None else "the" if is_one else "the other"
        noun, verb, mark = ("part", "was", "line") if is_one else ("parts", "were", "lines")
        shown = format_list(map(str, lines))
        yield f"{whose} {noun} after the graph break{'' if is_one else 's'} on {mark} {shown} {verb} compiled again too"


def _wrappers(group: list[Root]) -> Iterator[str]:
    """The decorators that were compiled again for the same arguments."""
    names = dict.fromkeys(f"`{plain(wrapper.function)}`" for root in group for wrapper in root.wrappers)
    if names:
        verb = "was" if len(names) == 1 else "were"
        yield f"{format_list(list(names))}, around it, {verb} compiled again too"


_COMPILED_BY_USER = frozenset({Rung.PROGRAM, Rung.KERNEL, Rung.TRACE})
"""Rungs whose calls the user's own backend has compiled."""


def _seconds(context: Context, group: list[Recompile]) -> Iterator[str]:
    spent = recompile_seconds(context, group)
    if spent >= 0.1:  # noqa: PLR2004 - below a tenth of a second the tracing time is noise
        inputs = context.report.inputs
        is_whole = inputs is not None and inputs.rung in _COMPILED_BY_USER
        what = "compiling" if is_whole else "tracing, plus code generation with a real backend"
        yield f"{spent:.1f} s of {what}"


def _others(context: Context, recompilation: Recompile, shown: GuardFailure | None) -> Iterator[str]:
    """The other failing guards of the compared entry, and how many entries there were."""
    title = shown.difference if shown is not None else ""
    rest = [failure for failure in nearest(recompilation) if failure.difference != title]
    if shown is not None and shown.cause is GuardCause.DELETED:
        changed = [f"{plain(failure.difference)}{changing_line(context, failure)}" for failure in rest]
        yield _listed("Values that also changed", changed)
    else:
        yield _listed("Other failed guards", _merged(context, rest))
    if len(recompilation.entries) > 1:
        versions = format_count(len(recompilation.entries), "compiled version")
        recent = most_recent(recompilation).compile_id == recompilation.entries[0].compile_id
        yield f"{versions} existed; the comparison is with the {'most recent' if recent else 'nearest'}."


def _merged(context: Context, failures: list[GuardFailure]) -> list[str]:
    """The differences; sizes and numbers that changed in the same way are one."""
    groups: dict[tuple[object, ...], list[GuardFailure]] = {}
    for failure in failures:
        same = failure.count == 1 and failure.cause is GuardCause.DIMENSION and failure.sizes
        key = (failure.cause, failure.was, failure.now) if same else (failure.source, failure.difference)
        group = groups.setdefault(key, [])
        if failure.difference not in {known.difference for known in group}:
            group.append(failure)
    out = []
    for group in groups.values():
        first = difference_words(context, group[0])
        more = format_count(len(group) - 1, "more size")
        out.append(f"{first}; {more} changed in the same way" if len(group) > 1 else first)
    return out


def _unlisted(context: Context, group: list[Root]) -> list[str]:
    """The guards that failed in later recompilations only, without those that the later changes name."""
    shown = {difference_of(context, root.recompile, birthplace(context, root.recompile)[1]) for root in group}
    return _merged(
        context, [item for _, item in only_later(group) if difference_words(context, item) not in shown]
    )


def _listed(head: str, items: list[str]) -> str:
    """Items under a heading, at most `_MAX_LISTED`; empty for none."""
    lines = [f"- {item}" for item in items[:_MAX_LISTED]]
    if len(items) > _MAX_LISTED:
        lines.append(f"- and {len(items) - _MAX_LISTED} more")
    return "\n".join([f"{head}:", *lines]) if items else ""


def _fix(
    context: Context, recompilation: Recompile, failure: GuardFailure | None
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """`mark_dynamic` where sizes varied of arguments that the user named; what a break carried over is none.

    It is for all sizes that varied together or for none: torch refuses to mark one that has to equal a fixed one.
    """
    if failure is None or not _may_be_marked(context, recompilation, failure):
        return (), ()
    failures = (failure, *other_sizes(context, recompilation, failure))
    unmarked = unmarked_sizes(context, recompilation, *failures)
    sizes = tuple(size for size in varying_sizes(*failures) if size not in unmarked)
    if not sizes or not all(name.isidentifier() for name, _ in sizes):
        return (), ()
    data = [pair for name, size in sizes for pair in (("parameter", name), ("dimension", str(size)))]
    return ("mark_dynamic",), tuple(data)


def _may_be_marked(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    """Whether a mark of the size is possible, and saves a compile."""
    if (
        failure.cause is not GuardCause.DIMENSION
        or fixed_by_torch(failure)
        or held_by(recompilation, failure).static is not None
    ):
        return False
    if resumed_at(context, recompilation) is not None or not context.is_user_file(
        recompilation.location.path
    ):
        return False
    return (
        not is_called_in_compiled_code(context.report, recompilation)
        and not is_held(context, recompilation, failure)
        and branch_on_size(context, recompilation, failure) is None
    )


def _related(context: Context, recompilation: Recompile, home: Location) -> Iterator[Related]:
    """The call that brought the new value, the compile that it was compared with, the function itself."""
    call = _call_above(context, recompilation, home)
    calls = context.report.inputs.calls if context.report.inputs else ()
    compiling_call = next((item for item in calls if item.index == recompilation.call), None)
    before = _earlier_call(context, recompilation, calls, home)
    if call is not None:
        both = before == call
        more = ", as was the earlier compile" if both else ""
        yield Related(span_of(call), f"triggered {_by(context, recompilation, call)} this call{more}")
        before = None if both else before
    elif compiling_call is not None and compiling_call.location is not None:
        yield Related(span_of(compiling_call.location), f"triggered by this call, {compiling_call.text}")
    if before is not None:
        by = _by(context, recompilation, before)
        yield Related(span_of(before), f"the earlier compile was triggered {by} this call")
    line = resumed_at(context, recompilation)
    if line is not None and line != home.line:
        yield Related(
            span_of(break_at(context, recompilation, line)),
            "the code after this graph break is compiled separately",
        )
    failure = birthplace(context, recompilation)[1]
    if failure is not None:
        yield from _related_to(context, recompilation, failure, home)
    if (recompilation.location.path, recompilation.location.line) != (home.path, home.line):
        yield Related(
            span_of(recompilation.location), f"`{plain(recompilation.function)}` was compiled again"
        )


def _related_to(
    context: Context, recompilation: Recompile, failure: GuardFailure, home: Location
) -> Iterator[Related]:
    """The places that explain the guard: what fixes the value, what freed it, its class, and a library's read."""
    fixes = fixing_line(context, recompilation, failure)
    equal = fixed_as_one(context, recompilation, failure)
    if fixes is None and equal is not None:
        fixes = context.innermost_user_frame(equal.stack)
    if fixes is not None and (fixes.path, fixes.line) != (home.path, home.line):
        yield Related(span_of(fixes), "this line fixes it to one value")
    write = write_of(context, recompilation, failure)
    if write is not None and (write.place.path, write.place.line) != (home.path, home.line):
        who = "a scheduler sets it here" if write.by_scheduler else "it is assigned here"
        yield Related(span_of(write.place), who)
    dropped = context.innermost_user_frame(failure.dropped)
    if dropped is not None:
        yield Related(span_of(dropped), f"{plain(failure.difference)} here")
    yield from read_elsewhere(context, failure, home)
    if failure.defined is not None:
        yield Related(span_of(failure.defined), "the class is created again here")
    if failure.born and not context.is_user_file(failure.born[-1].path):
        yield Related(span_of(failure.born[-1]), "a read in a library created the guard")


_CALLED_BY_TORCH = frozenset({"forward", "__call__"})
"""Functions whose callers in torch are what a log leaves out of the stack."""


def _by(context: Context, recompilation: Recompile, call: Location) -> str:
    """`by` of the line that calls the function; `during` of one that a log names, and that may be further out.

    torch leaves the two innermost frames out of the stacks in its logs.
    """
    inputs, name = context.report.inputs, plain(recompilation.function).rpartition(".")[2]
    is_logged = inputs is not None and inputs.rung is Rung.TRACE
    if not is_logged or name in _CALLED_BY_TORCH or resumed_at(context, recompilation) is not None:
        return "by"
    is_called = re.search(rf"\b{re.escape(name)}\s*\(", context.read_line(call.path, call.line) or "")
    return "by" if is_called else "during"


def _call_above(context: Context, recompilation: Recompile | Compile, home: Location) -> Location | None:
    """The nearest line of the user's on the stack above a frame that is another one than the finding's."""
    user = (place for place in reversed(recompilation.caller) if context.is_user_file(place.path))
    return next((place for place in user if (place.path, place.line) != (home.path, home.line)), None)


def _earlier_call(
    context: Context, recompilation: Recompile, calls: tuple[Call, ...], home: Location
) -> Location | None:
    """The call that the compile it is compared with was for, where it is known."""
    earlier = context.compile_of(recompilation.entries[0].compile_id) if recompilation.entries else None
    if earlier is None:
        return None
    before = _call_above(context, earlier, home)
    if before is None and earlier.call != recompilation.call:
        before = next((item.location for item in calls if item.index == earlier.call), None)
    return before
