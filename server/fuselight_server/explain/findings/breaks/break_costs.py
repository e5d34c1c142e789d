"""What a graph break costs, from the compiles of the report: the graphs beside it, and what runs in eager mode.

Invariant: only graphs that end at the break or start after it are named as its two sides, and a function is never said
to have no graph where the report holds one of its code. Nothing is said where the report holds no compile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fuselight.shared.report import Break, Compile, Frame
from fuselight_server.base.formatting import cut_list, format_count, format_list
from fuselight_server.explain.findings.breaks.generators import COMPREHENSIONS, is_comprehension
from fuselight_server.explain.findings.breaks.loop_breaks import lines_in_loops, skipped_around
from fuselight_server.explain.findings.common.carried_values import code_of
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.text import plain

_MAX_NAMED = 2


@dataclass(frozen=True)
class GraphSides:
    """The graphs of a function that touch a break."""

    before: int
    """Operators of the graph that ends at the break; 0 for none."""
    after: int
    """Operators of the graph that starts right after it; 0 for none."""
    total: int
    """Graphs in which the function runs in the call."""

    @property
    def is_touching(self) -> bool:
        """Whether a graph of the function ends or starts at the break."""
        return bool(self.before or self.after)


def break_costs(context: Context, group: list[Break]) -> Iterator[str]:
    """What the records of one break cost; nothing where the report holds no facts."""
    skipped = next((graph_break for graph_break in group if graph_break.frame_skipped), None)
    outermost = max(group, key=lambda item: len(item.stack))
    around = skipped_around(context, (*outermost.above, *outermost.stack)) if skipped is None else None
    if around is not None:
        yield (
            f"this line is called in the same loop as line {around.line}: all of `{plain(around.function or '')}` runs "
            "in eager mode until neither of them breaks the graph"
        )
    if skipped is not None:
        yield from _of_skipped(context, skipped)
    elif outermost.rest_from is not None:
        where = f"the rest of {_name(outermost)}, from line {outermost.rest_from} on,"
        yield f"{where} runs in eager mode: torch cannot resume it after this break"
    else:
        called = _compiled_calls(context, outermost)
        yield from _split(context, group, has_calls=bool(called))
        if called:
            verb = "is" if len(called) == 1 else "are"
            yield f"{format_list(called)}, which this line calls, {verb} compiled separately"
            yield "no kernel is fused across the call"
        else:
            eager = _eager_function(context, outermost) if context.report.compiles else None
            what = "this line runs" if eager is None else f"all of `{plain(eager)}` runs"
            yield f"{what} in eager mode, and no kernel is fused across it"


def sides_of(context: Context, graph_break: Break) -> GraphSides | None:
    """The graphs on both sides of a break; None where the report does not hold its compile."""
    compiles = _same_function(context, graph_break)
    before = next((item for item in compiles if item.id == graph_break.compile_id), None)
    if before is None:
        return None
    total = len({code_of(item.id) for item in compiles if _size(item)})
    return GraphSides(_size(before), _size(_resumed(context, graph_break, compiles)), total)


def _of_skipped(context: Context, graph_break: Break) -> Iterator[str]:
    # What was compiled of the function before stays: only a resumption of it was skipped then.
    part = "the rest" if any(map(_size, _same_function(context, graph_break))) else "all"
    own, function = graph_break.stack[:1], graph_break.frame_function or ""
    called = of_compiled_calls(context, own[0].path, function) if own else ""
    yield f"{part} of {_name(graph_break)} runs in eager mode, not only this line{called}"
    lines = lines_in_loops(context, graph_break.stack[0]) if graph_break.stack else ()
    if lines:
        yield f"the graph breaks on lines {format_list(map(str, lines))} are in loops: all of them have to go"
    yield "torch traces nothing of it after this line: further lines may break the graph"
    if graph_break.operators:
        yield f"the {format_count(graph_break.operators, 'operator')} traced before this line run in eager too"


def calls_compiled(context: Context, path: str, function: str) -> tuple[str, ...]:
    """What a function of a file calls that gave a graph, as under `disable(recursive=False)`: the names, each once."""
    caller = (path, function.rpartition(".")[2])
    frames = (
        context.frame_of(item)
        for item in context.report.compiles
        if _size(item) and any((above.path, above.function) == caller for above in item.caller)
    )
    return tuple(dict.fromkeys(f"`{plain(frame.function)}`" for frame in frames if frame is not None))


def of_compiled_calls(context: Context, path: str, function: str) -> str:
    """What is compiled of a function in eager mode, as the end of a sentence: layers of torch, say, are not."""
    names = calls_compiled(context, path, function)
    verb = "is" if len(names) == 1 else "are"
    shown = format_list(cut_list(names, _MAX_NAMED + 1))
    return f"; of what it calls, only {shown} {verb} compiled" if names else ""


def _split(context: Context, group: list[Break], *, has_calls: bool) -> Iterator[str]:
    """How the break splits the graphs of its function, and of the functions that this was inlined into."""
    known = [
        (graph_break, sides) for graph_break in group if (sides := sides_of(context, graph_break)) is not None
    ]
    known.sort(key=lambda item: by_function(context, item[0]))
    touching = [item for item in known if item[1].is_touching]
    if touching:
        innermost, sides = touching[0]
        yield _sides_in_words(_name(innermost), sides)
        yield from _callers(context, innermost, known)
    elif known and not has_calls:
        own, parts = _name(known[0][0]), _compiled_on_the_way(context, group)
        if own in parts and len(known[0][0].stack) == 1:
            yield f"{own} has other graphs, and none of its operators run right before or after this line"
        elif parts:
            verbs = ("leads", "is") if len(parts) == 1 else ("lead", "are")
            yield f"{format_list(parts)}, which {verbs[0]} to this line, {verbs[1]} compiled separately"
        else:
            yield f"{_name(known[-1][0])} has no graph left"


def _callers(context: Context, innermost: Break, known: list[tuple[Break, GraphSides]]) -> Iterator[str]:
    """What the break costs the user's functions that lead to it: their graph cannot hold the call any more."""
    names: dict[str, bool] = {}
    for graph_break, sides in known:
        is_users = bool(graph_break.stack) and context.is_user_file(graph_break.stack[0].path)
        if is_users and _name(graph_break) != _name(innermost):
            is_split = bool(sides.before and sides.after)
            names[_name(graph_break)] = names.get(_name(graph_break), False) or is_split
    split = [name for name, is_split in names.items() if is_split]
    others = [name for name, is_split in names.items() if not is_split]
    if split:
        verbs = ("leads", "is") if len(split) == 1 else ("lead", "are")
        yield f"{format_list(split)}, which {verbs[0]} here, {verbs[1]} split too"
    if others:
        verbs = ("leads", "has") if len(others) == 1 else ("lead", "have")
        shown = format_list(cut_list(others, _MAX_NAMED))
        yield f"{shown}, which {verbs[0]} here, {verbs[1]} no graph that continues across the call"


