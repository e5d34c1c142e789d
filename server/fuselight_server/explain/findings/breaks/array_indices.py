"""Arrays of NumPy that code indexes with a number that varies: torch traces an array as a tensor, but not that.

`float(rates[step])` breaks the graph twice: for the number while `step` is constant, and for the index once torch has
made it dynamic. Invariant: both are one finding, on the whole expression.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from fuselight.shared.report import Break, Location
from fuselight_server.explain.findings.breaks.branch_conditions import is_computed
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import node_at, tree_around

_TITLE = "a NumPy array is indexed with a number that varies"
_TEXT = (
    "torch.compile traces an array of NumPy as a tensor, but cannot select an element by a number that is not known "
    "while it traces, as one that it made dynamic."
)
_NUMBER_TEXT = (
    "While the index is constant, the value of the element is needed as a Python number, which is not known."
)
_SELECTED = re.compile(r"\bselect\(\): argument 'input' .*must be Tensor, not ndarray")
_GIVEN = (
    "Compute `{}` outside the compiled code, and pass it in: as a tensor, if the code only computes with it"
)
_SELECT = "Select from `{}` outside the compiled code, by a number that the code returns"
_TENSOR = (
    "Make a tensor of `{0}` outside the compiled code, torch.from_numpy({0}), and index that: torch traces it with a "
    "number that varies"
)


def array_words(context: Context, graph_break: Break) -> tuple[str, str, tuple[str, ...]] | None:
    """The words of a break of an index, or of the number that an expression reads around one; None for all else."""
    index = inner_index(graph_break, context.report.breaks)
    if index is None or not index.stack:
        return None
    tree = tree_around(context, index.stack[-1])
    node = node_at(tree, index.stack[-1]) if tree is not None else None
    if not isinstance(node, ast.Subscript):
        return None
    is_given = len(index.stack) == 1 and not is_computed(tree, node)
    array, tensor = ast.unparse(node.value), _TENSOR.format(ast.unparse(node.value))
    given = (_GIVEN.format(ast.unparse(node)),) if is_given else ()
    if index is not graph_break:
        return _TITLE, f"{_TEXT} {_NUMBER_TEXT}", given or (_SELECT.format(array),)
    return _TITLE, _TEXT, (*given, f"Or {tensor[0].lower()}{tensor[1:]}") if given else (tensor,)


def inner_index(graph_break: Break, others: Iterable[Break]) -> Break | None:
    """The break of an index that a break is, or that is inside of its expression; None if the report has none."""
    outer = graph_break.stack[-1] if graph_break.stack else None
    inside = (item for item in others if item.stack and outer is not None and _holds(outer, item.stack[-1]))
    indices = (
        item for item in (graph_break, *inside) if _SELECTED.search(f"{item.explanation} {item.context}")
    )
    return next(indices, None)


def _holds(outer: Location, inner: Location) -> bool:
    places = [
        (place.path, place.line, place.end_line or place.line, place.column, place.end_column)
        for place in (outer, inner)
    ]
    columns = (outer.column, inner.column, inner.end_column, outer.end_column)
    known = [column for column in columns if column is not None]
    return places[0][:3] == places[1][:3] and len(known) == len(columns) and known == sorted(known)
