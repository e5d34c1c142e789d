"""Graph breaks: one finding for each cause and line.

Dynamo raises the same break once per frame, attempt and compile, and once more for each frame it was inlined
into: all of them name the same innermost place and first id. Invariant: every break of the report is in
exactly one finding, whose primary span is the innermost workspace frame that led to it and whose related
spans hold the rest; those inside a broken call of the standard library are only counted, on the call.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from fuselight.shared.foreign_data import try_parse_expression
from fuselight.shared.report import Break, Location
from fuselight_server.base.finding import Finding, Related, Severity, Span
from fuselight_server.base.formatting import format_count, format_list
from fuselight_server.explain.findings.advice.advice import with_joint_changes, worded
from fuselight_server.explain.findings.advice.break_cures import (
    INLINED,
    break_cures,
    number_cures,
    with_trials,
)
from fuselight_server.explain.findings.breaks.array_indices import inner_index
from fuselight_server.explain.findings.breaks.branch_advice import BRANCH_IDS
from fuselight_server.explain.findings.breaks.branch_conditions import tensor_operand
from fuselight_server.explain.findings.breaks.break_costs import break_costs
from fuselight_server.explain.findings.breaks.break_remedies import (
    ASKED_FOR,
    IN_LOOP,
    break_text,
    broken_line,
    is_requested_by_library,
    words_of,
)
from fuselight_server.explain.findings.breaks.break_texts import title_of
from fuselight_server.explain.findings.breaks.generators import follows_break
from fuselight_server.explain.findings.breaks.library_breaks import is_without_file
from fuselight_server.explain.findings.breaks.loop_breaks import loop_words
from fuselight_server.explain.findings.breaks.thread_settings import for_thread
from fuselight_server.explain.findings.common.context import Context, span_of
from fuselight_server.explain.findings.common.library_calls import is_inside_broken_call
from fuselight_server.explain.findings.common.text import place, plain, sentence

_NO_ID = "FL107"
_DISABLED = frozenset({"GB0098", "GB0099"})
"""Breaks of calls of a function that is marked torch.compiler.disable."""
_CALL_LINES = 200
"""Lines of a call that are read."""
_NAME_AT_END = re.compile(r"([^\W\d]\w*)\s*$")
_NUMBER = re.compile(r"\d+")


def break_findings(context: Context) -> Iterator[Finding]:
    """The findings of the report's breaks."""
    groups: dict[tuple[object, ...], list[tuple[Break, Location | None]]] = {}
    homeless: list[tuple[Break, tuple[object, ...]]] = []
    for graph_break in context.report.breaks:
        if context.is_of_refused_call(graph_break.call, graph_break.ids[0] if graph_break.ids else None):
            continue
        home = context.innermost_user_frame(graph_break.stack, graph_break.above)
        cause = _cause_key(graph_break)
        if home is None:
            homeless.append((graph_break, cause))
        else:
            groups.setdefault((*cause, home.path, home.line), []).append((graph_break, home))
    for graph_break, cause in homeless:
        same = next((key for key in groups if key[: len(cause)] == cause), (*cause, None, None))
        groups.setdefault(same, []).append((graph_break, None))
    groups, inside = _without_inner(context, _with_indices(groups))
    reported = [
        (_finding(context, group, inside[key[-2:]]), broken_line(group[0][0]))
        for key, group in groups.items()
    ]
    counts = Counter((finding.code, finding.span, finding.title) for finding, _ in reported)
    for finding, broke in reported:
        is_alone = counts[finding.code, finding.span, finding.title] == 1
        # One call may lead to several lines of a library that break in the same way: each is an entry.
        if broke is None or is_alone or context.is_user_file(broke.path):
            yield finding
        else:
            yield dataclasses.replace(finding, title=f"{finding.title} (at {place(broke)})")


_Groups: TypeAlias = "dict[tuple[object, ...], list[tuple[Break, Location | None]]]"


def _with_indices(groups: _Groups) -> _Groups:
    """The groups, those of the index of an array in that of the number which the expression around it reads."""
    kept = dict(groups)
    for key, group in groups.items():
        around = (
            other
            for other, items in kept.items()
            if other[-2:] == key[-2:]
            and other != key
            and inner_index(items[0][0], [group[0][0]]) is group[0][0]
        )
        if (outer := next(around, None)) is not None:
            kept[outer] = [*kept[outer], *kept.pop(key)]
    return kept


def _without_inner(context: Context, groups: _Groups) -> tuple[_Groups, Counter[tuple[object, ...]]]:
    """The groups without those inside a call that breaks the graph itself, and their number by the call's line."""
    inner = {
        key
        for key, group in groups.items()
        if all(is_inside_broken_call(context, item.stack, item.above) for item, _ in group)
    }
    kept = {key: group for key, group in groups.items() if key not in inner}
    return kept, Counter(key[-2:] for key in inner)


