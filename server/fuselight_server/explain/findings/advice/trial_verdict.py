"""Whether a cure cures: the report of a run with it, against that of the same calls without it.

Invariant: a cure passes only if the function is compiled less often, the program is not compiled more often, and each
line that ran inside a graph runs there as often as before; a higher recompile limit, if no call of the function is left
in eager mode. A break that it uncovers in code that ran in eager mode before is the next one, and no objection. A run
that cannot be compared passes nothing. Against a break in code that stays in eager mode all the same, only what brings
more operators into graphs is a cure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import PurePath

from fuselight.shared.report import (
    REPLACED,
    Break,
    CallCure,
    CureGoal,
    CureKind,
    CureTrial,
    GuardCause,
    GuardFailure,
    NextBreak,
    NotCompiledKind,
    Recompile,
    Report,
    Stack,
    TrialCounts,
    is_installed,
)
from fuselight_server.base.formatting import format_count, format_list
from fuselight_server.base.remedies import FindingRemedy, RemedyState, in_order
from fuselight_server.explain.findings.advice.break_cures import IGNORED, LOGGING_SETTINGS, OF_VALUES
from fuselight_server.explain.findings.advice.expectations import ZERO_OR_ONE, fixed_by_torch
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.counts import break_groups
from fuselight_server.explain.findings.common.resume_functions import (
    nearest,
    resumed_at,
    worded_recompilations,
)
from fuselight_server.explain.findings.common.text import label, plain

_LIMITS = frozenset({NotCompiledKind.RECOMPILE_LIMIT, NotCompiledKind.ACCUMULATED_LIMIT})
_ROUNDING = 1e-3
"""By how much sums may differ: a number as a tensor is rounded to the default dtype."""
_OF_DYNAMIC_FLOATS = "torch.scalar_tensor"
"""The call with which a graph returns a dynamic float: as a tensor, the float needs none."""
_STILL_BROKEN = "the line breaks the graph all the same"
_MORE_BREAKS = "other lines then break the graph more often"
_OTHER_BREAK = "it breaks the graph on "
_BY_POSITION = "[list("
"""How torch names an element of a dict; the text of the line that names it as the user does is not here."""
MOVED_BREAKS = (_MORE_BREAKS, _OTHER_BREAK)
"""How the refusals begin of a change after which another line breaks the graph."""
_STILL = "there are still "
_STILL_EAGER = "the code after it stays in eager mode, and no more operators run inside graphs"
_WITHOUT_GAIN = (_STILL, _STILL_BROKEN, _STILL_EAGER)
"""How the refusals begin of a change that harms nothing."""
NOT_APPLIED = "no call of a compiled function has this value"
Line = tuple[str, int]
"""A file and a line of it."""


def trial_of(
    cure: CallCure,
    without: Report,
    cured: Report,
    read_line: Callable[[str, int], str | None] | None = None,
) -> CureTrial:
    """Compare the two runs. `read_line`: the text of lines, which names the values that a break carries over."""
    if (answer := _ANSWERS.get(cure.kind)) is not None:
        return answer(cure, without, cured)
    count = _COUNTS[cure.goal]
    before, after = count(without, cure), count(cured, cure)
    uncovered = _uncovered(cure, without, cured)
    refused = next(_objections(cure, without, cured, uncovered), "")
    if cure.goal is CureGoal.LIMITED:
        refused = refused or ("the limit is reached all the same" if _is_limited(cured, cure) else "")
    elif not refused and after >= before:
        refused = _STILL_BROKEN
        if cure.goal is not CureGoal.BREAKS:
            count_words = f"{_STILL}{after}" if after == before else f"there are {after} in place of {before}"
            again = _still_recompiled(cure, Context.of(cured, read_line=read_line))
            refused = f"{count_words} {cure.goal.value}{again}"
    is_of_compiles = cure.goal in {CureGoal.COMPILES, CureGoal.ALL_COMPILES}
    if cure.goal is CureGoal.BREAKS:
        if not refused and any(
            _breaks_on(cured, line) >= max(_breaks_on(without, line), 1) for line in _lines_of(cure)
        ):
            refused = _STILL_BROKEN  # of several lines, each has to be rid of a break
        elif not refused and _breaks_more_often(cure, without, cured, uncovered):
            refused = _MORE_BREAKS
        elif not refused and not uncovered:
            refused = _gains_nothing(cure, without, cured)
        # Those of the whole run: of several breaks, that of one line is not what is left.
        before = _count_breaks(without.breaks)
        after = _count_breaks(cured.breaks) - _count_breaks(uncovered)
    if not refused and is_of_compiles and len(cured.compiles) > len(without.compiles):
        refused = "other functions are compiled more often"
    counts = cured.trial
    is_made = counts is not None and (not counts.refused or counts.is_unfit) and refused != NOT_APPLIED
    (was, parts), (now, parts_now) = _guard_counts(without), _guard_counts(cured)
    stays = tuple(key for key, count in (was + parts).items() if (now + parts_now)[key] >= count)
    gone = () if now - was else tuple(guard for guard in was if not now[guard])
    return CureTrial(
        *(cure, before, after, refused),
        is_made=is_made,
        stays=stays,
        gone=gone,
        frees_limit=_is_limited(without, cure) and not _is_limited(cured, cure),
        recompiled_before=_count_recompilations(without),
        recompiled=_count_recompilations(cured),
        next=tuple(dict.fromkeys(map(_next_break, uncovered))),
        breaks=_count_breaks(cured.breaks),
        compiles=len(cured.compiles),
        operators=_line_runs(cured, counts).total() if counts is not None else 0,
    )


def _without_compiling(cure: CallCure, without: Report, cured: Report) -> CureTrial:
    """What eager mode does with the calls up to one that fails when it is compiled: it works, or fails, and where."""
    failure, why = next(iter(cured.failures), None), ""
    if failure is not None:
        place = Context.of(cured).innermost_user_frame(failure.stack)
        is_same = place is not None and (place.path, place.line) == (cure.path, cure.line)
        where = "this line, too" if is_same or place is None else _shown(cure, (place.path, place.line))
        is_known = any(failure.message == known.message for known in without.failures)
        why = f"the program fails on {where}{'' if is_known else f': {failure.message}'}"
    is_made = cured.trial is not None and cured.trial.changed > 0
    return CureTrial(cure, 1, int(bool(why)), why, is_made=is_made)


def _without_fullgraph(cure: CallCure, without: Report, cured: Report) -> CureTrial:
    """Which other lines break the graph, where torch does not stop at the first one."""
    counts, failure = cured.trial, next(iter(cured.failures), None)
    why = f"the program then fails: {failure.message}" if failure is not None else ""
    known_lines = {*map(_innermost, without.breaks), *_lines_of(cure)}
    others = (item for item in cured.breaks if item.stack and _innermost(item) not in known_lines)
    known = {(item.path, item.line): item for item in map(_next_break, others)}
    is_made = counts is not None and counts.changed > 0
    return CureTrial(cure, 1, int(bool(why)), why, is_made=is_made, next=tuple(known.values()))


_ANSWERS = {CureKind.EAGER: _without_compiling, CureKind.FULLGRAPH: _without_fullgraph}
"""By changes that only tell more of a failure."""


def is_harmless(trial: CureTrial) -> bool:
    """Whether a change helps, or harms nothing: together with another one it may help. One for a break may move it."""
    without_gain = (*_WITHOUT_GAIN, *MOVED_BREAKS) if trial.cure.goal is CureGoal.BREAKS else _WITHOUT_GAIN
    return trial.is_made and (trial.cures or trial.refused.startswith(without_gain))


def trials_of(context: Context, recompilation: Recompile, failure: GuardFailure) -> dict[CallCure, CureTrial]:
    """The trials as those of one failed guard: what saves compiles of other guards or parts alone does not cure it."""
    own = {_guard(recompilation, failure), _part(context, recompilation)}
    return {
        cure: replace(trial, refused=_STAYS) if trial.cures and not own.isdisjoint(trial.stays) else trial
        for cure, trial in context.trials.items()
    }


def _still_recompiled(cure: CallCure, cured: Context) -> str:
    """What compiles the function again with the cure too: `; with it, torch compiles again because ...`."""
    failures = [
        failure
        for item in worded_recompilations(cured)
        if (item.location.path, item.location.line) == (cure.path, cure.line)
        for failure in nearest(item)[:1]
    ]
    first = next(filter(fixed_by_torch, failures), next(iter(failures), None))
    if first is None or not first.difference or _BY_POSITION in first.difference:
        return ""
    rule = f" ({ZERO_OR_ONE})" if fixed_by_torch(first) else ""
    return (
        f"; with it, torch compiles again because {label(plain(first.difference.partition('; ')[0]))}{rule}"
    )


_STAYS = "it saves another recompilation, and this one stays"


def removed_breaks(
    context: Context, recompilation: Recompile, failure: GuardFailure
) -> tuple[FindingRemedy, ...]:
    """The change against graph breaks with which a guard no longer fails, as its trial shows; the best of several.

    The parts of the function that were compiled again in the same call have to go, too.
    """
    guard, is_part = _guard(recompilation, failure), resumed_at(context, recompilation) is not None
    parts = sum(
        (item.location, item.call) == (recompilation.location, recompilation.call)
        and item.compile_id is not None
        and (resumed_at(context, item) is not None) >= is_part
        for item in context.report.recompiles
    )
    shown = (
        FindingRemedy(
            f"Remove {_breaks_in_words(trial.cure, recompilation)}: {trial.cure.text[:1].lower()}{trial.cure.text[1:]}",
            RemedyState.TRIED,
            counts=f"{trial.recompiled_before} → {trial.recompiled} recompilations",
            cost=trial.cure.cost,
            left=(1, trial.breaks, trial.after, trial.compiles, -trial.operators),
        )
        for trial in context.trials.values()
        if trial.cure.goal is CureGoal.BREAKS
        and trial.cures
        and guard in trial.gone
        and trial.recompiled_before - trial.recompiled >= parts
    )
    return in_order(shown)[:1]


def _breaks_in_words(cure: CallCure, recompilation: Recompile) -> str:
    lines = dict.fromkeys(
        str(line) if path == recompilation.location.path else f"{PurePath(path).name}:{line}"
        for path, line in sorted(_lines_of(cure))
    )
    noun, where = ("break", "line") if len(lines) == 1 else ("breaks", "lines")
    return f"the graph {noun} on {where} {format_list(list(lines))}"


def _count_recompilations(report: Report) -> int:
    return sum(item.compile_id is not None for item in report.recompiles)


def _guard_counts(report: Report) -> tuple[Counter[str], Counter[str]]:
    """How many recompilations each guard caused, and how many each function and each of its parts had."""
    context = Context.of(report)
    again = worded_recompilations(context)
    guards = (guard for item in again for guard in {_guard(item, failure) for failure in nearest(item)})
    return Counter(guards), Counter(_part(context, item) for item in again)


def _part(context: Context, recompilation: Recompile) -> str:
    place = recompilation.location
    return f"{place.path}:{place.line} after line {resumed_at(context, recompilation)}"


def _guard(recompilation: Recompile, failure: GuardFailure) -> str:
    """What identifies a guard in two runs. Of a relation the line does: dynamic values change how torch writes it."""
    place = failure.born[-1] if failure.born else recompilation.location
    is_named = failure.expression and failure.cause is not GuardCause.RELATION
    guarded = failure.expression if is_named else f"{place.path}:{place.line}"
    return f"{recompilation.location.path}:{recompilation.location.line} {failure.cause.value} {guarded}"


def _objections(cure: CallCure, without: Report, cured: Report, uncovered: Sequence[Break]) -> Iterator[str]:
    old, new = without.trial, cured.trial
    if old is None or new is None:
        yield "a run ended early"
        return
    if new.refused:
        yield f"it cannot be applied: {new.refused}"
    if cure.kind is not CureKind.SETTING and not new.changed:
        yield NOT_APPLIED
    yield from new_failures(without, cured)
    if new.calls != old.calls and not without.failures:
        yield "the program makes other calls each time"
    if without.failures:  # the run with the cure may go further
        again = _count_recompilations(cured) - _count_recompilations(without)
        if 2 * again > max(new.calls - old.calls, 0):  # each second further call, or more, compiles again
            yield f"the run then goes on, with {format_count(again, 'more recompilation')}"
        state = new.state if cured.failures else old.state  # of later lines, where the run goes on
        new = replace(new, results=new.results[: len(old.results)], state=state)
    yield from _other_results(cure, old, new)
    yield from _uncompiled(cure, without, cured, uncovered)
    if CureKind.NUMBER in {part.kind for part in cure.changes}:
        return  # what is calculated of numbers alone is in no graph
    after, once = _line_runs(cured, new), _lines_of_first_compiles(cure, without)
    left_out = next((part for part in cure.changes if IGNORED in part.settings or part.left_out[1]), None)
    for line, count in _line_runs(without, old, left_out).items():
        if after[line] < count and line not in once:
            yield f"{_shown(cure, line)} then runs outside of graphs{_for_limit(cured)}"


def _for_limit(cured: Report) -> str:
    """Why lines run in eager mode where a function has reached the recompile limit."""
    limited = next((item for item in cured.not_compiled if item.kind in _LIMITS), None)
    return f", as `{plain(limited.function)}` reaches the recompile limit" if limited is not None else ""


def _other_results(cure: CallCure, old: TrialCounts, new: TrialCounts) -> Iterator[str]:
    """What the calls return or leave otherwise than before."""
    kinds = {part.kind for part in cure.changes}
    if CureKind.DTYPE not in kinds and not same_results(old, new):
        yield "the results differ"
    if not kinds.isdisjoint(_OF_STATE):
        yield from _other_state(cure, old, new)
    if CureKind.FIRST_CALL in kinds and not _same_sums(old.kept, new.kept):
        yield "one more call leaves other values in a tensor"


def same_results(old: TrialCounts, new: TrialCounts) -> bool:
    """Whether the calls returned tensors with the same sums, but for rounding."""
    return len(old.results) == len(new.results) and all(
        _same_sums(before, after) for before, after in zip(old.results, new.results, strict=True)
    )


def _other_state(cure: CallCure, old: TrialCounts, new: TrialCounts) -> Iterator[str]:
    """What the calls leave otherwise than before, but for the changed values themselves, and what differs by use."""
    if new.keys > old.keys:
        yield "a key is then a tensor, which equals no other key"
    if new.texts > old.texts:
        yield "a text then shows a tensor"
    changed = tuple(
        match[1] for part in cure.changes for item in part.subjects for match in _LAST.finditer(item)
    )
    is_stacked = CureKind.STACK in {part.kind for part in cure.changes}
    for name in sorted({**old.state, **new.state}):
        was, now = old.state.get(name), new.state.get(name)
        owner = _ELEMENT.sub("", name) if is_stacked else name  # a tensor has no elements here
        if now in {was, REPLACED} or _is_changed(name, changed) or _is_changed(owner, changed):
            continue
        kind = next((kind for kind in _OF_COLLECTIONS if name.startswith(kind)), "")
        shown = name[len(kind) :]
        if kind:
            yield f"`{shown}` then has {_OF_COLLECTIONS[kind]}"
        else:
            yield f"`{shown}` is then {now if now == _TENSOR else 'another value'}"


def _is_changed(name: str, changed: tuple[str, ...]) -> bool:
    """Whether a value is the changed one, by its last name: several objects may have it."""
    last = _LAST.search(name)
    return last is not None and last[1] in changed


_LAST = re.compile(r"(\w+)['\"]?\]?$")
"""The last name in a path, as `count` in `L['self'].count`."""
_ELEMENT = re.compile(r"\[-?\d+\]$")
_TENSOR = "a tensor"
_OF_COLLECTIONS = {"the keys of ": "other keys", "the length of ": "another length"}
_OF_STATE = frozenset({CureKind.TENSOR, CureKind.STACK, CureKind.FIRST_CALL})
"""Changes that put another object in the place of a value, or make one more call."""


def _same_sums(before: tuple[float, ...], after: tuple[float, ...]) -> bool:
    finite = [abs(value) for value in (*before, *after) if math.isfinite(value)]
    allowed = _ROUNDING * max(finite, default=1.0)
    return len(before) == len(after) and all(
        math.isclose(a, b, rel_tol=0.0, abs_tol=allowed) or (math.isnan(a) and math.isnan(b))
        for a, b in zip(before, after, strict=True)
    )


def new_failures(without: Report, cured: Report) -> Iterator[str]:
    """The failures that only the run with a change has, in words."""
    known = {(failure.exception, failure.message) for failure in without.failures}
    for failure in cured.failures:
        if (failure.exception, failure.message) not in known:
            is_number = failure.exception == _NEEDS_NUMBER
            yield (
                _NUMBER_TEXT
                if is_number
                else f"the program then fails: {failure.exception or failure.message}"
            )


_NEEDS_NUMBER = "GuardOnDataDependentSymNode"
"""torch's exception where code needs a number that is not known while it is compiled."""
_NUMBER_TEXT = "the compile then fails, because code after this line needs the number itself"


