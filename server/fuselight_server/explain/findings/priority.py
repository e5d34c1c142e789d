"""What to fix first: the lines of a report, ranked by what they cost.

The rules, in this order:
1. what ended the run, because nothing after it was analyzed;
2. lines whose results are wrong without a message, as a change that compiled code does not make;
3. lines that leave the target's own function in eager mode as a whole;
4. lines that lead to the recompile limit, because later calls run in eager mode;
5. lines that compile again for each number that they get, because more numbers lead to the limit;
6. lines that leave other functions in eager mode as a whole: the most functions;
7. lines that break graphs: the most measured time in eager mode, where a benchmark has it, then the most breaks (of a
   line whose cure was tried, those that the trial removes), then the most recompilations for values that it carries;
8. lines that compile again: the most seconds, as they are shown, then the most recompilations.
Recompilations that every such program needs, as for a grad mode, do not count: no fix takes them away. A line whose
findings name no step, only what to expect, is left out unless it keeps code from being compiled. Of lines that cost the
same, the one that runs first comes first. A line whose finding follows from another line comes after that one, whatever
the two cost.

Invariant: a pure function of the reports and of measured times. Every number is one that a report holds; a time in
eager mode is one that a benchmark measured, and is marked so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import MappingProxyType

from fuselight.shared.report import (
    Break,
    CureGoal,
    GuardCause,
    GuardFailure,
    Location,
    NotCompiledKind,
    Recompile,
    Report,
    is_pythons_own,
)
from fuselight_server.base.finding import WRONG_RESULTS, Finding, Related, Severity
from fuselight_server.base.formatting import cut_list, format_count, format_list, format_target, format_time
from fuselight_server.base.remedies import RemedyState
from fuselight_server.explain.findings.breaks.break_costs import GraphSides, by_function, sides_of
from fuselight_server.explain.findings.breaks.break_remedies import ASKED_FOR
from fuselight_server.explain.findings.breaks.generators import is_lone_comprehension
from fuselight_server.explain.findings.breaks.not_compiled import has_graph
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.library_calls import is_inside_broken_call
from fuselight_server.explain.findings.common.resume_functions import in_the_users_words
from fuselight_server.explain.findings.common.text import plain
from fuselight_server.explain.findings.recompilations.recompilation_groups import (
    birthplace,
    finding_place,
    recompilation_groups,
    recompile_seconds,
)
from fuselight_server.explain.findings.recompilations.recompilations import (
    is_expected_root,
    limit_filled_by,
)
from fuselight_server.explain.findings.recompilations.recompile_limit import stopped_at

_Place = tuple[str, int]
EagerTimes = Mapping[_Place, float]
"""By path and line, the measured microseconds in eager mode of one call."""
_NO_TIMES: EagerTimes = MappingProxyType({})
RECOMPILED = frozenset({"FL102", "FL201"})
"""Codes of findings about recompilations."""

_LIMITS = (NotCompiledKind.RECOMPILE_LIMIT, NotCompiledKind.ACCUMULATED_LIMIT)
_SHORTEST = 0.05
"""Seconds below which no time is named."""


@dataclass(frozen=True)
class FindingCost:
    """What one line of the user's code costs."""

    path: str
    line: int
    ends_run: bool = False
    is_wrong: bool = False
    """Whether its results are wrong without a message."""
    eager: tuple[str, ...] = ()
    """Functions that run in eager mode as a whole because of it."""
    partly: tuple[str, ...] = ()
    """Of these, those of which an earlier part, or another call, has a graph."""
    is_target_eager: bool = False
    """Whether the target's own function is one of them."""
    limited: tuple[str, ...] = ()
    """Functions that reached the recompile limit because of it."""
    broken: tuple[str, ...] = ()
    """Functions whose graph ends here."""
    breaks: int = 0
    graphs: int = 0
    """Graphs into which the broken functions are split; 0 where no break has a graph on both sides."""
    starts_graph: bool = False
    """Whether the only graph beside its breaks starts after them."""
    touches_no_graph: bool = False
    """Whether no graph of the broken functions is beside its breaks."""
    recompilations: int = 0
    seconds: float = 0.0
    """Of those recompilations."""
    is_of_each_number: bool = False
    """Whether each number that a value had needed a compile of its own: at least four of them."""
    eager_us: float = 0.0
    """Measured time in eager mode of the line in one call; 0 where no benchmark has it."""

    @property
    def stops_compiling(self) -> bool:
        """Whether something runs no further, or in eager mode as a whole."""
        return bool(self.ends_run or self.eager or self.limited)

    @property
    def costs_nothing(self) -> bool:
        """Whether there is nothing to gain."""
        return not (self.stops_compiling or self.is_wrong or self.breaks or self.recompilations)