def _cause_key(graph_break: Break) -> tuple[object, ...]:
    first = graph_break.ids[0] if graph_break.ids else None
    name = first or (graph_break.types[0] if graph_break.types else graph_break.reason)
    if not graph_break.stack:
        return (None, None, None, None, None, None, name)
    at, broke = graph_break.stack[-1], broken_line(graph_break)
    line = (broke.path, broke.line) if broke is not None else None  # the end of the stack may be Dynamo's own
    return (at.path, at.line, at.column, at.end_line, at.end_column, line, name)


def _finding(context: Context, group: list[tuple[Break, Location | None]], in_call: int) -> Finding:
    """The finding of breaks of one cause and line; `in_call` lines of a library break inside the call, too."""
    # The record with the longest traced stack tells the most: it is the one that was inlined from furthest
    # out.
    first_ids = group[0][0].ids[:1]
    graph_break, home = max(
        group, key=lambda item: (item[0].ids[:1] == first_ids, item[1] is not None, len(item[0].stack))
    )
    code = (graph_break.ids[0] if graph_break.ids else None) or _NO_ID
    explanation = _with_sources(context, graph_break, break_text(graph_break))
    broke = broken_line(graph_break)
    words = words_of(context, graph_break)
    is_library_code = broke is not None and is_requested_by_library(context, graph_break, broke)
    inside, span, cause = "", None, ""
    if broke is not None and context.is_user_file(broke.path):
        cause = _cause_of_decorator(context, code, broke, words.title)
    elif broke is not None:
        cause = _shared_cause(context, graph_break, broke, (*words.hints, *graph_break.hints))
    if broke is not None and home is not None and not context.is_user_file(broke.path):
        where = "in code without a file" if is_without_file(broke.path) else "inside a library"
        inside = f"The break is {where}, at {place(broke)}; this call led there."
        span = _called_name(context, home)
    ids = (*graph_break.ids, *(gb_id for item, _ in group for gb_id in item.ids[:1]))
    gb_ids = tuple(dict.fromkeys(gb_id for gb_id in ids if gb_id and gb_id != code))
    is_inlined = len(graph_break.stack) > 1
    candidates = (
        ()
        if words.is_information
        else break_cures(
            (code, *gb_ids[:1]), broke, f"{words.title} {graph_break.context}", is_inlined=is_inlined
        )
    )
    if not words.is_information:
        broken = [item.compile_id for item, _ in group]
        candidates = (*number_cures(context, (code, *gb_ids[:1]), broke, broken), *candidates)
    follows = follows_break(context, graph_break)
    if code in BRANCH_IDS and broke is not None and broke == home:
        span = tensor_operand(context, broke)
    in_loop = loop_words(context, graph_break, home) if home is not None else ""
    remedies = with_trials(context, words.hints, candidates, is_inlined=is_inlined)
    cures = worded(candidates)
    remedies = with_joint_changes(remedies, cures, context.trials, home)
    return context.finding(
        code,
        f"graph break: {words.title}",
        "" if is_library_code else words.text or explanation,
        inside,
        _inside_call(context, broke, in_call),
        _chain(graph_break, in_loop),
        at=home,
        span=span,
        severity=Severity.INFORMATION
        if code in ASKED_FOR or words.is_information or follows is not None
        else None,
        cost=break_costs(context, [item[0] for item in group]),
        hints=for_thread(context, remedies, in_thread=graph_break.in_thread),
        cures=cures,
        call=graph_break.call,
        related=_related(context, graph_break, home),
        cause=cause,
        count=len({item[0].compile_id for item in group}),  # the same compile retries, which is no repeat
        follows=follows,
        gb_ids=gb_ids,
        in_loop=in_loop,
        data=(INLINED,) if is_inlined else (),
    )


def _shared_cause(context: Context, graph_break: Break, broke: Location, hints: tuple[str, ...]) -> str:
    """What breaks on several lines share that one library line causes: the same break, with the same advice.

    A break that skips its whole frame, or that led to others while it was handled, needs more than one that does not.
    Numbers and the traced code that torch quotes differ from line to line, whatever the cause.
    """
    at = (broke.path, broke.line, broke.column, broke.end_line, broke.end_column)
    quoted = "\n".join(
        line for line in graph_break.explanation.split("\n") if not line.lstrip().startswith("# File")
    )
    texts = (_NUMBER.sub("0", plain(text)) for text in (quoted, *hints))
    parts = (
        context.report.target.path,
        *at,
        *graph_break.ids,
        *graph_break.types,
        graph_break.frame_skipped,
        *texts,
    )
    return "\0".join(map(str, parts))