def by_function(context: Context, graph_break: Break) -> tuple[bool, int]:
    """Order the records of one break by the function to name: the user's before a library's, the innermost first."""
    is_users = bool(graph_break.stack) and context.is_user_file(graph_break.stack[0].path)
    return not is_users, len(graph_break.stack)


def _sides_in_words(name: str, sides: GraphSides) -> str:
    head, tail = (format_count(size, "operator") for size in (sides.before, sides.after))
    if sides.before and sides.after:
        return (
            f"{name} is split into {sides.total} graphs: {head} right before this line, {tail} right after it"
        )
    which = "the only graph" if sides.total == 1 else "a graph"
    if sides.before:
        return f"{which} of {name} ends here, after {head}"
    return f"{which} of {name} starts after this line, with {tail}"


def _compiled_on_the_way(context: Context, group: list[Break]) -> list[str]:
    """The functions on the way to the break with a graph of their code in the report, the first ones by name."""
    places = {(place.path, place.function) for graph_break in group for place in graph_break.stack}
    roots = {context.frame_of(context.compile_of(graph_break.compile_id)) for graph_break in group}
    names: dict[str, None] = {}
    for item in context.report.compiles:
        frame = context.frame_of(item)
        if frame is None or not _size(item):
            continue
        if (frame.location.path, frame.function.rpartition(".")[2]) in places or _is_of_any(frame, roots):
            names[f"`{plain(frame.function)}`"] = None
    return cut_list(names, _MAX_NAMED)


