"""Values that a graph break carries over to the code after it, by the names that the user knows.

Compiled code that resumes after a break takes over what waits on Python's stack, which torch numbers: `___stack0`.
Invariant: a value has the name that the broken line assigns it to, else the expression that made it; where neither is
certain, the line of the break.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from fuselight.shared.foreign_data import try_parse_python
from fuselight.shared.report import Break, Frame, Location
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.waiting_values import WaitingValue, waiting_values

CARRIED_VALUE = re.compile(r"\b___stack(\d+)\b")
_WITH_PROPERTY = re.compile(
    r"\b___stack(?P<number>\d+)(?P<items>(?:\[(?:-?\d+|'[^'\[\]]*')\])*)"
    r"(?P<owner>\.__self__)?(?P<read>(?:\.\w+(?:\(\d*\)|\[[^\[\]]*\])?)*)"
)
_ITEM = re.compile(r"\[([^\[\]]+)\]")
_PATH = re.compile(r"[^\W\d]\w*(?:\.\w+|\[(?:-?\d+|'[^'\[\]]*')\])+")
"""An attribute or an item, which is what it was before."""
_LONGEST_EXPRESSION = 60
_Place = tuple[int, int, int, int]
"""Line, column, last line and last column of an expression."""


@dataclass(frozen=True)
class Resumption:
    """Compiled code that starts after a graph break."""

    function: Location
    """The `def` line of its function."""
    line: int
    broke: Break | None = None
    """The break before it; None where the report has none, or several of which any may be it."""
    carried: int | None = None
    """How many values it takes over."""


def resumption(context: Context, *ids: str | None) -> Resumption | None:
    """The break before a compiled part, by the ids of its compiles; None for a function from its start."""
    frames = ((name, context.frame_of(context.compile_of(name))) for name in ids)
    name, frame = next(((name, frame) for name, frame in frames if frame is not None), (None, None))
    if name is None or frame is None or frame.resumes_at is None:
        return None
    broke = _break_before(context, frame, name) or break_on(context, frame.location, frame.resumes_at)
    return Resumption(frame.location, frame.resumes_at, broke, frame.carried)


def resumption_on(context: Context, function: Location, line: int) -> Resumption:
    """As `resumption`, for a part of which only the line of its break is known."""
    counts = {
        frame.carried
        for frame in context.report.frames
        if frame.resumes_at == line
        and (frame.location.path, frame.location.line) == (function.path, function.line)
    }
    carried = next(iter(counts)) if len(counts) == 1 else None
    return Resumption(function, line, break_on(context, function, line), carried)


def break_on(context: Context, function: Location, line: int) -> Break | None:
    """The break on a line of a function, None where the report has none or several that differ."""
    graph_breaks = {graph_break.stack[0]: graph_break for graph_break in _breaks_on(context, function, line)}
    return next(iter(graph_breaks.values())) if len(graph_breaks) == 1 else None


def code_of(compile_id: str) -> str:
    """What the compiles of one code object have in common: `2` of `2/1`."""
    return compile_id.rpartition("/")[0]


def _breaks_on(context: Context, function: Location, line: int) -> Iterator[Break]:
    for graph_break in context.report.breaks:
        at = graph_break.stack[0] if graph_break.stack else None
        if at is None or at.path != function.path or not at.line <= line <= (at.end_line or at.line):
            continue
        # A comprehension is a function of its own before Python 3.12: no other code resumes after a break in it.
        if at.function == function.function or not (at.function or "").startswith("<"):
            yield graph_break


def _break_before(context: Context, frame: Frame, compile_id: str) -> Break | None:
    """The last break on the line in another compile before the first one of the part: code resumes right after it."""
    order = {record.id: index for index, record in enumerate(context.report.compiles)}
    own = [index for name, index in order.items() if code_of(name) == code_of(compile_id)]
    earlier = [
        (order[graph_break.compile_id], graph_break)
        for graph_break in _breaks_on(context, frame.location, frame.resumes_at or 0)
        if graph_break.compile_id in order and own and order[graph_break.compile_id] < min(own)
    ]
    return max(earlier, key=lambda item: item[0])[1] if earlier else None


def carried_in_words(context: Context, after: Resumption, text: str) -> str:
    """`text` with each value that the break carried over by the name that the user knows."""

    def words(match: re.Match[str]) -> str:
        read = match["read"].removesuffix(".item()").removeprefix(".")  # a scalar is its value
        return _named(
            context, after, int(match["number"]), match["items"], read, of_method=bool(match["owner"])
        )

    return _WITH_PROPERTY.sub(words, text) if CARRIED_VALUE.search(text) else text


def _named(
    context: Context, after: Resumption, number: int, items: str, read: str, *, of_method: bool
) -> str:
    at = after.broke.stack[0] if after.broke else None
    name = expression = ""
    if at is not None and at.column is not None and after.carried == number + 1:
        name = _assigned_name(context, at, items)
        expression = _expression(context, at, items)
    elif at is not None and (waiting := _waiting(context, after, number, at)) is not None:
        name = _name_of_waiting(context, at, waiting, items)
        if of_method and waiting.is_method:
            name = waiting.text.rpartition(".")[0] + items
        expression = _of_waiting(context, at, waiting, items)
    if name:
        return f"{name}.{read}" if read else name
    if expression:
        return f"{read} of {expression}" if read else expression
    parts = (read, *(f"item {item}" for item in reversed(_ITEM.findall(items))))
    return " of ".join((*filter(None, parts), f"a value on line {after.line}"))


def _expression(context: Context, at: Location, items: str) -> str:
    """The expression that broke: the last value that is carried over is its result."""
    source = (context.read_line(at.path, at.line) or "").encode("utf-8", "surrogateescape")
    is_whole = at.end_line in {None, at.line}
    content = source[at.column : at.end_column if is_whole else None].decode("utf-8", "replace").strip()
    if not content:
        return ""
    is_short = is_whole and len(content) <= _LONGEST_EXPRESSION
    text = f"{content}{items}" if is_short else f"{content[: _LONGEST_EXPRESSION - 1]}\N{HORIZONTAL ELLIPSIS}"
    return f"the value of `{text}` on line {at.line}"


def _of_waiting(context: Context, at: Location, waiting: WaitingValue, items: str) -> str:
    if waiting.is_method:
        return f"the bound method `{waiting.text}`"
    is_kept = waiting.text.isidentifier() and not _is_assigned(context, at, waiting.text)
    is_path = is_kept or _PATH.fullmatch(waiting.text) is not None
    return f"{waiting.text}{items}" if is_path else f"the value of `{waiting.text}{items}`"


def _is_assigned(context: Context, at: Location, name: str) -> bool:
    """Whether the line gives a variable another value, so that its name means that one afterwards."""
    line = context.read_line(at.path, at.line) or ""
    return re.match(rf"[^=(]*(?<![\w.]){name}\b[^=(]*=(?!=)", line) is not None


def _waiting(context: Context, after: Resumption, number: int, at: Location) -> WaitingValue | None:
    """The value `number` of those that wait for the expression that broke, in the statement on one line."""
    if at.column is None or at.end_column is None or at.end_line not in {None, at.line}:
        return None
    text = context.read_line(at.path, at.line)
    waiting = waiting_values([text.rstrip("\n")], at.column, at.end_column - at.column) if text else None
    is_all = waiting is not None and len(waiting) + 1 == after.carried
    return waiting[number] if waiting is not None and is_all and number < len(waiting) else None


def _name_of_waiting(context: Context, at: Location, waiting: WaitingValue, items: str) -> str:
    """What the statement assigns a value to that waits for the one that broke, as `a` in `a, b = x, y.item()`."""
    line = (context.read_line(at.path, at.line) or "").encode("utf-8", "surrogateescape")
    same = [
        place
        for place in _assignments(context.text_of(at.path))
        if place[0] == place[2] == at.line
        and line[place[1] : place[3]].decode("utf-8", "replace") == waiting.text
    ]
    return _with_items(context, at.path, same[0], items) if len(same) == 1 and not waiting.is_method else ""


def _assigned_name(context: Context, at: Location, items: str) -> str:
    """What the statement assigns the broken expression to, with its items: `counts[1]`, or the name of one of them."""
    if at.column is None or at.end_column is None:
        return ""
    return _with_items(context, at.path, (at.line, at.column, at.end_line or at.line, at.end_column), items)


def _with_items(context: Context, path: str, place: _Place, items: str) -> str:
    names = _assignments(context.text_of(path)).get(place, ())
    if len(names) == 1:
        return f"{names[0]}{items}"
    first, rest = (items[1:].split("]", 1)) if items else ("", "")
    return f"{names[int(first)]}{rest}" if first.isdecimal() and int(first) < len(names) else ""


@functools.lru_cache(maxsize=8)
def _assignments(text: str) -> dict[_Place, tuple[str, ...]]:
    """The targets of each assignment in a file, by the place of its value: several for one that is unpacked."""
    tree = try_parse_python(text)
    if tree is None:
        return {}
    assignments: dict[_Place, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            target: ast.expr = node.target
        elif isinstance(node, ast.Assign):
            target = node.targets[0]
        else:
            continue
        assignments.update(_pairs(target, node.value))
    return assignments


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[_Place, tuple[str, ...]]]:
    """The place of a value with the names that it gets; of `a, b = x, y` each on its own."""
    if value is None or value.end_lineno is None or value.end_col_offset is None:
        return
    yield (value.lineno, value.col_offset, value.end_lineno, value.end_col_offset), _names(target)
    both = (target, value)
    if all(isinstance(item, ast.Tuple) for item in both):
        items, values = (item.elts for item in both if isinstance(item, ast.Tuple))
        if len(items) == len(values) and not any(isinstance(item, ast.Starred) for item in (*items, *values)):
            for item, part in zip(items, values, strict=True):
                yield from _pairs(item, part)


def _names(target: ast.expr) -> tuple[str, ...]:
    if not isinstance(target, (ast.Tuple, ast.List)):
        return (ast.unparse(target),)
    is_plain = not any(isinstance(item, (ast.Starred, ast.Tuple, ast.List)) for item in target.elts)
    return tuple(map(ast.unparse, target.elts)) if is_plain and len(target.elts) > 1 else ()
