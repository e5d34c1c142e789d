"""The forecasts of a report in words: which change compiles again, why, at what cost, and what to do about it.

Invariant: each entry comes from forecasts of the report, and one entry stands for changes with the same reason. The
remedies are advice: none of them was tried on the user's code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fuselight.shared.report import CallChange, ChangeKind, Forecast, FrameForecast, Location, Outcome, Report
from fuselight_server.base.formatting import format_count
from fuselight_server.explain.findings.common.carried_values import carried_in_words, resumption_on
from fuselight_server.explain.findings.common.context import Context, is_machinery
from fuselight_server.explain.findings.common.number_uses import uses_of
from fuselight_server.explain.findings.forecasts.forecast_costs import (
    Limit,
    call_raises,
    cost_of,
    further_compiles,
)
from fuselight_server.explain.findings.forecasts.forecast_kinds import (
    KINDS,
    RANKS,
    ChangeScope,
    NamedChange,
    names_text,
)
from fuselight_server.explain.findings.forecasts.forecast_parts import (
    AskedChange,
    first_break,
    is_of_call,
    linked_changes,
)
from fuselight_server.explain.findings.forecasts.forecast_remedies import Advice, after_break, loop_remedies

_IN_LENS = 2
_LONGEST_REASON = 200
_SIZE = re.compile(r"(?P<tensor>.+)\.size\((?P<dimension>\d+)\)$")
_VARIABLE = re.compile(r"[LG]\['(\w+)'\]")
_KEYWORD = re.compile(r"(?<![\w.])kwargs\[(['\"])(\w+)\1\]")
_SUBMODULE = re.compile(r"(\.?)_modules\['([^\W\d]\w*)'\]")
_ITEM = re.compile(r"\._modules\['(\d+)'\]")
_DIMENSION = re.compile(r"\.size\(\)\[(\d+)\]")
_BOOLS = frozenset({"True", "False"})


@dataclass(frozen=True)
class ExpectedChange:
    """A change of a later call, or several with the same reason."""

    kind: ChangeKind
    subject: tuple[str, ...]
    """What changes, in source terms; empty for a mode."""
    functions: tuple[str, ...]
    """The compiled functions that it concerns."""
    path: str
    """The file of the first function: the texts name its lines."""
    noun: str
    """`the batch`, `n`: what changes, for a lens."""
    what: str
    """`the batch changes`: without the names and values of `detail`."""
    detail: str
    """`x.size(0): 6 → 5`; empty if `what` has all."""
    recompiles: bool
    is_likely: bool
    cost: str
    """`one more compile, then any size`; empty if it does not recompile."""
    further_compiles: int
    """Compiles that such changes can cause until the recompile limit."""
    reason: str
    """The guard that fails, in source terms; empty if it does not recompile."""
    guards: tuple[str, ...]
    """The guards that fail, as torch prints them."""
    place: Location | None
    """The line that created the guard: the innermost one of the user's, else the innermost one."""
    remedies: tuple[str, ...]
    """What to do, the best first; advice that nothing has verified."""
    first_break: Location | None = None
    """The graph break to fix first: for values of code that is compiled separately because of it, which no caller of
    the target passes."""
    call_changes: tuple[CallChange, ...] = ()
    """Changed calls that make it happen; none for what a call cannot change, and for modes, which have no remedy."""
    raises: bool = False
    """Whether each call that was made with it raised: `cost` says so, and there are no remedies."""

    @property
    def title(self) -> str:
        """`the batch changes (x.size(0): 6 → 5)`."""
        return f"{self.what} ({self.detail})" if self.detail else self.what


def expected_changes(context: Context) -> tuple[ExpectedChange, ...]:
    """Return the changes that the report has forecasts of: those that recompile first.

    Of these, those of the target's own call come first, and of these the likely ones.
    Where some compiled code has no forecast, only those that recompile: the others may recompile that code.
    """
    is_partial = has_unasked_parts(context.report)
    groups: dict[tuple[object, ...], list[AskedChange]] = {}
    for asked in linked_changes(context):
        if asked.change.recompiles or not is_partial:
            groups.setdefault(_reason_key(context, asked), []).append(asked)
    changes = [_expected(context, group) for group in groups.values()]
    changes.sort(
        key=lambda change: (
            not change.recompiles,
            change.first_break is not None,
            not change.is_likely,
            RANKS[change.kind],
        )
    )
    return tuple(changes)


def has_unasked_parts(report: Report) -> bool:
    """Whether some compiled code has no forecast: one that changes what its guards check, or one of a library."""
    asked = {
        (forecast.location.path, forecast.location.line, forecast.resumes_at) for forecast in report.forecasts
    }
    compiled = {record.frame for record in report.compiles if record.outcome is Outcome.COMPILED}
    frames = (frame for index, frame in enumerate(report.frames) if index in compiled)
    return any((frame.location.path, frame.location.line, frame.resumes_at) not in asked for frame in frames)


