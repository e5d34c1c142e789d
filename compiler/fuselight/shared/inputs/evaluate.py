"""Evaluates a parsed directive node by node, so that an error has the exact location in the text.

Invariant: exceptions of user code (`UserCallError`) are separate from errors in a directive (`DirectiveError`): the
first is a failure of the user's program, the second a comment to correct.
"""

from __future__ import annotations

import ast
import builtins
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any, cast

from fuselight.shared.inputs.grammar import DTYPES, Directive, DirectiveError, TensorSpec, dtype_of

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}


class UserCallError(Exception):
    """User code called by the directive raised an exception, which is `__cause__`."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(f"raised in the call at bytes {start} to {end}")
        self.start = start
        self.end = end


class Evaluator:
    """Evaluates nodes of one directive in the namespace `names`, making tensors with `make_tensor`."""

    def __init__(
        self,
        directive: Directive,
        names: Mapping[str, Any],
        make_tensor: Callable[[TensorSpec], Any],
        *,
        missing: str = "the file has no name",
    ) -> None:
        """`missing`: what is said before a name that `names` does not have."""
        self.directive = directive
        self.names = names
        self.make_tensor = make_tensor
        self.missing = missing

    def value(self, node: ast.expr) -> Any:  # noqa: C901, PLR0911, PLR0912 - one branch a kind of node
        """Make the object that `node` stands for. Raises DirectiveError or UserCallError."""
        if isinstance(node, ast.Constant):
            return node.value
        if dtype_of(node) is not None:
            return self._tensor(node, None)
        if self.directive.is_scalar_tensor(node):
            spec = TensorSpec(DTYPES[ast.unparse(node.func)], ())
            return self._guard(node, lambda: self.make_tensor(spec))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and dtype_of(node.left) is not None:
            return self._tensor(node.left, self._whole(node.right, "a bound", least=1))
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Call):
            return self.call(self.value(node.func), node)
        if isinstance(node, ast.Tuple):
            return tuple(self._items(node.elts))
        if isinstance(node, ast.List):
            return self._items(node.elts)
        if isinstance(node, ast.Set):
            return self._guard(node, lambda: set(self._items(node.elts)))
        if isinstance(node, ast.Dict):
            return self._dict(node)
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            return self._guard(node, lambda: getattr(owner, node.attr))
        if isinstance(node, ast.Subscript):
            owner, key = self.value(node.value), self.value(node.slice)
            return self._guard(node, lambda: owner[key])
        if isinstance(node, ast.Slice):
            return slice(
                *(None if part is None else self.value(part) for part in (node.lower, node.upper, node.step))
            )
        if isinstance(node, ast.UnaryOp):
            operand = self.value(node.operand)
            return self._guard(node, lambda: _UNARY[type(node.op)](operand))
        if isinstance(node, ast.BinOp):
            left, right = self.value(node.left), self.value(node.right)
            return self._guard(node, lambda: _BINARY[type(node.op)](left, right))
        raise self.directive.error("this cannot stand here", node)

    def call(self, function: Any, node: ast.Call) -> Any:
        """Call `function` with the arguments of `node`."""
        args, kwargs = self.arguments(node.args, tuple(node.keywords))
        return self._guard(node, lambda: function(*args, **kwargs))

    def arguments(
        self, args: list[ast.expr], keywords: tuple[ast.keyword, ...]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Make the values of a call's arguments."""
        named: dict[str, Any] = {}
        for keyword in keywords:
            value = self.value(keyword.value)
            if keyword.arg is not None:
                named[keyword.arg] = value
            elif isinstance(value, Mapping):
                named.update(value)
            else:
                raise self.directive.error("`**` takes a dict", keyword.value)
        return self._items(args), named

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        out: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                spread = self.value(node.value)
                out.extend(self._guard(node, functools.partial(list, spread)))
            else:
                out.append(self.value(node))
        return out

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.value(value_node)
            if key_node is None:
                self._guard(value_node, functools.partial(out.update, value))
            else:
                key = self.value(key_node)
                self._guard(key_node, functools.partial(out.__setitem__, key, value))
        return out

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            return self.names[node.id]
        if hasattr(builtins, node.id):
            return getattr(builtins, node.id)
        if node.id in DTYPES:
            message = f"needs a shape, as {node.id}[4, 8]; {node.id}[] is a tensor without dimensions"
            raise self.directive.error(f"{node.id} {message}", node)
        raise self.directive.error(f"{self.missing} `{node.id}`", node)

    def _tensor(self, node: ast.expr, bound: int | None) -> Any:
        index = cast("ast.Subscript", node).slice
        sizes = index.elts if isinstance(index, ast.Tuple) else [index]
        shape = tuple(self._whole(size, "a size", least=0) for size in sizes)
        spec = TensorSpec(dtype_of(node) or "", shape, bound)
        return self._guard(node, lambda: self.make_tensor(spec))

    def _whole(self, node: ast.expr, what: str, *, least: int) -> int:
        value = self.value(node)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            shown = repr(value)[:40]
            raise self.directive.error(f"{what} is a whole number, {least} or more, not {shown}", node)
        return int(value)

    def _guard(self, node: ast.AST, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except (DirectiveError, UserCallError):
            raise
        except Exception as error:
            raise UserCallError(*self.directive.span(node)) from error
