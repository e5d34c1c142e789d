"""Whether a number that breaks the graph is only a size, so that no tensor can take its place, or an index.

Invariant: only uses that stand in the function itself count.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from fuselight_server.explain.findings.common.number_uses import Use, uses_of
from fuselight_server.explain.findings.common.source_tree import tree_around

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.shared.report import Location
    from fuselight_server.explain.findings.common.context import Context


def used_as_size(context: Context, at: Location) -> bool:
    """Whether the function uses the numbers of the statement at `at` only as sizes, which no tensor can be."""
    function, tree = context.def_above(at), tree_around(context, at)
    if function is None or tree is None:
        return False
    names = tuple(dict.fromkeys(_bound(tree, at)))
    uses = uses_of(context.read_line, function, names) if names else frozenset()
    return bool(uses) and uses <= {Use.SIZE, Use.SLICE}


def indexed(context: Context, at: Location) -> tuple[str, str] | None:
    """What is indexed at `at` and the name of the index, as `boxes` and `first` of `boxes[first]`; else None."""
    tree = tree_around(context, at)
    places = (
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, (ast.Name, ast.Attribute))
        and (node.lineno, node.col_offset) == (at.line, at.column)
    )
    node = next(places, None)
    return None if node is None else (ast.unparse(node.value), ast.unparse(node.slice))


def _bound(tree: ast.AST, at: Location) -> Iterator[str]:
    """The names that the statement of a line assigns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and node.lineno <= at.line <= (node.end_lineno or node.lineno):
            yield from _targets(node)


def _targets(statement: ast.Assign) -> Iterator[str]:
    for target in statement.targets:
        elements = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        yield from (expression.id for expression in elements if isinstance(expression, ast.Name))
