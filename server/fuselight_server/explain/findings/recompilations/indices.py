"""A number that is an index next to other indices, as in `cache[:, n]`: torch compiles such code for each value.

The same element by `cache.select(1, n)` leaves the number dynamic. Invariant: a key of a dict is not taken for an
index: one of the other indices is a slice or an ellipsis.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fuselight.shared.report import GuardCause, GuardFailure
from fuselight_server.base.formatting import cut_list, format_list
from fuselight_server.explain.findings.advice.expectations import is_of_object
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import tree_around
from fuselight_server.explain.findings.common.text import quoted

_MAX_NAMED = 3
_LONGEST_VALUE = 30


def index_step(context: Context, failure: GuardFailure, *, is_passed: bool = False) -> tuple[str, ...]:
    """What to write for the elements that a number selects; empty if it selects none so.

    `is_passed`: other advice says to pass the number in.
    """
    read = context.innermost_user_frame(failure.born) if failure.cause is GuardCause.NUMBER else None
    tree = tree_around(context, read) if read is not None else None
    changes = dict.fromkeys(_changes(tree, failure.source)) if tree is not None else {}
    if not changes:
        return ()
    is_attribute = is_of_object(failure) and not is_passed
    first = f"Pass {quoted(failure.source)} in as an argument, and write" if is_attribute else "Write"
    return (
        (
            f"{first} {format_list(cut_list(changes, _MAX_NAMED))}: torch compiles for each value of an index that is "
            "next to others"
        ),
    )


def _changes(tree: ast.Module, number: str) -> Iterator[str]:
    """Each element that the number selects next to others, with what to write for it."""
    assigned = {
        id(node.targets[0]): node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and len(node.targets) == 1
    }
    for node in ast.walk(tree):
        selection = _selection(node, number) if isinstance(node, ast.Subscript) else ""
        value = assigned.get(id(node))
        old = ast.unparse(node) if selection else ""
        if selection and value is not None:
            text = ast.unparse(value)
            shown = text if len(text) <= _LONGEST_VALUE else "..."
            method = "fill_" if isinstance(value, ast.Constant) else "copy_"
            yield f"`{selection}.{method}({shown})` for `{old} = {shown}`"
        elif selection and isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield f"`{selection}` for `{old}`"


def _selection(node: ast.Subscript, number: str) -> str:
    """`cache.select(1, n)[0]` for `cache[0, n]`; empty if the number is no index there, or the only one."""
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
    place = next((at for at, index in enumerate(indices) if _has(index, number)), None)
    if place is None or not any(_is_whole(index) or isinstance(index, ast.Slice) for index in indices):
        return ""
    rest = [index for at, index in enumerate(indices) if at != place]
    if any(isinstance(index, ast.Constant) and index.value is None for index in rest):
        return ""
    is_from_end = any(isinstance(index, ast.Constant) for index in indices[:place] if _is_whole(index))
    dimension = place - len(indices) if is_from_end else place
    selection = f"{ast.unparse(node.value)}.select({dimension}, {ast.unparse(indices[place])})"
    return selection if all(map(_is_whole, rest)) else f"{selection}[{', '.join(map(ast.unparse, rest))}]"


def _has(index: ast.expr, number: str) -> bool:
    return not isinstance(index, ast.Slice) and any(ast.unparse(part) == number for part in ast.walk(index))


def _is_whole(index: ast.expr) -> bool:
    """Whether it is `:` or `...`."""
    is_colon = isinstance(index, ast.Slice) and not any((index.lower, index.upper, index.step))
    return is_colon or (isinstance(index, ast.Constant) and index.value is ...)
