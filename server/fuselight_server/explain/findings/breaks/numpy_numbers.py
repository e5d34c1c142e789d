"""Exceptions of compiled code alone, where a helper returns an array of NumPy in place of a number.

In eager mode, NumPy's functions return numbers for numbers. In a helper that torch compiles by itself, they return
arrays without dimensions: `tensor * weight` then calls the tensor's `numpy()`, as arrays do.
"""

from __future__ import annotations

import ast
import math
import operator

from fuselight.shared.report import Compile, FactKind, Failure, Location
from fuselight_server.explain.findings.advice.expectations import NOT_TRIED
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import node_at, parents_of, tree_around
from fuselight_server.explain.findings.common.text import plain

_OF_NUMPY = "torch._dynamo.utils.wrapped_"
"""How the graph's targets of NumPy's functions and operators begin."""


def array_steps(context: Context, failure: Failure) -> tuple[str, ...]:
    """What to do about a helper whose array the failed line uses as a number; empty where the run shows none."""
    home = context.innermost_user_frame(failure.stack)
    for compiled in context.report.compiles if home is not None else ():
        place, frame = _array_place(context, compiled), context.frame_of(compiled)
        call = compiled.caller[-1] if compiled.caller else None
        if home is None or place is None or frame is None or call is None:
            continue
        text = (
            _used_call(context, home, call)
            if (call.path, call.function) == (home.path, home.function)
            else ""
        )
        if text:
            convert = f"onvert the result on line {call.line}, as `float({text})`"
            function = _of_math(compiled)
            first = (
                f"Compute with `{function}` on line {place.line}, or c{convert}"
                if function
                else f"C{convert}"
            )
            why = (
                f"torch compiles `{plain(frame.function)}` by itself, where NumPy's functions return an array"
            )
            return (f"{first}: {why} without dimensions in place of a number. {NOT_TRIED}",)
    return ()


def _array_place(context: Context, compiled: Compile) -> Location | None:
    """The line of the last operator of a graph, if that is of NumPy and makes an array without dimensions."""
    graph = compiled.graph
    if (
        graph is None
        or not graph.targets
        or not graph.targets[-1].startswith(_OF_NUMPY)
        or not graph.lines[-1]
    ):
        return None
    place, values = graph.lines[-1][-1], context.report.facts.values
    file = context.report.facts.files.get(place.path)
    shapes = (
        values[index]
        for fact in (file.facts if file is not None else ())
        if fact.line == place.line
        for index, _ in fact.values
    )
    return (
        place if any(item.kind is FactKind.TENSOR and item.text.endswith("[]") for item in shapes) else None
    )


def _used_call(context: Context, home: Location, call: Location) -> str:
    """The call of the helper, if the failed line makes it or reads the variable that has its result; else empty."""
    tree = tree_around(context, call)
    node = node_at(tree, call) if tree is not None else None
    if tree is None or node is None:
        return ""
    parent = parents_of(tree).get(node)
    targets = parent.targets if isinstance(parent, ast.Assign) else ()
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    lines = range(home.line, (home.end_line or home.line) + 1)
    is_read = any(
        isinstance(part, ast.Name) and part.id in names and part.lineno in lines for part in ast.walk(tree)
    )
    return ast.unparse(node) if is_read or call.line in lines else ""


def _of_math(compiled: Compile) -> str:
    """The function of `math` for what a graph calls of NumPy, besides operators; empty where one has none there."""
    targets = compiled.graph.targets if compiled.graph is not None else ()
    called = [target.removeprefix(_OF_NUMPY) for target in targets]
    functions = [name for name in called if not hasattr(operator, name)]
    return f"math.{functions[0]}" if functions and all(hasattr(math, name) for name in functions) else ""
