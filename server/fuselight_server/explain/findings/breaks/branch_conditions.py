"""The branch at a place, and what its condition says: which operands a tensor decides, which names the code computes.

Invariant: an operand counts as one of a tensor only by what stands in the source, and as one of Python only where no
tensor can decide it. What cannot be read is neither.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeAlias

from fuselight.shared.report import Location
from fuselight_server.base.finding import Span
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import tree_around

Branch: TypeAlias = ast.If | ast.While | ast.IfExp | ast.Assert | ast.comprehension | ast.BoolOp


def branch_at(tree: ast.AST | None, at: Location) -> Branch | None:
    """The smallest node with a condition at the place."""
    if tree is None:
        return None
    branches = [
        (_length(part), node)
        for node in ast.walk(tree)
        if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert, ast.comprehension))
        for part in conditions_of(node)
        if part.lineno <= at.line <= (part.end_lineno or part.lineno) and _covers(part, at)
    ]
    if branches:
        return min(branches, key=lambda item: item[0])[1]
    whole = (
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.If, ast.While, ast.Assert)) and node.lineno == at.line
    )
    return next(whole, None) or _operands(tree, at)


def _operands(tree: ast.AST, at: Location) -> ast.BoolOp | None:
    return next(
        (node for node in ast.walk(tree) if isinstance(node, ast.BoolOp) and node.lineno == at.line), None
    )


def conditions_of(node: ast.AST) -> Iterator[ast.expr]:
    """The conditions of a statement or a comprehension."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        yield node.test
    elif isinstance(node, ast.comprehension):
        yield from node.ifs


def condition_of(node: ast.AST) -> ast.AST:
    """The condition; the node itself where it has several, or is one."""
    tests = list(conditions_of(node))
    return tests[0] if len(tests) == 1 else node


def _covers(part: ast.expr, at: Location) -> bool:
    """Whether the place is within the condition. Before Python 3.12 it may be the whole statement."""
    if at.column is None or at.end_line not in {None, at.line}:
        return True
    return at.line != part.lineno or at.end_column is None or at.end_column > part.col_offset


def _length(part: ast.expr) -> tuple[int, int]:
    return ((part.end_lineno or part.lineno) - part.lineno, (part.end_col_offset or 0) - part.col_offset)


def operands_of(test: ast.AST) -> list[ast.expr]:
    """The operands of `and`, `or` and `not` that decide a condition, in their order."""
    if isinstance(test, ast.BoolOp):
        return [operand for value in test.values for operand in operands_of(value)]
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return operands_of(test.operand)
    return [test] if isinstance(test, ast.expr) else []


def is_decided_by_python(operand: ast.expr) -> bool:
    """Whether no tensor decides an operand, as in `x is None`."""
    if isinstance(operand, ast.Compare):
        return all(isinstance(operator, (ast.Is, ast.IsNot)) for operator in operand.ops)
    if isinstance(operand, ast.Call):
        return isinstance(operand.func, ast.Name) and operand.func.id in _OF_TYPES
    return isinstance(operand, ast.Constant)


_OF_TYPES = frozenset({"isinstance", "issubclass", "hasattr", "callable", "len"})


def tensor_operand(context: Context, at: Location) -> Span | None:
    """The operand of a condition whose tensor breaks the graph at `at`, where torch names another place; else None.

    Python before 3.12 gives the jump after an operand the place of the last comparison before it.
    """
    tree = tree_around(context, at)
    node = branch_at(tree, at)
    operands = operands_of(condition_of(node)) if node is not None else []
    if len(operands) < 2 or at.column is None:  # noqa: PLR2004 - a condition of parts
        return None
    index = next((index for index, operand in enumerate(operands) if _is_at(operand, at)), None)
    possible = [operand for operand in operands if not is_decided_by_python(operand)]
    if index is not None:
        named = operands[index]
        is_certain = not isinstance(named, ast.Compare) or index == len(operands) - 1
        if not is_decided_by_python(named) and (is_certain or _python(context) >= _EXACT_PLACES):
            return None
        later = [operand for operand in operands[index + 1 :] if not isinstance(operand, ast.Compare)]
        possible = [operand for operand in possible if operand is named or operand in later] or possible
    part = possible[0] if len(possible) == 1 else condition_of(node) if node is not None else None
    if part is None or not isinstance(part, ast.expr) or part.end_lineno is None:
        return None
    return Span(at.path, part.lineno, part.col_offset, part.end_lineno, part.end_col_offset)


_EXACT_PLACES = (3, 12)


def _python(context: Context) -> tuple[int, ...]:
    numbers = re.findall(r"\d+", context.report.versions.python)
    return tuple(map(int, numbers[:2]))


def _is_at(operand: ast.expr, at: Location) -> bool:
    return (operand.lineno, operand.col_offset, operand.end_col_offset) == (
        at.line,
        at.column,
        at.end_column,
    )


def is_computed(tree: ast.AST | None, test: ast.AST) -> bool:
    """Whether the function itself computes a name of a condition, so that no caller can pass in what it decides."""
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    return any(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in names
        for node in ast.walk(tree or test)
    )