@dataclass(frozen=True)
class Priority:
    """A line that is worth a fix, and what that gains."""

    cost: FindingCost
    gain: str
    """`all of TinyViT.forward runs in eager mode because of it`."""
    target_path: str = ""
    target: str = ""
    """The target whose run has these counts: of several that the line is part of, the one in which it costs most."""

    in_loop: str = ""
    """As `Finding.in_loop`."""

    def words(self, fix: str = "", *, file: str = "") -> str:
        """`Fix line 38 of layers.py first (print in the loop on line 35): ... (Use torch.where: verified)`.

        `file`: the name that is shown for the file; empty for its last part.
        """
        loop = f" ({self.in_loop})" if self.in_loop else ""
        place = f"line {self.cost.line} of {file or PurePath(self.cost.path).name}"
        return f"Fix {place} first{loop}: {self.gain}{f' ({fix})' if fix else ''}"

    def measured(self, us: float) -> Priority:
        """The line with its measured time in eager mode, which counts where it breaks graphs and the run goes on."""
        is_counted = us > 0 and self.cost.breaks and not (self.cost.ends_run or self.cost.eager)
        if not is_counted:
            return self
        gain = f"{self.gain}; {format_time(us)} of a call in eager mode (measured)"
        return replace(self, cost=replace(self.cost, eager_us=us), gain=gain)

    def is_gained_by(self, code: str, path: str, line: int) -> bool:
        """Whether a fix of a finding removes what the line costs: of a line that breaks graphs, a fix of the break."""
        is_here = (path, line) == (self.cost.path, self.cost.line)
        if self.cost.is_wrong:
            return is_here and code in WRONG_RESULTS
        return is_here and (code in RECOMPILED) != bool(self.cost.eager or self.cost.breaks)


def priorities(context: Context, shown: Iterable[Finding] | None = None) -> tuple[Priority, ...]:
    """The lines of a report that are worth a fix, the first one first.

    `shown`: its findings, whose numbers of recompilations count then. They were made with the source, which tells more
    of them apart, and brings more of them together.
    """
    known = any(record.graph is not None and record.graph.operators for record in context.report.compiles)
    ran = context.report.target
    # A program, or a cell of a notebook, runs in eager mode by itself: what was to be compiled are its functions.
    target = "" if known or ran.kind == "main" else format_target(ran.name)
    costs = line_costs(context)
    if shown is not None:
        costs = _counted_in_findings(costs, tuple(shown))
    return tuple(Priority(cost, _gain(cost, target)) for cost in ranked(costs))


def _counted_in_findings(costs: Iterable[FindingCost], shown: tuple[Finding, ...]) -> list[FindingCost]:
    """The costs with the recompilations that the findings of each line count."""
    known = {(cost.path, cost.line): replace(cost, recompilations=0, seconds=0.0) for cost in costs}
    for finding in shown:
        place = (finding.span.path, finding.span.line)
        if finding.recompilations and finding.severity is not Severity.INFORMATION:
            cost = known.get(place, FindingCost(*place))
            known[place] = _with_recompilations(cost, finding.recompilations, finding.recompile_seconds)
        if finding.code == "FL102" and finding.follows is not None:
            _move_limit(known, finding.title, (finding.follows.span.path, finding.follows.span.line))
    return list(known.values())