def _uncovered(cure: CallCure, without: Report, cured: Report) -> tuple[Break, ...]:
    """The graph breaks that only the run with the cure has, if it got further in code that ran in eager mode before.

    A setting that captures values may only move a break to the next line that needs the value.
    """
    moves = not LOGGING_SETTINGS.issuperset(cure.settings) or not cure.settings
    places = set(map(_innermost, without.breaks))
    eager = _eager_functions(without)
    return tuple(
        item
        for item in cured.breaks
        if _innermost(item) not in places
        and any((frame.path, frame.function) in eager for frame in item.stack)
        and not (moves and OF_VALUES.intersection(item.ids[:1]))
    )


def _eager_functions(report: Report) -> set[tuple[str, str]]:
    """The functions that torch gave up, by file and name."""
    return {
        (item.location.path, item.function.rpartition(".")[2])
        for item in report.not_compiled
        if item.kind is NotCompiledKind.SKIPPED
    }


def _gains_nothing(cure: CallCure, without: Report, cured: Report) -> str:
    """Why a change that removes a break is no gain: torch gives up the code around it, or compiles more; else empty."""
    old, new = without.trial, cured.trial
    if old is None or new is None:
        return ""
    if _line_runs(cured, new).total() > _line_runs(without, old).total():
        return ""
    graphs = [_count_graphs(report) for report in (without, cured)]
    if cure.settings and not without.failures and graphs[1] > graphs[0]:
        return f"torch then compiles {graphs[1]} graphs in place of {graphs[0]}"
    eager = _eager_functions(cured)
    broken = [item for item in without.breaks if _innermost(item) in _lines_of(cure)]
    is_eager = any((frame.path, frame.function) in eager for item in broken for frame in item.stack)
    runs = [sum(counts.graph_runs.values()) for counts in (old, new)]
    return _STILL_EAGER if is_eager and runs[1] >= runs[0] else ""


