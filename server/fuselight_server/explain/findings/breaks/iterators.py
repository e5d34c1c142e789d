"""`next()` of an iterator that was made outside the compiled code: torch refuses most of them.

Invariant: an iterator counts as one from outside only if the function that calls `next()` gets it, and assigns it
nowhere.
"""

from __future__ import annotations

import ast
import re

from fuselight.shared.report import Break, Location
from fuselight_server.explain.findings.breaks.branch_conditions import is_computed
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import parents_of, tree_around

_IDS = frozenset({"GB0160", "GB4347"})
_WRITTEN_IN_C = "GB9493"
"""Any special method of C; `__next__` among them, from torch 2.15 on."""
_KIND = re.compile(r"next\(\) on ([\w.]+?)(?:\.\s|\.?$)|'([\w.]+)' implements '__next__' in C")
_TITLE = "`next()` is called on an iterator from outside the compiled code"
_TEXT = "torch.compile does not trace next() on {} that was made outside the compiled code."
_OUTSIDE = "outside the compiled code"


def is_next_of_iterator(gb_id: str | None, explanation: str) -> bool:
    """Whether torch refused `next()` of an object."""
    return gb_id in _IDS or (gb_id == _WRITTEN_IN_C and "'__next__'" in explanation)


def iterator_words(
    context: Context, graph_break: Break, broke: Location
) -> tuple[str, str, tuple[str, ...]] | None:
    """Title, text and steps for `next()` of an iterator from outside; None for all other breaks."""
    gb_id = graph_break.ids[0] if graph_break.ids else None
    if not is_next_of_iterator(gb_id, graph_break.explanation):
        return None
    tree = tree_around(context, broke)
    calls = [
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "next"
        and node.args
        and node.lineno == broke.line
        and broke.column in {None, node.col_offset}
    ]
    if tree is None or not calls or _is_made_in(tree, calls[0].args[0]):
        return None
    match = _KIND.search(graph_break.explanation)
    kind = (match[1] or match[2]) if match is not None else ""
    what = "a generator" if kind == "generator" else f"a `{kind}`" if kind else "an iterator"
    name = ast.unparse(calls[0].args[0])
    step = f"Call `next({name})` {_OUTSIDE}, and pass in its value"
    if _is_in_loop(tree, calls[0]):
        step = (
            f"Draw the items {_OUTSIDE}, and pass in a list, as `list(itertools.islice({name}, n))` for the `n` items "
            "that one call takes"
        )
    return _TITLE, _TEXT.format(what), (step,)


def _is_made_in(tree: ast.AST, iterator: ast.expr) -> bool:
    """Whether the function makes the iterator, or assigns it; a call may make it as well."""
    if not isinstance(iterator, (ast.Name, ast.Attribute)):
        return True
    name = ast.unparse(iterator)
    is_stored = any(
        isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node) == name
        for node in ast.walk(tree)
    )
    return is_stored or is_computed(tree, iterator)


def _is_in_loop(tree: ast.AST, call: ast.Call) -> bool:
    parents = parents_of(tree)
    node: ast.AST | None = call
    while (node := parents.get(node) if node is not None else None) is not None:
        if isinstance(node, (ast.For, ast.While)):
            return True
    return False


def expected_generator(context: Context, broken: Location) -> str:
    """What to do about a generator that Python runs because `next()` of it breaks the graph at a place; else empty."""
    for graph_break in context.report.breaks:
        broke = graph_break.stack[-1] if graph_break.stack else None
        if broke is None or (broke.path, broke.line) != (broken.path, broken.line):
            continue
        if iterator_words(context, graph_break, broke) is not None:
            return (
                f"Expect it: the generator is made {_OUTSIDE}, where Python runs it. The graph break on line "
                f"{broke.line} says how to pass its items in"
            )
    return ""
