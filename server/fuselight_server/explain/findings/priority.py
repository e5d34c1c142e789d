"""What to fix first: the lines of a report, ranked by what they cost.

The rules, in this order:
1. what ended the run, because nothing after it was analyzed;
2. lines that leave whole functions in eager mode: the target's own function before others, then the most functions;
3. lines that lead to the recompile limit, because later calls run in eager mode;
4. lines that break graphs: the most measured time in eager mode, where a benchmark has it, then the most breaks, then
   the most recompilations for values that the break carries;
5. lines that compile again: the most seconds, then the most recompilations.
Of lines that cost the same, the one that runs first comes first.

Invariant: a pure function of the reports and of measured times. Every number is one that a report holds; a time in
eager mode is one that a benchmark measured, and is marked so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING

from fuselight.shared.report import NotCompiledKind
from fuselight_server.base.formatting import format_count, format_list, format_time
from fuselight_server.explain.findings.breaks.break_costs import sides_of
from fuselight_server.explain.findings.breaks.breaks import ASKED_FOR
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import in_the_users_words, roots
from fuselight_server.explain.findings.common.text import plain
from fuselight_server.explain.findings.recompilations.recompilations import birthplace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fuselight.shared.report import Break, Location, Recompile, Report
    from fuselight_server.base.finding import Finding
    from fuselight_server.explain.findings.breaks.break_costs import GraphSides

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
    eager: tuple[str, ...] = ()
    """Functions that run in eager mode as a whole because of it."""
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
    eager_us: float = 0.0
    """Measured time in eager mode of the line in one call; 0 where no benchmark has it."""

    @property
    def costs_nothing(self) -> bool:
        """Whether there is nothing to gain."""
        return not (self.ends_run or self.eager or self.limited or self.breaks or self.recompilations)


@dataclass(frozen=True)
class Priority:
    """A line that is worth a fix, and what that gains."""

    cost: FindingCost
    gain: str
    """`all of TinyViT.forward runs eagerly because of it`."""

    @property
    def place(self) -> str:
        """`layers.py:38`."""
        return f"{PurePath(self.cost.path).name}:{self.cost.line}"

    def words(self, fix: str = "") -> str:
        """`Fix layers.py:38 first: ... (Use torch.where: verified)`."""
        return f"Fix {self.place} first: {self.gain}{f' ({fix})' if fix else ''}"

    def measured(self, us: float) -> Priority:
        """The line with its measured time in eager mode, which counts where it breaks graphs and the run goes on."""
        is_counted = us > 0 and self.cost.breaks and not (self.cost.ends_run or self.cost.eager)
        if not is_counted:
            return self
        gain = f"{self.gain}; {format_time(us)} of a call in eager mode (measured)"
        return Priority(replace(self.cost, eager_us=us), gain)

    def is_gained_by(self, code: str, path: str, line: int) -> bool:
        """Whether a fix of a finding removes what the line costs: of a line that breaks graphs, a fix of the break."""
        is_here = (path, line) == (self.cost.path, self.cost.line)
        return is_here and (code in RECOMPILED) != bool(self.cost.eager or self.cost.breaks)


def priorities(context: Context) -> tuple[Priority, ...]:
    """The lines of a report that are worth a fix, the first one first."""
    known = any(one.graph is not None and one.graph.operators for one in context.report.compiles)
    target = context.report.target.name or "__main__"
    return tuple(Priority(one, _gain(one, "" if known else target)) for one in ranked(line_costs(context)))


EagerTimes = Mapping[tuple[str, int], float]
"""By path and line, the measured microseconds in eager mode of one call."""
_NO_TIMES: EagerTimes = MappingProxyType({})


def of_reports(
    reports: Iterable[Report], shown: Iterable[Finding], eager_us: EagerTimes = _NO_TIMES
) -> tuple[Priority, ...]:
    """The lines of several reports that are worth a fix and have a finding, the first one first."""
    places = {
        (place.path, place.line) for one in shown for place in (one.span, *(at.span for at in one.also_at))
    }
    found: dict[tuple[str, int], Priority] = {}
    for report in reports:
        for given in priorities(Context.of(report)):
            place = (given.cost.path, given.cost.line)
            one = given.measured(eager_us.get(place, 0.0))
            known = found.get(place)
            if place in places and (known is None or _rank(one.cost) < _rank(known.cost)):
                found[place] = one
    return tuple(sorted(found.values(), key=lambda one: _rank(one.cost)))


def advice(lines: Sequence[Priority], path: str = "") -> Priority | None:
    """The line to name as the first to fix; None where it goes without saying.

    It does where it is the only one, in the file `path` that the user looks at, and costs no whole function.
    """
    if not lines:
        return None
    first = lines[0].cost
    is_plain = len(lines) == 1 and not first.eager and not first.limited
    return None if is_plain and path in {"", first.path} else lines[0]


_MOST_NAMED = 3


def more_like_the_first(lines: Sequence[Priority], place: Callable[[Priority], str]) -> str:
    """Say which other lines end a run, or leave functions in eager mode, where the first line does: how many and where.

    `place` names a line. Empty where there is none, and where the first line costs less.
    """
    rules: dict[str, Callable[[FindingCost], bool]] = {
        "ends a run": lambda cost: cost.ends_run,
        "leaves functions in eager mode": lambda cost: bool(cost.eager),
        "leads to the recompile limit": lambda cost: bool(cost.limited),
    }
    words = next((words for words, applies in rules.items() if lines and applies(lines[0].cost)), "")
    others = [one for one in lines[1:] if words and rules[words](one.cost)]
    if not others:
        return ""
    named = [place(one) for one in others[:_MOST_NAMED]]
    more = len(others) - len(named)
    listed = format_list([*named, *([f"{more} more"] if more else [])])
    verb, _, rest = words.partition(" ")
    verb = verb if len(others) == 1 else verb.removesuffix("s")
    return f"{format_count(len(others), 'more line')} {verb} {rest}: {listed}"


def ranked(costs: Iterable[FindingCost]) -> list[FindingCost]:
    """Order lines by the rules; those that cost nothing are left out."""
    return sorted((one for one in costs if not one.costs_nothing), key=_rank)


def _rank(one: FindingCost) -> tuple[object, ...]:
    return (
        not one.ends_run,
        not one.eager,
        not one.is_target_eager,
        -len(one.eager),
        not one.limited,
        not one.breaks,
        -one.eager_us,
        -one.breaks,
        -one.recompilations if one.breaks else 0,
        -one.seconds,
        -one.recompilations,
    )


def _gain(one: FindingCost, target: str) -> str:
    """Say what a fix gains. `target`: its name where no graph was compiled at all."""
    if one.ends_run:
        return "the run ends there"
    if one.eager:
        if target and target != "__main__":
            return f"all of {target} runs eagerly because of it"
        first, *others = one.eager
        more = f" and {format_count(len(others), 'more function')}" if others else ""
        return f"all of {first}{more} {'run' if others else 'runs'} eagerly because of it"
    again = _again(one)
    if one.limited:
        return f"{one.limited[0]} reached the recompile limit because of it"
    if one.breaks:
        split = _split(one, one.broken[0] if one.broken else "the function")
        return f"{split}{f', and {again}' if again else ''}"
    return f"it causes {again}"


def _split(one: FindingCost, named: str) -> str:
    if one.graphs > 1:
        return f"it splits {named} into {one.graphs} graphs"
    if one.touches_no_graph:
        return "no graph continues across it"
    return f"the graph of {named} {'starts after it' if one.starts_graph else 'ends here'}"


def _again(one: FindingCost) -> str:
    if not one.recompilations:
        return ""
    count = format_count(one.recompilations, "recompilation")
    return f"{count} ({one.seconds:.1f} s)" if one.seconds >= _SHORTEST else count


def line_costs(context: Context) -> list[FindingCost]:
    """What each line of the report costs, in the order in which the lines ran."""
    made: dict[tuple[str, int], FindingCost] = {}

    def at(place: Location) -> FindingCost:
        return made.get((place.path, place.line), FindingCost(place.path, place.line))

    def keep(one: FindingCost) -> None:
        made[one.path, one.line] = one

    for failure in context.report.failures:
        home = context.innermost_user_frame(failure.stack)
        if home is not None:
            keep(replace(at(home), ends_run=True))
    _add_breaks(context, at, keep)
    _add_eager(context, at, keep)
    _add_recompilations(context, at, keep)
    return list(made.values())


def _add_breaks(
    context: Context, at: Callable[[Location], FindingCost], keep: Callable[[FindingCost], None]
) -> None:
    seen: set[tuple[str, int, tuple[str | None, ...], str | None]] = set()
    for one in context.report.breaks:
        home = context.innermost_user_frame(one.stack, one.above)
        refused = context.is_of_refused_call(one.call, one.ids[0] if one.ids else None)
        if home is None or refused or _is_asked_for(one):
            continue
        cost, function = at(home), plain(one.frame_function or "")
        kind = (home.path, home.line, one.ids[:1], function)
        if one.frame_skipped or kind in seen:
            continue
        seen.add(kind)
        named = (*cost.broken, function) if function and function not in cost.broken else cost.broken
        keep(_with_sides(replace(cost, breaks=cost.breaks + 1, broken=named), sides_of(context, one)))


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


def _is_asked_for(one: Break) -> bool:
    """Whether the user or a library wrote the break: no fix takes it away."""
    return bool(one.ids) and one.ids[0] in ASKED_FOR


def _add_eager(
    context: Context, at: Callable[[Location], FindingCost], keep: Callable[[FindingCost], None]
) -> None:
    own = context.report.frames[0].function if context.report.frames else None
    for one in context.report.not_compiled:
        home = context.innermost_user_frame(one.stack or (one.location,), one.caller)
        if home is None or context.is_of_refused_call(one.call, one.gb_id):
            continue
        cost, function = at(home), plain(one.function) or "the function"
        if one.kind is NotCompiledKind.SKIPPED and one.stack and one.rest_from is None:
            eager = cost.eager if function in cost.eager else (*cost.eager, function)
            is_target = cost.is_target_eager or one.function == own
            keep(replace(cost, eager=eager, is_target_eager=is_target))
        elif one.kind in _LIMITS:
            stopped = next(
                (item for item in context.report.recompiles if _stopped_at(item, one.location)), None
            )
            place = _birthplace(context, stopped) if stopped is not None else home
            cost = at(place)
            keep(replace(cost, limited=(*cost.limited, function)))


def _stopped_at(one: Recompile, place: Location) -> bool:
    return one.compile_id is None and (one.location.path, one.location.line) == (place.path, place.line)


def _birthplace(context: Context, one: Recompile) -> Location:
    return birthplace(context, in_the_users_words(context, one))[0]


def _add_recompilations(
    context: Context, at: Callable[[Location], FindingCost], keep: Callable[[FindingCost], None]
) -> None:
    worded = (
        in_the_users_words(context, one) for one in context.report.recompiles if one.compile_id is not None
    )
    for root in roots(context, worded):
        home = birthplace(context, root.recompile)[0]
        again = [root.recompile, *root.parts]
        compiles = [context.compile_of(one.compile_id) for one in again]
        seconds = sum(one.seconds or 0.0 for one in compiles if one is not None)
        cost = at(home)
        keep(
            replace(
                cost,
                recompilations=cost.recompilations + len(again),
                seconds=cost.seconds + seconds,
            )
        )