def _cause_of_decorator(context: Context, code: str, broke: Location, title: str) -> str:
    """What the calls of a disabled function in one function share: its decorator breaks each of them.

    Functions elsewhere may disable another one of this name.
    """
    is_named = code in _DISABLED and "`" in title
    parts = (context.report.target.path, broke.path, broke.function or "", title)
    return "\0".join(parts) if is_named else ""


def _called_name(context: Context, call: Location) -> Span | None:
    """The name that a call calls, without what it is called on and with; None for all else than a call."""
    if call.column is None:
        return _name_of_closed_call(context, call)
    last = max(call.line, min(call.end_line or call.line, call.line + _CALL_LINES))
    rows = [(context.read_line(call.path, line) or "").encode() for line in range(call.line, last + 1)]
    rows[-1] = rows[-1][: call.end_column]
    rows[0] = b" " * call.column + rows[0][call.column :]
    # An expression over several lines, and columns that are one too high on the first.
    rows[0] = b"(" + rows[0]
    node = try_parse_expression(b"\n".join(rows).decode("utf-8", "replace") + "\n)")
    if node is None:
        return None
    function = node.func if isinstance(node, ast.Call) else None
    name = getattr(function, "attr", None) or getattr(function, "id", None)
    if function is None or name is None or function.end_lineno is None or function.end_col_offset is None:
        return None
    end = function.end_col_offset - (function.end_lineno == 1)
    line = call.line + function.end_lineno - 1
    return Span(call.path, line, end - len(name.encode()), line, end)


def _name_of_closed_call(context: Context, call: Location) -> Span | None:
    """As `_called_name`, for a place that is no more than the line that closes a call."""
    text = context.source(call)
    if text is None or not text.startswith(")"):
        return None
    depth = 0
    for line in range(call.line, max(call.line - _CALL_LINES, 0), -1):
        row = context.read_line(call.path, line) or ""
        for at in range(len(row) if line < call.line else row.index(")") + 1, 0, -1):
            depth += (row[at - 1] in ")]}") - (row[at - 1] in "([{")
            if depth == 0:
                name = _NAME_AT_END.search(row[: at - 1])
                start, end = (len(row[:index].encode()) for index in name.span(1)) if name else (0, 0)
                return Span(call.path, line, start, line, end) if name else None
    return None


def _with_sources(context: Context, graph_break: Break, text: str) -> str:
    """Torch's text with the symbols of the compile, as `zf2`, by the names that they have in the source."""
    compiled = context.compile_of(graph_break.compile_id)
    names = {symbol.name: symbol.source for symbol in compiled.symbols if symbol.source} if compiled else {}
    return _SYMBOL.sub(lambda match: names.get(match[0], match[0]), text)


_SYMBOL = re.compile(r"\b(?:s|zf)\d+\b")


def _inside_call(context: Context, broke: Location | None, count: int) -> str:
    """What torch.compile meets in the library's functions that the broken call runs; said once, on the call."""
    if not count or broke is None or not context.is_user_file(broke.path):
        return ""
    lines = format_count(count, "more line")
    verb = "breaks graphs and goes" if count == 1 else "break graphs and go"
    return (
        f"torch then compiles functions of the library inside the call, where {lines} {verb} with this break."
    )


def _chain(graph_break: Break, in_loop: str) -> str:
    """Further problems that torch.compile hit while it handled the break."""
    later = [plain(kind) for kind in graph_break.types[1:]]
    named = zip(graph_break.ids[1:], later, strict=False)
    others = format_list([title_of(gb_id, kind, kind) for gb_id, kind in named if kind not in {"", IN_LOOP}])
    _, is_called, loop = in_loop.partition(" is called in the ")
    what = f"The function of this line is called in the {loop}" if is_called else "The line is in a loop"
    return " ".join(
        (
            *(
                (f"{what}, inside of which torch.compile cannot stop and resume.",)
                if IN_LOOP in later
                else ()
            ),
            *((sentence(f"While handling this break, torch.compile also hit: {others}"),) if others else ()),
        )
    )


def _related(context: Context, graph_break: Break, home: Location | None) -> tuple[Related, ...]:
    """The library line that broke, and the user's lines that led to the primary span."""
    broke = broken_line(graph_break)
    out: list[Related] = []
    if broke is not None and (home is None or (broke.path, broke.line) != (home.path, home.line)):
        out.append(
            Related(
                span_of(broke), f"breaks here, in `{broke.function}`" if broke.function else "breaks here"
            )
        )
    inner = context.trail(graph_break.stack[:-1], without=home, verb="called from")
    outer = context.trail(graph_break.above, without=home, verb="called from")
    known = {(item.span.path, item.span.line) for item in out}
    for item in (*inner, *outer):
        at = (item.span.path, item.span.line)
        if at not in known and context.is_user_file(item.span.path):
            known.add(at)
            out.append(item)
    return tuple(out)
