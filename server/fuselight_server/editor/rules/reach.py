"""Which new statements the program surely reaches, judged by the old statements around them that were traced.

Invariant: control comes to a statement only through the statements before it in its block. So a new statement is
reached if a later one of its block was traced, or if an earlier one was traced and control left it at its end.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from fuselight_server.editor.rules.functions import EditedFunction

_EXITS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_NO_TRACE = (ast.Pass, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom)


def is_reached(function: EditedFunction, block: Sequence[ast.stmt], index: int, *, entered: bool) -> bool:
    """Whether the new statement at `index` of a block is reached; `entered` says that its first statement is."""
    before = block[:index]
    if any(function.is_new(node) and has_exit(node) for node in before):
        return False
    if any(function.is_traced(node) for node in block[index + 1 :]):
        return True
    for statement in reversed(before):
        if function.is_new(statement) or _leaves_no_facts(statement):
            continue
        return function.is_traced(statement) and ends(function, statement)
    return entered or _replaces_traced(function, block, index)


def has_exit(node: ast.stmt) -> bool:
    """Whether control may leave a statement otherwise than at its end; functions that it defines do not count."""
    waiting: list[ast.AST] = [node]
    while waiting:
        child = waiting.pop()
        if isinstance(child, (*_EXITS, ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(child))
    return False


def ends(function: EditedFunction, node: ast.stmt) -> bool:
    """Whether an old statement that was traced was left at its end, at least once."""
    if not has_exit(node):
        return True
    if isinstance(node, ast.If):
        branch = function.branch(node.test)
        if branch is None:
            return False
        body, other = (
            all(ends(function, statement) for statement in side) for side in (node.body, node.orelse)
        )
        return (branch.true > 0 and body) or (branch.false > 0 and other)
    if isinstance(node, (ast.For, ast.While)):  # `break` and `continue` leave its body, not the loop
        return not any(_returns(statement) for statement in (*node.body, *node.orelse))
    if isinstance(node, ast.With):
        return all(ends(function, statement) for statement in node.body)
    return False


def _returns(node: ast.AST) -> bool:
    return any(isinstance(node, (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)) for node in ast.walk(node))


def _leaves_no_facts(node: ast.stmt) -> bool:
    return isinstance(node, _NO_TRACE) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def _replaces_traced(function: EditedFunction, block: Sequence[ast.stmt], index: int) -> bool:
    """Whether a block of new statements stands in the place of old ones, of which the first was traced."""
    edited, first = function.edited, block[0].lineno
    hunk = edited.hunk_of(first)
    if hunk is None or hunk.old_last < hunk.old_first or edited.hunk_of(block[index].lineno) != hunk:
        return False
    old = next(
        (line for line in range(hunk.old_first, hunk.old_last + 1) if _is_code(edited.old[line - 1])), 0
    )
    if next(line for line in range(hunk.first, first + 1) if _is_code(edited.new[line - 1])) != first:
        return False  # the hunk begins with a statement around the block
    same_indent = old > 0 and _indent(edited.old[old - 1]) == block[0].col_offset
    return same_indent and old in function.old_lines_traced


def _is_code(row: bytes) -> bool:
    text = row.strip()
    return bool(text) and not text.startswith(b"#")


def _indent(row: bytes) -> int:
    return len(row) - len(row.lstrip())