def _move_limit(costs: dict[_Place, FindingCost], title: str, to: _Place) -> None:
    """Count the function of a finding, which reached a limit, at the line from which the finding follows."""
    for place, cost in list(costs.items()):
        named = tuple(name for name in cost.limited if f"`{name}`" in title)
        if named and place != to:
            costs[place] = replace(cost, limited=tuple(name for name in cost.limited if name not in named))
            at = costs.get(to, FindingCost(*to))
            costs[to] = replace(at, limited=(*at.limited, *named))


def _places_of(findings: Iterable[Finding]) -> set[tuple[str, int]]:
    return {
        (place.path, place.line)
        for finding in findings
        for place in (finding.span, *(at.span for at in finding.also_at))
    }


def of_reports(
    reports: Iterable[Report], shown: Iterable[Finding], eager_us: EagerTimes = _NO_TIMES
) -> tuple[Priority, ...]:
    """The lines of several reports that are worth a fix and have a finding, the first one first.

    What is only information, as a break that torch makes by design, is worth none, and what is only to be expected.
    """
    findings = tuple(shown)
    places = _places_of(findings)
    advised = _places_of(
        finding for finding in findings if finding.severity is not Severity.INFORMATION and _has_step(finding)
    )
    actual_priorities: dict[tuple[str, int], Priority] = {}
    each = [finding for folded in findings for finding in (folded, *folded.also_at)]
    for report in reports:
        named = (report.target.path, report.target.name or "__main__")
        own = [finding for finding in each if (finding.target_path, finding.target) == named]
        for given in priorities(Context.of(report), own):
            place = (given.cost.path, given.cost.line)
            counted = replace(given, target_path=report.target.path, target=report.target.name or "")
            priority = counted.measured(eager_us.get(place, 0.0))
            known = actual_priorities.get(place)
            is_worth_it = place in (places if priority.cost.stops_compiling else advised)
            if is_worth_it and (known is None or _rank(priority.cost) < _rank(known.cost)):
                actual_priorities[place] = priority
    actual_priorities |= _wrong_results(findings, actual_priorities)
    follows = {
        (finding.span.path, finding.span.line): finding.follows
        for folded in findings
        for finding in (folded, *folded.also_at)
        if finding.follows is not None
    }
    loops = {(folded.span.path, folded.span.line): folded.in_loop for folded in findings if folded.in_loop}
    ordered = sorted(actual_priorities, key=lambda place: _rank(actual_priorities[place].cost))
    roots = {place: (after.span.path, after.span.line) for place, after in follows.items()}
    return tuple(
        _with_consequences(
            replace(actual_priorities[place], in_loop=loops.get(place, "")),
            follows.get(place),
            _limited_after(place, roots, actual_priorities),
        )
        for place in _roots_first(ordered, roots)
    )


def _has_step(finding: Finding) -> bool:
    """Whether there is something to do: not where it says what to expect, and changes may help that were not tried."""
    steps = [remedy for remedy in finding.remedies if remedy.is_step]
    says_expectation = any(
        remedy.state is RemedyState.ADVICE and not remedy.is_step for remedy in finding.remedies
    )
    return not finding.is_expected and not (says_expectation and all(step.is_pending for step in steps))


def _wrong_results(findings: Iterable[Finding], known: Mapping[_Place, Priority]) -> dict[_Place, Priority]:
    """The lines whose results are wrong, each with what else it costs."""
    wrong = dict[_Place, Priority]()
    for folded in findings:
        for finding in (folded, *folded.also_at):
            place = (finding.span.path, finding.span.line)
            if finding.code not in WRONG_RESULTS or place in wrong:
                continue
            other = known.get(place)
            cost = replace(other.cost if other is not None else FindingCost(*place), is_wrong=True)
            gain = "; ".join(
                filter(None, (plain(finding.title).replace("`", ""), other.gain if other is not None else ""))
            )
            target = (
                (other.target_path, other.target)
                if other is not None
                else (finding.target_path, finding.target)
            )
            wrong[place] = Priority(cost, gain, *target)
    return wrong