def lens_text(changes: Iterable[ExpectedChange]) -> str:
    """Say what is likely to compile again: `recompiles if the batch or the sequence length changes`; empty if nothing.

    A mode is not named: nearly every function is compiled again for each mode. Nor is what no caller can change.
    """
    nouns = dict.fromkeys(
        change.noun
        for change in changes
        if change.call_changes and change.is_likely and KINDS[change.kind].is_of_data
    )
    shown = list(nouns)[:_IN_LENS]
    return f"recompiles if {' or '.join(shown)} changes" if shown else ""


def folded(changes: Iterable[ExpectedChange]) -> tuple[list[ExpectedChange], list[tuple[Location, int]]]:
    """The changes to list, and for each break to fix first how many more changes code compiles again for."""
    listed: list[ExpectedChange] = []
    counts: dict[Location, int] = {}
    for change in changes:
        if change.first_break is None:
            listed.append(change)
        else:
            counts[change.first_break] = counts.get(change.first_break, 0) + 1
    return listed, list(counts.items())


def folded_text(place: str, count: int) -> str:
    """`fix the break on layers.py:38 first: 3 more changes recompile code that it separates`."""
    verb = "recompiles" if count == 1 else "recompile"
    return (
        f"fix the break on {place} first: {format_count(count, 'more change')} {verb} code that it separates"
    )


def _reason_key(context: Context, asked: AskedChange) -> tuple[object, ...]:
    frame, forecast = asked.frame, asked.change
    kind = KINDS[forecast.kind]
    if kind.scope is ChangeScope.MODE:
        return (forecast.kind, forecast.was, forecast.now, forecast.recompiles)
    place = _place(context, forecast)
    line = None if place is None else (place.path, place.line)
    function = (frame.function, frame.location.path, frame.location.line, frame.resumes_at, asked.parts)
    subject = forecast.subject if kind.scope is ChangeScope.DIMENSION else ()
    values = (forecast.was, forecast.now) if kind.differs_by_values else forecast.was in _BOOLS
    return (
        function,
        forecast.kind,
        forecast.recompiles,
        forecast.is_likely,
        forecast.repeats,
        tuple((value.compiles > 0, value.raised) for value in forecast.tried),
        line,
        subject,
        values,
    )


def _place(context: Context, forecast: Forecast) -> Location | None:
    home = context.innermost_user_frame(forecast.born)
    return home or next((frame for frame in reversed(forecast.born) if not is_machinery(frame.path)), None)


def _expected(context: Context, group: Sequence[AskedChange]) -> ExpectedChange:
    frame, forecast = group[0].frame, group[0].change
    subject = tuple(dict.fromkeys(_words(name) for asked in group for name in asked.change.subject))
    noun = _noun(group[0], subject)
    kind = KINDS[forecast.kind]
    what, detail = kind.phrase(NamedChange(forecast, noun, subject, is_alone=len(group) == 1))
    line = group[0].named.resumes_at
    if line is not None and not kind.crosses_breaks:
        detail = ", ".join(filter(None, [detail, f"after the graph break on line {line}"]))
    limit = Limit.of(context, group)
    reasons = dict.fromkeys(_reason(context, asked) for asked in group if asked.change.recompiles)
    functions = (name for asked in group for name in (_function(asked.frame), *map(_function, asked.parts)))
    cost = (
        cost_of(forecast, limit, is_alone=len(group) == 1) + _parts(group[0].parts)
        if forecast.recompiles
        else ""
    )
    return ExpectedChange(
        kind=forecast.kind,
        subject=subject,
        functions=tuple(dict.fromkeys(functions)),
        path=frame.location.path,
        noun=noun,
        what=what,
        detail=detail,
        recompiles=forecast.recompiles,
        is_likely=forecast.is_likely,
        cost=cost,
        further_compiles=further_compiles(forecast, limit) if forecast.recompiles else 0,
        reason="; ".join(filter(None, reasons)),
        guards=tuple(dict.fromkeys(asked.change.guard for asked in group if asked.change.guard)),
        place=_place(context, forecast),
        remedies=_remedies(context, group[0], subject),
        first_break=first_break(context, group[0]) if forecast.recompiles else None,
        call_changes=_call_changes(context, group[0]) if forecast.recompiles else (),
        raises=call_raises(forecast),
    )


def _call_changes(context: Context, asked: AskedChange) -> tuple[CallChange, ...]:
    """Calls with the change; two, with two values, where each new value compiles."""
    forecast, kind = asked.change, KINDS[asked.change.kind]
    if kind.scope is ChangeScope.MODE or call_raises(forecast) or not is_of_call(context, asked):
        return ()
    subject = tuple(map(_words, forecast.subject))
    first = CallChange(forecast.kind, subject, forecast.now)
    if (
        not kind.has_second_value
        or not forecast.repeats
        or not (_is_int(forecast.was) and _is_int(forecast.now))
    ):
        return (first,)
    further = 2 * int(forecast.now) - int(forecast.was)
    if kind.smallest is not None and further < kind.smallest:
        return (first,)
    return first, CallChange(forecast.kind, subject, str(further))