def _count_graphs(report: Report) -> int:
    """How many graphs with operators torch compiled: what recompiles without one costs little."""
    return sum(item.graph is not None and item.graph.operators > 0 for item in report.compiles)


def _next_break(item: Break) -> NextBreak:
    gb_id = (item.ids[0] if item.ids else None) or ""
    return NextBreak(gb_id, item.stack[-1].path, item.stack[-1].line)


def _uncompiled(cure: CallCure, without: Report, cured: Report, uncovered: Sequence[Break]) -> Iterator[str]:
    """Graph breaks and frames in eager mode that only the run with the cure has, but for what it uncovers."""
    places = set(map(_innermost, (*without.breaks, *uncovered)))
    own = {_outermost(item) for item in without.breaks if _innermost(item) in _lines_of(cure)}
    before, after = (Counter(map(_outermost, report.breaks)) for report in (without, cured))
    for item in cured.breaks:
        function = _outermost(item)
        # Of functions that do not lead to the lines of the cure, one that breaks no more often objects to nothing.
        is_moved = (
            cure.goal is CureGoal.BREAKS and function not in own and after[function] <= before[function]
        )
        is_asked = CureKind.OUTSIDE in {part.kind for part in cure.changes} and item.ids[:1] in _OF_LEFT_OUT
        if item.stack and _innermost(item) not in places and not is_moved and not is_asked:
            yield f"{_OTHER_BREAK}{_shown(cure, (item.stack[-1].path, item.stack[-1].line))}"
    # Code that reaches the recompile limit is compiled until then: skipped, it never is.
    eager = {
        (item.location.path, item.location.line) for item in without.not_compiled if item.kind not in _LIMITS
    }
    for uncompiled in cured.not_compiled:
        place = uncompiled.location
        if uncompiled.kind not in _LIMITS and (place.path, place.line) not in eager:
            yield f"`{uncompiled.function}` is then not compiled"