def _with_consequences(priority: Priority, after: Related | None, limited: tuple[str, ...]) -> Priority:
    """The line with what its finding follows from, and with the functions that reach a limit after it."""
    place = (priority.cost.path, priority.cost.line)
    is_other = after is not None and (after.span.path, after.span.line) != place
    follows = after.message if after is not None and is_other else ""
    limit = f"{limited[0]} reached the recompile limit in the code after it" if limited else ""
    return replace(priority, gain="; ".join(filter(None, (priority.gain, limit, follows))))


def _limited_after(
    root: _Place, roots: Mapping[_Place, _Place], priorities: Mapping[_Place, Priority]
) -> tuple[str, ...]:
    """The functions that reached the recompile limit because of lines that follow from one which says less."""
    if root in priorities and priorities[root].cost.stops_compiling:
        return ()
    after = (place for place, before in roots.items() if before == root != place and place in priorities)
    return next((priorities[place].cost.limited for place in after if priorities[place].cost.limited), ())


def _roots_first(ordered: Iterable[_Place], roots: Mapping[_Place, _Place]) -> list[_Place]:
    """The lines in their order, each after the line that it follows from, which takes the earlier place."""
    waiting, out = dict.fromkeys(ordered), dict[_Place, None]()
    for place in waiting:
        chain = [place]
        while (root := roots.get(chain[-1])) in waiting and root is not None and root not in chain:
            chain.append(root)
        out |= dict.fromkeys(place for place in reversed(chain) if place not in out)
    return list(out)


def advice(lines: Sequence[Priority], path: str = "") -> Priority | None:
    """The line to name as the first to fix; None where it goes without saying.

    It does where it is the only one, in the file `path` that the user looks at, costs no whole function and is not
    wrong.
    """
    if not lines:
        return None
    first = lines[0].cost
    is_plain = len(lines) == 1 and not (first.is_wrong or first.eager or first.limited)
    return None if is_plain and path in {"", first.path} else lines[0]


_MAX_NAMED = 3


def more_like_the_first(lines: Sequence[Priority], place: Callable[[Priority], str]) -> str:
    """Say which other lines cost what the first one does, as the end of a run: how many and where.

    `place` names a line. Empty where there is none, and where the first line costs less.
    """
    rules: dict[str, Callable[[FindingCost], bool]] = {
        "ends a run": lambda cost: cost.ends_run,
        "gives wrong results": lambda cost: cost.is_wrong,
        "leaves functions in eager mode": lambda cost: bool(cost.eager),
        "leads to the recompile limit": lambda cost: bool(cost.limited),
    }
    words = next((words for words, applies in rules.items() if lines and applies(lines[0].cost)), "")
    others = [line for line in lines[1:] if words and rules[words](line.cost)]
    if not others:
        return ""
    listed = format_list(cut_list(map(place, others), _MAX_NAMED))
    verb, _, rest = words.partition(" ")
    verb = verb if len(others) == 1 else verb.removesuffix("s")
    return f"{format_count(len(others), 'more line')} {verb} {rest}: {listed}"


def ranked(costs: Iterable[FindingCost]) -> list[FindingCost]:
    """Order lines by the rules; those that cost nothing are left out."""
    return sorted((cost for cost in costs if not cost.costs_nothing), key=_rank)


def _rank(cost: FindingCost) -> tuple[object, ...]:
    return (
        not cost.ends_run,
        not cost.is_wrong,
        not cost.is_target_eager,
        not cost.limited,
        not cost.is_of_each_number,
        -len(cost.eager),
        not cost.breaks,
        -cost.eager_us,
        -cost.breaks,
        -cost.recompilations if cost.breaks else 0,
        -round(cost.seconds, 1),
        -cost.recompilations,
    )