def _is_int(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _function(frame: FrameForecast) -> str:
    """`Net.forward`, and `Net.forward from line 24 on` for a part after a graph break."""
    return frame.function if frame.resumes_at is None else f"{frame.function} from line {frame.resumes_at} on"


def _parts(parts: Sequence[FrameForecast]) -> str:
    """What else is compiled again, at the end of a cost."""
    lines = [str(forecast.resumes_at) for forecast in parts]
    if not lines:
        return ""
    words = (
        f"part from line {lines[0]} on compiles" if len(lines) == 1 else f"{len(lines)} later parts compile"
    )
    return f"; its {words} too"


def _remedies(context: Context, asked: AskedChange, subject: tuple[str, ...]) -> tuple[str, ...]:
    frame, forecast, kind = asked.frame, asked.change, KINDS[asked.change.kind]
    if not forecast.recompiles or call_raises(forecast):
        return ()
    # Without the break, an argument has the same guard; a tensor that was computed before the break has none.
    passed = _words(forecast.source) in {_SIZE.sub(r"\g<tensor>", name) for name in subject}
    is_argument = asked.named.resumes_at is None and (kind.is_python_value or passed)
    if frame.resumes_at is not None and not is_argument and not kind.crosses_breaks:
        return after_break(frame.resumes_at)
    if forecast.is_loop_count:
        return loop_remedies(subject[0])
    is_users = context.is_user_file(frame.location.path)
    is_number = forecast.kind is ChangeKind.NUMBER and frame.resumes_at is None
    return kind.remedies(
        Advice(
            forecast,
            subject,
            is_users,
            _ranks(frame),
            context.report.versions.torch or "",
            may_be_marked=is_of_call(context, asked),
            uses=uses_of(context.read_line, frame.location, subject) if is_number else frozenset(),
        )
    )


def _words(text: str) -> str:
    """An expression of torch's as the user would write it: `L['self']._modules['fc'].p` as `self.fc.p`."""
    text = _ITEM.sub(r"[\1]", _VARIABLE.sub(r"\1", text))
    return _KEYWORD.sub(r"\2", _DIMENSION.sub(r".size(\1)", _SUBMODULE.sub(r"\1\2", text)))


def _ranks(frame: FrameForecast) -> dict[str, int]:
    """The number of dimensions of each tensor: every size of a tensor has a forecast."""
    ranks: dict[str, int] = {}
    for change in frame.changes:
        for name in change.subject if change.kind is ChangeKind.SIZE else ():
            size = _SIZE.match(_words(name))
            if size is not None:
                tensor, count = size["tensor"], int(size["dimension"]) + 1
                ranks[tensor] = max(ranks.get(tensor, 0), count)
    return ranks


def _noun(asked: AskedChange, subject: tuple[str, ...]) -> str:
    """What changes, in one or two words: the usual meaning of a size, else the names."""
    forecast, kind = asked.change, KINDS[asked.change.kind]
    # A tensor that the code made may have sizes that mean anything.
    if kind.scope is ChangeScope.DIMENSION and asked.named.resumes_at is None:
        ranks = _ranks(asked.named)
        sizes = [match for name in subject if (match := _SIZE.match(name)) is not None]
        meanings = {_MEANINGS.get((ranks.get(size["tensor"], 0), int(size["dimension"]))) for size in sizes}
        meaning = meanings.pop() if len(meanings) == 1 else None
        if meaning is not None and forecast.is_likely:
            return meaning
    return kind.noun.format(names_text(subject))


_MEANINGS = {
    (2, 0): "the batch",
    (3, 0): "the batch",
    (4, 0): "the batch",
    (2, 1): "the sequence length",
    (3, 1): "the sequence length",
    (4, 2): "the height",
    (4, 3): "the width",
}
"""What programs usually use a dimension for, by the number of dimensions and its index."""


def _reason(context: Context, asked: AskedChange) -> str:
    """The guard as a condition: `x.size(0) == 6`, `mode == 'sum'`."""
    forecast, line, kind = asked.change, asked.frame.resumes_at, KINDS[asked.change.kind]
    if kind.state:
        return f"{kind.state} is {forecast.was}"
    source = _words(forecast.source)
    match = _MISMATCH.search(forecast.guard)
    if match is not None and match["index"]:
        return f"{source}.{match['what']}({match['index']}) == {match['expected'].strip()}"
    if match is not None and kind.has_tensor_guard:
        return f"{source}.{match['what']} == {forecast.was}"
    text = _words(forecast.condition or forecast.guard)
    if line is not None:
        text = carried_in_words(context, resumption_on(context, asked.frame.location, line), text)
    return text[:_LONGEST_REASON]


_MISMATCH = re.compile(
    r"tensor '.+' (?P<what>\w+) mismatch(?: at index (?P<index>\d+))?\. expected (?P<expected>[^,]+)"
)