_OF_LEFT_OUT = (("GB0098",), ("GB0099",))
"""What torch says of a call of a function that is left out of compiled code."""


def is_inside(stack: Stack, cure: CallCure | None) -> bool:
    """Whether a line runs in the function that a cure leaves out, or in what that calls."""
    path, first, last = cure.left_out if cure is not None else ("", 0, 0)
    return any(place.path == path and first <= place.line <= last for place in stack)


def _outermost(item: Break) -> tuple[str, str] | None:
    """The function that torch was compiling."""
    return (item.stack[0].path, plain(item.stack[0].function or "")) if item.stack else None


def _innermost(item: Break) -> Line | None:
    return (item.stack[-1].path, item.stack[-1].line) if item.stack else None


def _compiles_of(report: Report, cure: CallCure) -> int:
    """How often the function was compiled, its parts after graph breaks included."""
    frames = {
        index
        for index, frame in enumerate(report.frames)
        if (frame.location.path, frame.location.line) == (cure.path, cure.line)
    }
    return sum(compiled.frame in frames for compiled in report.compiles)


def _is_limited(report: Report, cure: CallCure) -> bool:
    """Whether the recompile limit leaves calls of the function in eager mode."""
    return any(
        item.kind in _LIMITS and (item.location.path, item.location.line) == (cure.path, cure.line)
        for item in report.not_compiled
    )