def _gain(cost: FindingCost, target: str) -> str:
    """Say what a fix gains. `target`: its name where no graph was compiled at all."""
    if cost.ends_run:
        return "the run ends there"
    if cost.eager:
        if target and target != "__main__" and not cost.partly:
            return f"all of {target} runs in eager mode because of it"
        first, *others = cost.eager
        more = f" and {format_count(len(others), 'more function')}" if others else ""
        whole = "the rest" if first in cost.partly else "all"
        return f"{whole} of {first}{more} {'run' if others else 'runs'} in eager mode because of it"
    again = _again(cost)
    if cost.limited:
        return f"{cost.limited[0]} reached the recompile limit because of it"
    if cost.breaks:
        split = _split(cost, cost.broken[0] if cost.broken else "the function")
        return f"{split}{f', and it causes {again}' if again else ''}"
    return f"it causes {again}{', one for each new number' if cost.is_of_each_number else ''}"


def _split(cost: FindingCost, named: str) -> str:
    if cost.graphs > 1:
        return f"it splits {named} into {cost.graphs} graphs"
    if cost.touches_no_graph:
        return "no graph continues across it"
    return f"the graph of {named} {'starts after it' if cost.starts_graph else 'ends here'}"


def _again(cost: FindingCost) -> str:
    if not cost.recompilations:
        return ""
    count = format_count(cost.recompilations, "recompilation")
    return f"{count} ({cost.seconds:.1f} s)" if cost.seconds >= _SHORTEST else count


def line_costs(context: Context) -> list[FindingCost]:
    """What each line of the report costs, in the order in which the lines ran."""
    costs: dict[tuple[str, int], FindingCost] = {}

    def at(place: Location) -> FindingCost:
        return costs.get((place.path, place.line), FindingCost(place.path, place.line))

    def keep(cost: FindingCost) -> None:
        costs[cost.path, cost.line] = cost

    for failure in context.report.failures:
        home = context.innermost_user_frame(failure.stack)
        if home is not None:
            keep(replace(at(home), ends_run=not failure.is_caught))
    _add_breaks(context, at, keep)
    _add_eager(context, at, keep)
    _add_recompilations(context, at, keep)
    return list(costs.values())


def _add_breaks(
    context: Context, at: Callable[[Location], FindingCost], keep: Callable[[FindingCost], None]
) -> None:
    known = [(home, item, sides_of(context, item)) for home, item in _removable_breaks(context)]
    for home, _, _ in known:
        keep(at(home))  # in the order in which the lines ran
    # As in the finding of a break: the innermost function with a graph beside it is the one to name.
    known.sort(key=lambda each: (not (each[2] and each[2].is_touching), *by_function(context, each[1])))
    seen: set[tuple[str, int, tuple[str | None, ...], str | None]] = set()
    for home, graph_break, sides in known:
        cost, function = at(home), plain(graph_break.frame_function or "")
        kind = (home.path, home.line, graph_break.ids[:1], function)
        if kind in seen:
            continue
        seen.add(kind)
        named = (*cost.broken, function) if function and function not in cost.broken else cost.broken
        keep(_with_sides(replace(cost, breaks=cost.breaks + 1, broken=named), sides))
    for trial in context.report.trials:
        cost = at(Location(trial.cure.path, trial.cure.line))
        if trial.cures and trial.cure.goal is CureGoal.BREAKS and not trial.cure.also and cost.breaks:
            keep(replace(cost, breaks=max(cost.breaks, trial.before - trial.after)))


def _removable_breaks(context: Context) -> Iterator[tuple[Location, Break]]:
    """The breaks that split a function and that nobody asked for, each with the user's line."""
    for item in context.report.breaks:
        home = context.innermost_user_frame(item.stack, item.above)
        refused = context.is_of_refused_call(item.call, item.ids[0] if item.ids else None)
        if home is not None and not (refused or item.frame_skipped or _is_asked_for(item)):
            yield home, item


def _with_sides(cost: FindingCost, sides: GraphSides | None) -> FindingCost:
    """The cost of a line with the graphs beside one more of its breaks."""
    if sides is None:
        return cost
    is_first = cost.breaks == 1
    return replace(
        cost,
        graphs=max(cost.graphs, sides.total if sides.before and sides.after else 0),
        starts_graph=bool(sides.after and not sides.before) and (is_first or cost.starts_graph),
        touches_no_graph=not (sides.before or sides.after) and (is_first or cost.touches_no_graph),
    )


