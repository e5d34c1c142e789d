"""Generators and comprehensions that torch.compile meets alone, in the words of the line that has them.

torch traces a generator as a part of the function that goes through it. Where that function runs in eager mode, Python
calls the generator, and before 3.12 a comprehension, as a function of its own: nobody wrote its name, `<genexpr>`.
Invariant: what led there is named only where the report holds it.
"""

from __future__ import annotations

import ast

from fuselight.shared.report import Break, Location, NotCompiledKind, Stack
from fuselight_server.base.finding import Related
from fuselight_server.explain.findings.common.context import Context, span_of
from fuselight_server.explain.findings.common.source_tree import tree_around
from fuselight_server.explain.findings.common.text import place

COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
"""Functions in the bytecode alone; of Python before 3.12, but for the last."""
_STOPPED = "GB8335"
"""A generator that a graph break would have to stop halfway: it comes after a break in the generator's own code."""
_ALONE = "GB4347"
"""The iterator of a comprehension that torch meets alone, without the function that made it."""
_NODES: dict[str, type[ast.expr]] = {
    "<listcomp>": ast.ListComp,
    "<setcomp>": ast.SetComp,
    "<dictcomp>": ast.DictComp,
    "<genexpr>": ast.GeneratorExp,
}
_MAX_WRITTEN = 60


def is_comprehension(function: str) -> bool:
    """Whether a function is one that Python makes of an expression."""
    return function.rpartition(".")[2] in COMPREHENSIONS


def is_lone_comprehension(gb_id: str | None, function: str) -> bool:
    """Whether a function is a comprehension that torch met without the function around it."""
    return gb_id == _ALONE and is_comprehension(function)


def written_name(context: Context, function: str, at: Location) -> str:
    """The expression that Python made a function of, as ``the generator expression `f(x) for x in xs` in `step` ``."""
    owner, _, name = function.rpartition(".")
    tree = tree_around(context, at)
    nodes = [
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, _NODES[name]) and node.lineno <= at.line <= (node.end_lineno or node.lineno)
    ]
    kind = "generator expression" if name == "<genexpr>" else "comprehension"
    text = ast.unparse(nodes[0]) if len(nodes) == 1 else ""
    text = text.removeprefix("(").removesuffix(")") if name == "<genexpr>" else text
    shown = f" `{text}`" if text and len(text) <= _MAX_WRITTEN and "`" not in text else f" on line {at.line}"
    return f"the {kind}{shown} in `{owner}`" if owner else f"the {kind}{shown}"


def why_alone(context: Context, caller: Stack) -> Related | None:
    """The graph break that keeps the function around a generator in eager mode; None where the report has none.

    It is what the function was skipped for, or a break on the very line that goes through the generator.
    """
    own = next((frame for frame in reversed(caller) if context.is_user_file(frame.path)), None)
    if own is None:
        return None
    skipped = (
        item.stack[-1]
        for item in context.report.not_compiled
        if item.kind is NotCompiledKind.SKIPPED
        and item.stack
        and (item.location.path, item.function.rpartition(".")[2]) == (own.path, own.function)
    )
    on_line = (
        item.stack[-1] for item in context.report.breaks if any(_is_on(frame, own) for frame in item.stack)
    )
    broke = next(skipped, None) or next(on_line, None)
    return _follows(context, broke, own.path) if broke is not None else None


def _follows(context: Context, broke: Location, path: str) -> Related:
    home = context.innermost_user_frame((broke,)) or broke
    where = f"on line {home.line}" if home.path == path else f"at {place(home)}"
    return Related(span_of(home), f"it follows from the graph break {where}")


def follows_break(context: Context, graph_break: Break) -> Related | None:
    """What to fix before a break in a generator or a comprehension that torch cannot trace because of it."""
    gb_id = graph_break.ids[0] if graph_break.ids else None
    if is_lone_comprehension(gb_id, graph_break.frame_function or ""):
        return why_alone(context, graph_break.above)
    generator = context.innermost_user_frame(graph_break.stack) if gb_id == _STOPPED else None
    broke = _break_in(context, graph_break, generator) if generator is not None else None
    return _follows(context, broke, generator.path) if broke is not None and generator is not None else None


def _break_in(context: Context, stopped: Break, generator: Location) -> Location | None:
    """The user's line of another break in a generator: on its line, or in it where it is a function of its own."""
    others = [item for item in context.report.breaks if item.ids[:1] != stopped.ids[:1]]
    on_line = (item for item in others if any(_is_on(frame, generator) for frame in item.stack))
    in_function = (
        item
        for item in others
        if len(stopped.stack) > 1
        and any((frame.path, frame.function) == (generator.path, generator.function) for frame in item.stack)
    )
    other = next(on_line, None) or next(in_function, None)
    return context.innermost_user_frame(other.stack) if other is not None else None


def _is_on(frame: Location, place: Location) -> bool:
    return (frame.path, frame.line) == (place.path, place.line)


def generator_words(
    context: Context, graph_break: Break, title: str
) -> tuple[str, str, tuple[str, ...]] | None:
    """Title, text and steps of a break that a generator or a comprehension has for itself; None for other breaks."""
    gb_id = graph_break.ids[0] if graph_break.ids else None
    is_alone = is_lone_comprehension(gb_id, graph_break.frame_function or "")
    if gb_id != _STOPPED and not is_alone:
        return None
    cause = follows_break(context, graph_break)
    first = f"See the graph break on line {cause.span.line} first" if cause is not None else ""
    if is_alone:
        return _ALONE_TITLE, _ALONE_TEXT, (first or "See why the function around it runs in eager mode",)
    return title, _STOPPED_TEXT, (f"{first}: this one comes after it" if first else _LISTED,)


_STOPPED_TEXT = (
    "After a graph break, torch continues in a new function, and cannot pass on a generator that has begun."
)
_LISTED = "Make a list of the generator before the line that breaks the graph, or remove that graph break"
_ALONE_TITLE = "a comprehension in code that runs in eager mode is not traced"
_ALONE_TEXT = (
    "Python before 3.12 calls a comprehension as a function of its own. Where the code around it runs in eager mode, "
    "torch meets it alone, and does not trace the iterator that it is given."
)