def _count_breaks(breaks: Iterable[Break]) -> int:
    """How many graph breaks there are, counted as in the summary of a run: once for each place and cause."""
    return len(break_groups(breaks))


def _breaks_more_often(cure: CallCure, without: Report, cured: Report, uncovered: Sequence[Break]) -> bool:
    """Whether other lines break graphs more often with a change, and all lines together not less often."""
    own, known = _lines_of(cure), {*map(_innermost, uncovered)}
    before = {(item.compile_id, _innermost(item)) for item in without.breaks}
    after = {(item.compile_id, line) for item in cured.breaks if (line := _innermost(item)) not in known}
    elsewhere = [sum(line not in own for _, line in pairs) for pairs in (before, after)]
    return elsewhere[1] > elsewhere[0] and len(after) >= len(before)


def _breaks_on(report: Report, line: Line) -> int:
    return _count_breaks(item for item in report.breaks if _innermost(item) == line)


def _breaks_of(report: Report, cure: CallCure) -> int:
    """How many graph breaks are on the line."""
    lines = _lines_of(cure)
    return _count_breaks(item for item in report.breaks if _innermost(item) in lines)


def _lines_of(cure: CallCure) -> set[Line]:
    """The lines that its changes are for."""
    return {(part.path, part.line) for part in cure.changes}


