"""Which statement decides that a line of a function runs, by its source.

For a line that only compiled code, or only eager mode, runs. Invariant: a statement is named only if eager mode ran its
first line.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping

_DECIDING: tuple[type[ast.AST], ...] = (
    ast.If,
    ast.For,
    ast.While,
    ast.Try,
    ast.IfExp,
    ast.AsyncFor,
    ast.Match,
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def deciding_line(source: str, line: int, executed: Mapping[int, int]) -> int | None:
    """The line of the statement that decides whether `line` runs; None if none is known.

    `executed`: the lines of the file that eager mode ran, and when it ran each for the last time.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    function = _innermost(tree, line, _FUNCTIONS) or tree
    around = [node for node in _nodes_around(function, line, _DECIDING) if _header(node) in executed]
    if around:
        return _source_of_decision(function, around[-1], executed)
    # After a statement that has left the function: what eager mode did last in it was inside of that statement.
    within = [at for at in executed if _contains(function, at) or function is tree]
    if line in executed or not within:
        return None
    last = max(within, key=executed.__getitem__)
    left = [node for node in _nodes_around(function, last, _DECIDING) if _header(node) in executed]
    return _source_of_decision(function, left[-1], executed) if left else None


def _source_of_decision(function: ast.AST, node: ast.AST, executed: Mapping[int, int]) -> int:
    """The first line of a statement, or the line that gave its test the only local variable that it reads."""
    line, test = _header(node), getattr(node, "test", None)
    parts = list(ast.walk(test)) if test is not None else []
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    if len(names) != 1 or any(isinstance(part, (ast.Attribute, ast.Call, ast.Subscript)) for part in parts):
        return line
    return _assigned_before(function, line, names.pop(), executed) or line


def assigning_line(source: str, line: int, name: str, executed: Mapping[int, int]) -> int | None:
    """The line that gave a local variable the value that `line` reads: of those that eager mode ran, the last one."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    function = _innermost(tree, line, _FUNCTIONS)
    if function is None:
        return None
    return _assigned_before(function, line, name, executed)


def skipped_assignment(
    source: str, line: int, name: str, executed: Mapping[int, int], numbers: Container[float]
) -> int | None:
    """The line in the function of `line` that gives a variable one of these numbers, if eager mode did not run it."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    function = _innermost(tree, line, _FUNCTIONS) or tree
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or node.lineno in executed:
            continue
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        given = node.value.value if isinstance(node.value, ast.Constant) else None
        if name in names and isinstance(given, (int, float)) and float(given) in numbers:
            return node.lineno
    return None


def _assigned_before(function: ast.AST, line: int, name: str, executed: Mapping[int, int]) -> int | None:
    places = (
        node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    )
    before = [at for at in places if at in executed and at != line]
    return max(before, key=executed.__getitem__, default=None)


def names_read(source: str, line: int) -> tuple[str, ...]:
    """The local names that the statement of a line reads."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ()
    statement = _innermost(tree, line, (ast.stmt,))
    if statement is None:
        return ()
    return tuple(
        dict.fromkeys(
            node.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        )
    )


def _nodes_around(tree: ast.AST, line: int, kinds: tuple[type[ast.AST], ...]) -> Iterator[ast.AST]:
    """The nodes of these kinds around a line that is not their first, from the outermost."""
    for node in ast.walk(tree):
        if isinstance(node, kinds) and _contains(node, line) and line > _header_end(node):
            yield node


def _innermost(tree: ast.AST, line: int, kinds: tuple[type[ast.AST], ...]) -> ast.AST | None:
    around = [node for node in ast.walk(tree) if isinstance(node, kinds) and _contains(node, line)]
    return min(around, key=lambda node: node.end_lineno - node.lineno) if around else None  # type: ignore[attr-defined]


def _contains(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return first is not None and last is not None and first <= line <= last


def _header(node: ast.AST) -> int:
    test = getattr(node, "test", None)
    return int(test.lineno if test is not None else node.lineno)  # type: ignore[attr-defined]


def _header_end(node: ast.AST) -> int:
    """The last line of what decides: of a test, of what a loop goes through."""
    part = getattr(node, "test", None) or getattr(node, "iter", None) or getattr(node, "subject", None)
    return int(part.end_lineno if part is not None else node.lineno)  # type: ignore[attr-defined]