def _is_asked_for(graph_break: Break) -> bool:
    """Whether the user or a library wrote the break: no fix takes it away."""
    return bool(graph_break.ids) and graph_break.ids[0] in ASKED_FOR


def _add_eager(
    context: Context, at: Callable[[Location], FindingCost], keep: Callable[[FindingCost], None]
) -> None:
    own = context.report.frames[0].function if context.report.frames else None
    for uncompiled_code in context.report.not_compiled:
        home = context.innermost_user_frame(
            uncompiled_code.stack or (uncompiled_code.location,), uncompiled_code.caller
        )
        if home is None or context.is_of_refused_call(uncompiled_code.call, uncompiled_code.gb_id):
            continue
        is_inner = is_inside_broken_call(context, (uncompiled_code.location,), (home,))
        if is_inner or is_lone_comprehension(uncompiled_code.gb_id, uncompiled_code.function):
            continue  # the break of the user's own function counts
        cost, function = at(home), plain(uncompiled_code.function) or "the function"
        if (
            uncompiled_code.kind is NotCompiledKind.SKIPPED
            and uncompiled_code.stack
            and uncompiled_code.rest_from is None
        ):
            eager = cost.eager if function in cost.eager else (*cost.eager, function)
            if is_pythons_own(uncompiled_code.location.path):
                eager = cost.eager  # as the method that reads a cached property: nobody asked to compile it
            is_target = cost.is_target_eager or uncompiled_code.function == own
            partly = (*cost.partly, function) if has_graph(context, uncompiled_code) else cost.partly
            keep(replace(cost, eager=eager, is_target_eager=is_target, partly=partly))
        elif uncompiled_code.kind in _LIMITS:
            stopped = limit_filled_by(context, stopped_at(context, uncompiled_code.location))
            place = home if stopped is None else finding_place(context, in_the_users_words(context, stopped))
            cost = at(place)
            keep(replace(cost, limited=(*cost.limited, function)))


def _add_recompilations(
    context: Context, at: Callable[[Location], FindingCost], keep: Callable[[FindingCost], None]
) -> None:
    """Add what the findings of each line count: not those of which every recompilation has to be expected."""
    numbers: dict[tuple[str, int, str], set[str]] = {}
    for group in recompilation_groups(context):
        expected = [is_expected_root(context, root) for root in group.roots]
        if all(expected) or not group.is_first:
            continue  # nothing takes it away, or the first group with the cause counts it
        home = birthplace(context, group.roots[0].recompile)[0]
        keep(_with_recompilations(at(home), len(group.counted), recompile_seconds(context, group.counted)))
        for root in (root for root, is_known in zip(group.roots, expected, strict=True) if not is_known):
            _add_number(numbers, root.recompile, birthplace(context, root.recompile)[1], home)
    for (path, line, *_), seen in numbers.items():
        if len(seen) > _MOST_BOUNDED:
            keep(replace(at(Location(path, line)), is_of_each_number=True))


def _with_recompilations(cost: FindingCost, count: int, seconds: float) -> FindingCost:
    return replace(cost, recompilations=cost.recompilations + count, seconds=cost.seconds + seconds)


_MOST_BOUNDED = 3
"""Numbers for which a value is compiled before it is taken to have ever new ones."""
_OF_NUMBERS = {GuardCause.NUMBER, GuardCause.VALUE, GuardCause.DIMENSION, GuardCause.LENGTH}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$")


def _add_number(
    numbers: dict[tuple[str, int, str], set[str]],
    recompilation: Recompile,
    failure: GuardFailure | None,
    home: Location,
) -> None:
    """Note the two numbers that a guarded value had, if it is one, and no other object made it another."""
    is_other = bool(recompilation.entries) and recompilation.entries[0].other_object
    if failure is None or is_other or failure.cause not in _OF_NUMBERS:
        return
    values = [value for value in (failure.was, failure.now) if value and _NUMBER.match(value)]
    if len(values) == 2:  # noqa: PLR2004 - the number before and after
        numbers.setdefault((home.path, home.line, failure.source), set()).update(values)