_COUNTS = {
    CureGoal.COMPILES: _compiles_of,
    CureGoal.ALL_COMPILES: lambda report, _cure: len(report.compiles),
    CureGoal.LIMITED: _compiles_of,
    CureGoal.BREAKS: _breaks_of,
}


def _lines_of_first_compiles(cure: CallCure, without: Report) -> set[Line]:
    """The lines that only the first version of a function has: with a first call in eager mode, they ran in that."""
    first: set[Line] = set()
    later: set[Line] = set()
    for compiled in without.compiles if cure.kind is CureKind.FIRST_CALL else ():
        lines = {
            (stack[-1].path, stack[-1].line)
            for stack in (compiled.graph.lines if compiled.graph is not None else ())
            if stack
        }
        (first if compiled.id.rpartition("/")[2].startswith("0") else later).update(lines)
    return first - later


def _shown(cure: CallCure, line: Line) -> str:
    """A line, with its file unless that is the file of the cure and the user's: a finding is in the user's code."""
    is_own = line[0] == cure.path and not is_installed(str(PurePath(line[0]).parent))
    return f"line {line[1]}{'' if is_own else f' of {PurePath(line[0]).name}'}"


def _line_runs(report: Report, counts: TrialCounts, left_out: CallCure | None = None) -> Counter[Line]:
    """How many operators of each line ran inside graphs, without those of numbers, as of one that torch made dynamic.

    `left_out`: the change that leaves out a call on its line, or a function; the lines that only this call leads to,
    or that the function runs, do not count.
    """
    runs: Counter[Line] = Counter()
    without = (left_out.path, left_out.line) if left_out is not None and left_out.settings else None
    for compiled in report.compiles:
        if without in {(place.path, place.line) for place in compiled.caller}:
            continue
        graph = compiled.graph
        targets, numbers = (graph.targets, graph.numbers) if graph is not None else ((), ())
        for index, (stack, target) in enumerate(
            zip_longest(graph.lines if graph is not None else (), targets)
        ):
            if index in numbers:
                continue
            if stack and target != _OF_DYNAMIC_FLOATS and not is_inside(stack, left_out):
                runs[stack[-1].path, stack[-1].line] += counts.graph_runs.get(compiled.id, 0)
    return runs
