"""Reads in the source of a context manager whether its `__exit__` suppresses an exception.

Invariant: no code of the user's runs; a statement or an expression of an unknown kind gives no answer.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

_Tree = Callable[[str], "ast.Module | None"]
"""The parsed source of a file."""
_PARAMETERS = 4
"""Of `__exit__`: `self`, the type, the exception and its traceback."""


def exit_suppresses(kind: type, raised: Sequence[str], tree: _Tree) -> bool:
    """Whether `__exit__` of a class returns true for an exception whose type and bases have these names."""
    method = inspect.getattr_static(kind, "__exit__", None)
    function = _source(method, tree)
    if function is None:
        return False
    names = [argument.arg for argument in function.args.args][1:_PARAMETERS]
    if len(names) < _PARAMETERS - 1 and function.args.vararg is None:
        return False
    kind_name, error_name, *_ = (*names, "", "")
    return _Exit(kind_name, error_name, tuple(raised), method.__globals__).returned(function.body) is True


def static_value(name: str, variables: Mapping[str, Any]) -> Any:
    """The value of a dotted name among global variables, None if there is none. No property runs."""
    first, *rest = name.split(".")
    value = variables.get(first, getattr(builtins, first, None))
    for part in rest:
        value = inspect.getattr_static(value, part, None)
        value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    return value


def yield_line(generator: Any, tree: _Tree) -> int | None:
    """The line of the only `yield` of a generator function, at which a block raises into it."""
    function = _source(generator, tree)
    yields = [node for node in ast.walk(function) if isinstance(node, ast.Yield)] if function else []
    return yields[0].lineno if len(yields) == 1 else None


def _source(function: Any, tree: _Tree) -> ast.FunctionDef | None:
    if type(function) is not FunctionType:
        return None
    code = function.__code__
    if (source := tree(code.co_filename)) is None:
        return None
    functions = (node for node in ast.walk(source) if isinstance(node, ast.FunctionDef))
    return next(
        (
            node
            for node in functions
            if node.name == code.co_name
            and min([node.lineno, *(item.lineno for item in node.decorator_list)]) == code.co_firstlineno
        ),
        None,
    )


class _Unknown(Exception):  # noqa: N818 - ends a reading, as StopIteration does
    """What the code does cannot be read."""


@dataclass(frozen=True)
class _Exit:
    """One call of an `__exit__`."""

    kind: str
    """Its parameter for the type of the exception."""
    error: str
    """That for the exception."""
    raised: tuple[str, ...]
    variables: Mapping[str, Any]
    """The global variables of its file."""

    def returned(self, body: Sequence[ast.stmt]) -> bool | None:
        """What the statements return, as a bool; None if they return nothing known."""
        try:
            return self._run(body)
        except _Unknown:
            return None

    def _run(self, body: Sequence[ast.stmt]) -> bool | None:
        """None where the code after them runs."""
        for statement in body:
            result = None
            if isinstance(statement, ast.Return):
                return statement.value is not None and self._is_true(statement.value)
            if isinstance(statement, ast.If):
                result = self._run(statement.body if self._is_true(statement.test) else statement.orelse)
            elif any(isinstance(node, (ast.Return, ast.Raise)) for node in ast.walk(statement)):
                raise _Unknown
            if result is not None:
                return result
        return None

    def _is_true(self, test: ast.expr) -> bool:
        if isinstance(test, ast.Constant):
            return bool(test.value)
        if isinstance(test, ast.Name) and test.id in {self.kind, self.error}:
            return True
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return not self._is_true(test.operand)
        if isinstance(test, ast.BoolOp):
            is_and = isinstance(test.op, ast.And)
            return next((not is_and for part in test.values if self._is_true(part) is not is_and), is_and)
        if (
            isinstance(test, ast.Call)
            and ast.unparse(test.func) in {"isinstance", "issubclass"}
            and [ast.unparse(part) for part in test.args[:1]] in ([self.kind], [self.error])
        ):
            return any(name in self.raised for name in self._kinds(test.args[-1]))
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compare(test.left, test.ops[0], test.comparators[0])
        raise _Unknown

    def _compare(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> bool:
        """`kind is None`, `kind is IndexError`, `kind in (KeyError, IndexError)` and their opposites."""
        if ast.unparse(left) not in {self.kind, self.error}:
            raise _Unknown
        is_equal = self.raised[0] in self._kinds(right) and ast.unparse(left) == self.kind
        if isinstance(operator, (ast.Is, ast.Eq, ast.In)):
            return is_equal
        if isinstance(operator, (ast.IsNot, ast.NotEq, ast.NotIn)):
            return not is_equal
        raise _Unknown

    def _kinds(self, node: ast.expr) -> list[str]:
        """The names of the types that an expression lists."""
        if isinstance(node, ast.Constant) and node.value is None:
            return []
        parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
        values = [static_value(ast.unparse(part), self.variables) for part in parts]
        kinds = [kind for value in values for kind in (value if isinstance(value, tuple) else (value,))]
        if not all(isinstance(kind, type) for kind in kinds):
            raise _Unknown
        return [kind.__name__ for kind in kinds]
