"""Parses a function of the user's around one of its lines, for advice that depends on what the code does.

Invariant: a function that cannot be read or parsed has no tree, and the caller then knows nothing of it. The lines
and columns of a tree are those of the file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from fuselight.shared.foreign_data import parse_python
from fuselight.shared.report import Location
from fuselight_server.explain.findings.common.context import Context

_LONGEST_FUNCTION = 400
"""Lines of a function that are read."""
_DEF = re.compile(r"\s*(?:async\s+)?def\s")


def function_tree(read_line: Callable[[str, int], str | None], function: Location) -> ast.Module | None:
    """The tree of the function whose `def` line is given."""
    lines: list[str] = []
    indent = 0
    for number in range(function.line, function.line + _LONGEST_FUNCTION):
        line = read_line(function.path, number)
        if line is None:
            break
        line = line.rstrip("\n")
        depth = len(line) - len(line.lstrip())
        if not lines:
            indent = depth
        elif line.strip() and depth <= indent and not line.lstrip().startswith((")", "]", "}", "#")):
            break
        lines.append(line)
    try:
        # A statement around it keeps the columns of a method.
        tree = parse_python("\n".join(["if 1:" if indent else "", *lines]))
        return ast.increment_lineno(tree, function.line - 2)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def cached_function_around(context: Context, at: Location) -> Location | None:
    """The `def` line of the function that a line is in, with its name, if `functools` caches its results."""
    return decorated_around(context, at, _CACHES)


def is_of_context_manager(context: Context, at: Location) -> bool:
    """Whether a line is in a method that a `with` statement calls, or in a generator that a decorator makes one of."""
    function = context.def_above(at) or _def_around(context, at)
    name = _NAME.match(context.read_line(at.path, function.line) or "") if function is not None else None
    is_method = name is not None and name[1] in {"__enter__", "__exit__"}
    return is_method or decorated_around(context, at, _MANAGERS) is not None


def is_decorated_with_compile(context: Context, at: Location) -> bool:
    """Whether a decorator compiles the function that a line is in."""
    return decorated_around(context, at, _COMPILING) is not None


def decorated_around(context: Context, at: Location, decorators: frozenset[str]) -> Location | None:
    """The `def` line of the function that a line is in, if it has one of some decorators, by their last names."""
    function = context.def_above(at) or _def_around(context, at)
    line = function.line - 1 if function is not None else 0
    name = _NAME.match(context.read_line(at.path, line + 1) or "") if function is not None else None
    while name is not None and (match := _DECORATOR.match(context.read_line(at.path, line) or "")):
        if match[1] in decorators:
            return Location(at.path, function.line if function is not None else 0, function=name[1])
        line -= 1
    return None


_NAME = re.compile(r"\s*(?:async\s+)?def\s+(\w+)")
_DECORATOR = re.compile(r"\s*@(?:[\w.]*\.)?(\w+)")
_CACHES = frozenset({"cache", "lru_cache"})
_COMPILING = frozenset({"compile"})
_MANAGERS = frozenset({"contextmanager", "asynccontextmanager"})


def tree_around(context: Context, at: Location) -> ast.Module | None:
    """The tree of the function that a line is in."""
    function = context.def_above(at) or _def_around(context, at)
    return function_tree(context.read_line, function) if function is not None else None


def _def_around(context: Context, at: Location) -> Location | None:
    """The `def` line of the innermost function around a line, as for a comprehension, which Python names itself."""
    text = context.read_line(at.path, at.line) or ""
    indent = len(text) - len(text.lstrip())
    for line in range(at.line - 1, max(at.line - _LONGEST_FUNCTION, 0), -1):
        text = context.read_line(at.path, line) or ""
        depth = len(text) - len(text.lstrip())
        if text.strip() and depth < indent:
            indent = depth
            if _DEF.match(text):
                return Location(at.path, line)
    return None


def parents_of(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """The parent of each node below `tree`."""
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def node_at(tree: ast.AST, at: Location) -> ast.expr | None:
    """The expression with exactly the columns of the place."""
    wanted = (at.line, at.column, at.end_line or at.line, at.end_column)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Call, ast.Subscript)):
            place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            if place == wanted:
                return node
    return None
