"""What to do about a number that Python computes at a graph break, by what the code after the break does with it.

Invariant: the number is advised to be passed in only where its expression needs nothing that the function computes, and
each use of it stands in the source: a use that cannot be read leaves both cases open.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fuselight.shared.report import Location
from fuselight_server.explain.findings.advice.expectations import NOT_TRIED
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.number_uses import Use, calculated, is_dynamic, use_of
from fuselight_server.explain.findings.common.source_tree import parents_of, tree_around

_OPEN = (
    "Expect one compile for each value: computed before the call and passed in, it still needs one where the code "
    "indexes or branches with it. Passed in as a tensor it needs none, where the code only computes with it"
)
_CONVERSIONS = frozenset({"float", "int", "bool"})
_Parents = dict[ast.AST, ast.AST]


def result_step(context: Context, broke: Location | None, fixing: Location | None) -> str:
    """What to do about the number of the expression at `broke`, which `fixing` fixes, if a line is known to."""
    tree = tree_around(context, broke) if broke is not None else None
    parents = parents_of(tree or ast.Module([], []))
    node = next((node for node in parents if broke is not None and _is_at(node, broke)), None)
    while isinstance(parent := parents.get(node or ast.Pass()), ast.Call) and _name(parent) in _CONVERSIONS:
        node = parent
    if not isinstance(node, ast.expr):
        return _expected(fixing.line) if fixing is not None else _OPEN
    reads = list(_reads(node, parents))
    uses = [(use_of(top, parents), top) for top in (calculated(read, parents) for read in reads)]
    needed = (top.lineno for use, top in uses if use not in {Use.OTHER, Use.CONDITION})
    line = fixing.line if fixing is not None else next(needed, None)
    if line is not None:
        return _expected(line)
    if not reads or "`" in (text := ast.unparse(node)) or not _is_given(node, parents):
        return _OPEN
    outcomes = next((top.lineno for use, top in uses if use is Use.CONDITION), None)
    passed = f"Compute `{text}` before the call and pass it in"
    if outcomes is not None:
        return f"{passed}: torch then compiles once for each outcome of the condition on line {outcomes}. {NOT_TRIED}"
    if not any(isinstance(parents[top], (ast.Call, ast.keyword)) for _, top in uses):
        return (
            f"{passed}: the code after the break only calculates with it, and torch keeps such a number dynamic from "
            f"its second value on. {NOT_TRIED}"
        )
    is_of_math = any(
        isinstance(part, ast.Call) and is_dynamic(part) for _, top in uses for part in ast.walk(top)
    )
    return _OPEN if is_of_math else f"{passed} as a tensor: the code after the break accepts one. {NOT_TRIED}"


def _expected(line: int) -> str:
    return (
        f"Expect one compile for each value, also where it is passed in: line {line} needs the number itself"
    )


def _is_at(node: ast.AST, at: Location) -> bool:
    if not isinstance(node, ast.expr):
        return False
    place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    return place == (at.line, at.column, at.end_line or at.line, at.end_column)


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _is_given(node: ast.expr, parents: _Parents) -> bool:
    """Whether the function assigns no name of the expression: a caller can compute it."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return not any(
        isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and part.id in names
        for part in parents
    )


def _reads(node: ast.expr, parents: _Parents) -> Iterator[ast.expr]:
    """The reads of a number, or of the name that it is assigned to, and those that need what is calculated of it."""
    statement = parents.get(node)
    if not isinstance(statement, ast.Assign):
        yield node
        return
    names, seen = [_target(statement, parents)], set[str]()
    while names:
        name = names.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        for read in parents:
            if isinstance(read, ast.Name) and isinstance(read.ctx, ast.Load) and read.id == name:
                top = calculated(read, parents)
                is_number = name == _target(statement, parents)
                if is_number or use_of(top, parents) is not Use.OTHER:
                    yield read
                names += [_target(parents[top], parents)] if isinstance(parents[top], ast.Assign) else []


def _target(statement: ast.AST, parents: _Parents) -> str:
    """The variable that a statement assigns, if no other one assigns it; else empty."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
    stores = [node for node in parents if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return name if sum(store.id == name for store in stores) == 1 else ""
