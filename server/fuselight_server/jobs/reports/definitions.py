"""The functions of a local file, by their first line: `def` line, qualified name, parameters.

Invariant: the source is parsed and never run; a file that does not parse has no functions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fuselight.shared.foreign_data import try_parse_python

_MAX_LINES = 100_000


@dataclass(frozen=True)
class LocalFunction:
    """A function of a file."""

    line: int
    """Its `def` line."""
    name: str
    """As Python qualifies it, without the functions around it: `Net.forward`."""
    parameters: tuple[str, ...]
    first: int
    """Its first line: that of a decorator, if there is one."""
    last: int


def read_definitions(lines: Sequence[str]) -> dict[tuple[int, str], LocalFunction]:
    """The functions by first line, which is that of a decorator if there is one, and name; by `def` line, too."""
    if len(lines) > _MAX_LINES:
        return {}
    tree = try_parse_python("\n".join(lines))
    if tree is None:
        return {}
    out: dict[tuple[int, str], LocalFunction] = {}
    for node, definition in _functions(tree):
        for line in (definition.first, node.lineno):
            out.setdefault((line, node.name), definition)
    return out


def _functions(
    tree: ast.Module,
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, LocalFunction]]:
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, prefix = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            last = node.end_lineno or node.lineno
            yield (
                node,
                LocalFunction(node.lineno, f"{prefix}{node.name}", _parameters(node.args), first, last),
            )
            prefix = ""
        elif isinstance(node, ast.ClassDef):
            prefix = f"{prefix}{node.name}."
        waiting += [(child, prefix) for child in ast.iter_child_nodes(node)]


def _parameters(arguments: ast.arguments) -> tuple[str, ...]:
    """As `co_varnames` has them: the positional ones, the keyword-only ones, then those with stars."""
    stars = (item for item in (arguments.vararg, arguments.kwarg) if item is not None)
    return tuple(
        item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *stars)
    )