def _eager_function(context: Context, graph_break: Break) -> str | None:
    """The user's function around the break that torch never compiles; None if the innermost one was tried by itself.

    After a break, torch compiles each function that the line calls by itself, but none that an operator calls for it,
    as `checkpoint`: that runs in eager mode, with all that it calls.
    """
    tried = {
        (item.stack[0].path, item.frame_function.rpartition(".")[2])
        for item in context.report.breaks
        if item.stack and item.frame_function
    }
    frames = (context.report.frames[item.frame] for item in context.report.compiles if _size(item))
    tried |= {(frame.location.path, frame.function.rpartition(".")[2]) for frame in frames}
    name = None
    for place in reversed(graph_break.stack[1:]):
        if (place.path, place.function) in tried:
            break
        if place.function and place.function not in COMPREHENSIONS and context.is_user_file(place.path):
            name = place.function
    return name


def _is_of_any(frame: Frame, roots: set[Frame | None]) -> bool:
    return any(
        root is not None and (frame.function, frame.location) == (root.function, root.location)
        for root in roots
    )


def _compiled_calls(context: Context, graph_break: Break) -> list[str]:
    """The functions with a graph of their own that the user's line with the break calls, the first ones by name."""
    home = context.innermost_user_frame((*graph_break.above, *graph_break.stack))
    own = context.frame_of(context.compile_of(graph_break.compile_id))
    if home is None:
        return []
    names: dict[str, None] = {}
    for item in context.report.compiles:
        frame = context.frame_of(item)
        if frame is None or not _size(item) or not item.caller:
            continue
        is_own = (
            own is not None and context.is_user_file(own.location.path) and frame.location == own.location
        )
        if is_own or (item.caller[-1].path, item.caller[-1].line) != (home.path, home.line):
            continue
        if not frame.location.path.startswith(_GENERATED):
            names[f"`{plain(frame.function)}`"] = None
        elif "compiled_autograd" in context.report.environment.config:
            names["the backward pass"] = None
    return cut_list(names, _MAX_NAMED)


_GENERATED = "<"
"""How the path begins of code that is in no file: a graph that torch wrote, as that of compiled autograd."""


def _name(graph_break: Break) -> str:
    name = plain(graph_break.frame_function or "")
    if is_comprehension(name):
        return f"the comprehension in `{name.rpartition('.')[0]}`"
    return f"`{name}`" if name else "the function"


def _size(compiled: Compile | None) -> int:
    """Operators of a compile's graph; 0 without one."""
    return compiled.graph.operators if compiled and compiled.graph else 0


def _same_function(context: Context, graph_break: Break) -> list[Compile]:
    """The compiles of the function that broke and of its resumptions, in order, in the break's call."""
    own = context.compile_of(graph_break.compile_id)
    frame = context.frame_of(own)
    if own is None or frame is None:
        return []
    return [item for item in context.compiles_of(frame.function, frame.location) if item.call == own.call]


def _resumed(context: Context, graph_break: Break, compiles: list[Compile]) -> Compile | None:
    """The compile of the code after the break: the next one that resumes on its line, which comes right after it."""
    at = graph_break.stack[0] if graph_break.stack else None
    if at is None:
        return None
    index = next(number for number, item in enumerate(compiles) if item.id == graph_break.compile_id)
    lines = range(at.line, (at.end_line or at.line) + 1)
    resumed = [
        item
        for item in (
            *compiles[index + 1 :],
            *compiles[:index],
        )  # a part that exists already is not compiled again
        if code_of(item.id) != code_of(graph_break.compile_id)
        and context.report.frames[item.frame].resumes_at in lines
    ]
    return resumed[0] if resumed else None
