"""Functions and classes of the user's as Python text, without comments, annotations and what compiles them.

Invariant: only text of files is read; nothing is run.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator
from typing import Any


class NoSourceError(Exception):
    """A function or class whose text is not known."""


def tree_of(value: Any) -> ast.stmt:
    """The definition of a function, class or code object. Raises NoSourceError."""
    code = value if isinstance(value, types.CodeType) else getattr(value, "__code__", None)
    if isinstance(code, types.CodeType) and code.co_name == "<lambda>":
        return _lambda(code)
    try:
        text = textwrap.dedent("".join(inspect.getsourcelines(value)[0]))
        (statement,) = ast.parse(text).body
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):
        raise NoSourceError(getattr(value, "__name__", "") or getattr(code, "co_name", "")) from None
    if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        raise NoSourceError(getattr(value, "__name__", ""))
    return _Plain().visit(statement)  # type: ignore[no-any-return]


def _lambda(code: types.CodeType) -> ast.stmt:
    try:
        lines, _ = inspect.findsource(code)
        tree = ast.parse("".join(lines))
    except (OSError, SyntaxError, ValueError):
        raise NoSourceError("lambda") from None
    matches = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and _is_of(node, code)]
    if not matches:
        raise NoSourceError("lambda")
    arguments = matches[0].args
    body: list[ast.stmt] = [ast.Return(matches[0].body)]
    function = ast.FunctionDef("function", arguments, body, [], type_params=[])  # type: ignore[call-arg]
    return ast.fix_missing_locations(function)


def _is_of(node: ast.Lambda, code: types.CodeType) -> bool:
    """Whether a lambda of the file is that of a code object: by line and parameters, and by the columns of its body."""
    given = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    if node.lineno != code.co_firstlineno or tuple(given) != code.co_varnames[: code.co_argcount]:
        return False
    positions = getattr(code, "co_positions", None)  # new in Python 3.11
    if positions is None:
        return True
    places, body = list(positions()), node.body
    return any(
        line == body.lineno
        and column is not None
        and column >= body.col_offset
        and end == body.end_col_offset
        for line, _, column, end in places
    )


class _Plain(ast.NodeTransformer):
    """Leaves out annotations, texts that document, and decorators that compile."""

    def _function(self, node: Any) -> Any:
        self.generic_visit(node)
        node.returns = None
        node.body = _without_text(node.body)
        node.decorator_list = [each for each in node.decorator_list if not _compiles(each)]
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815 - the names are ast's

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        self.generic_visit(node)
        node.body = _without_text(node.body)
        node.decorator_list = [each for each in node.decorator_list if not _compiles(each)]
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and "ClassVar" not in ast.unparse(statement.annotation):
                statement.annotation = ast.Name("object", ast.Load())  # a field of a dataclass needs one
        return node

    def visit_arg(self, node: ast.arg) -> Any:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        self.generic_visit(node)
        return node


def _without_text(body: list[ast.stmt]) -> list[ast.stmt]:
    left = [
        statement
        for statement in body
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]
    return left or [ast.Pass()]


def _compiles(decorator: ast.expr) -> bool:
    text = ast.unparse(decorator)
    return text.partition("(")[0].rpartition(".")[2] in {"compile", "optimize"} or "torch.compile" in text


def free_names(tree: ast.AST) -> Iterator[str]:
    """The names that a definition reads and does not bind itself, and perhaps a few more."""
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and _is_store(node)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    shared = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in bound - shared:
            yield node.id


def _is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, (ast.Store, ast.Del))


def attributes_read(tree: ast.AST, name: str) -> Iterator[str]:
    """What a definition reads of the module that it calls `name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            yield node.attr
