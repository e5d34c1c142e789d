"""What waits on Python's stack while a part of a statement is evaluated: the values that a graph break carries over.

Invariant: the values are those that CPython has evaluated before the part, in its order. A form of statement whose
order is not listed here has no answer.
"""

from __future__ import annotations

import ast
import itertools
import textwrap
from dataclasses import dataclass

from fuselight.shared.foreign_data import parse_python


@dataclass(frozen=True)
class WaitingValue:
    """A value that was evaluated before the part that broke."""

    text: str
    is_method: bool = False
    """Whether it is a bound method, which Python creates again for each call."""


def waiting_values(lines: list[str], column: int, length: int) -> tuple[WaitingValue, ...] | None:
    """The values that wait while a part of a statement is evaluated; None if the statement gives no answer.

    `lines` are those of the statement, `column` the UTF-8 byte in its first line where the part starts, `length` the
    bytes of the part, which ends on that line.
    """
    indent = len(lines[0]) - len(lines[0].lstrip())
    text = textwrap.dedent("\n".join(lines))
    start = column - indent
    try:
        tree = parse_python(text if not text.rstrip().endswith(":") else f"{text} pass")
        return _waiting(_path(tree, start, start + length))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _waiting(path: list[ast.AST] | None) -> tuple[WaitingValue, ...] | None:
    """The values that wait for the last of the nodes."""
    if path is None:
        return None
    out: list[WaitingValue] = []
    for parent, child in itertools.pairwise(path):
        before = _before(parent, child)
        if before is None:
            return None
        out += before
    return tuple(out)


def _path(tree: ast.AST, start: int, end: int) -> list[ast.AST] | None:
    """The nodes from the tree to the expression at the columns."""
    for node in ast.iter_child_nodes(tree):
        place = (
            getattr(node, "lineno", 0),
            getattr(node, "col_offset", -1),
            getattr(node, "end_col_offset", -1),
        )
        if isinstance(node, ast.expr) and place == (1, start, end):
            return [tree, node]
        below = _path(node, start, end)
        if below is not None:
            return [tree, *below]
    return None


def _before(parent: ast.AST, child: ast.AST) -> list[WaitingValue] | None:  # noqa: PLR0911 - one return a form
    """The values that a node has evaluated before one of its children."""
    if isinstance(parent, ast.Call):
        if child is parent.func:
            return []
        given: list[ast.expr | ast.keyword] = [*parent.args, *parent.keywords]
        done = itertools.takewhile(lambda node: node is not child, given)
        function = WaitingValue(ast.unparse(parent.func), is_method=isinstance(parent.func, ast.Attribute))
        return [function, *(WaitingValue(ast.unparse(_value(node))) for node in done)]
    if isinstance(parent, ast.BinOp):
        return [WaitingValue(ast.unparse(parent.left))] if child is parent.right else []
    if isinstance(parent, ast.Compare):
        operands = [parent.left, *parent.comparators]
        earlier = [*itertools.takewhile(lambda expression: expression is not child, operands)]
        return [
            WaitingValue(ast.unparse(expression)) for expression in earlier[-1:]
        ]  # of `a < b < c`, `a < b` is done
    if isinstance(parent, ast.Subscript):
        return [WaitingValue(ast.unparse(parent.value))] if child is parent.slice else []
    if isinstance(parent, ast.AugAssign):
        return list(map(WaitingValue, _read_before(parent.target))) if child is parent.value else []
    if isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
        return [
            WaitingValue(ast.unparse(expression))
            for expression in itertools.takewhile(lambda expression: expression is not child, parent.elts)
        ]
    handed_on = (
        ast.Module,
        ast.Expr,
        ast.Assign,
        ast.AnnAssign,
        ast.Return,
        ast.keyword,
        ast.Attribute,
        ast.UnaryOp,
    )
    if isinstance(parent, (*handed_on, ast.If, ast.While, ast.Assert)):
        return []
    return None


def _read_before(target: ast.expr) -> list[str]:
    """What `x[k] += ...` has read before the right side: the container, the key, the value."""
    parts = [target.value] if isinstance(target, (ast.Attribute, ast.Subscript)) else []
    if isinstance(target, ast.Subscript):
        parts.append(target.slice)
    return [ast.unparse(part) for part in (*parts, target)]


def _value(node: ast.expr | ast.keyword) -> ast.expr:
    return node.value if isinstance(node, ast.keyword) else node
